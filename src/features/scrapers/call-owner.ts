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

const lockName = (id: string): string => `scrapes of ${id}`
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
      lock: lockName(id),
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

/** The processes of open calls that Postgres does not know any more. */
export const absentCallOwners = async (pool: Pick<pg.Pool, 'query'>): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ process: string }>({
    name: 'scrapes-absent-owners',
    text: `with owners as materialized (
             select distinct process from read.open_scrapes where process is not null
           )
           select process from owners
            where not exists (
              select from pg_locks l
               where l.locktype = 'advisory' and l.granted and l.objsubid = 1
                 and (l.classid::bigint << 32 | l.objid::bigint)
                     = hashtextextended('farebox ' || $1::text || process, 0)
                 and l.database = (select oid from pg_database where datname = current_database()))`,
    values: [lockName('')],
  })
  return rows.map(({ process }) => process)
}
