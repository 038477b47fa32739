import { once } from 'node:events'
import type pg from 'pg'
import type { Logger } from 'pino'
import { newId } from '../../kernel/ids.ts'
import { runAsLeader } from '../../platform/postgres/locks.ts'
import { sessionAnswerMs } from '../../platform/postgres/postgres-session.ts'

/** A process that makes calls. */
export type CallOwner = {
  /** Its id, which no other process has; null while Postgres does not know that it runs. */
  id(): string | null
  stop(): Promise<void>
}

export const ownerLock = (id: string): string => `scrapes of ${id}`
const reconnectMs = 250

/**
 * Announces this process by an advisory lock, which Postgres releases when the process ends in any way. So other
 * processes end its calls at once and not after their leases.
 */
export const announceCallOwner = ({
  pool,
  logger,
}: {
  readonly pool: pg.Pool
  readonly logger: Pick<Logger, 'warn'>
}): CallOwner => {
  const id = newId('run')
  const stopping = new AbortController()
  let isAnnounced = false
  const loop = runAsLeader(
    {
      pool,
      applicationName: 'farebox scrapes',
      answerTimeoutMs: sessionAnswerMs,
      stop: stopping.signal,
      lock: ownerLock(id),
      standbyMs: reconnectMs,
      onError: (error) => {
        logger.warn({ err: error }, 'the scrapes lost their connection to Postgres and connect again')
        return reconnectMs
      },
    },
    async (_session, signal) => {
      isAnnounced = true
      if (!signal.aborted) await once(signal, 'abort')
      isAnnounced = false
    },
  )
  return {
    id: () => (isAnnounced ? id : null),
    stop: async () => {
      stopping.abort(new Error('the service stops'))
      await loop
    },
  }
}
