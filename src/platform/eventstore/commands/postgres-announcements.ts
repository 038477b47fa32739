import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type pg from 'pg'
import type { StreamName } from '../../../terms/streams.ts'
import { answered, connect } from '../postgres/connection.ts'
import type { StreamLocks } from './ports.ts'

export type Announcements = Pick<StreamLocks, 'announce' | 'onAnnounced'> & { close(): Promise<void> }

type AnnouncementOptions = {
  readonly pool: pg.Pool
  readonly connection: pg.ClientConfig
  readonly onTrouble?: (what: string, error: Error) => void
}

const channel = 'farebox_contended'
const firstRetryMs = 100
const lastRetryMs = 5_000
const answerTimeoutMs = 5_000

/** Contended streams told from process to process by NOTIFY. What is lost while a connection is down is not missed. */
export const createAnnouncements = ({ pool, connection, onTrouble }: AnnouncementOptions): Announcements => {
  // A process need not hear itself.
  const sender = randomUUID()
  const closing = new AbortController()
  const listeners = new Set<(stream: StreamName) => void>()
  let listening: Promise<void> | null = null

  const hear = (payload = ''): void => {
    const [from, stream] = [payload.slice(0, sender.length), payload.slice(sender.length + 1)]
    if (from !== sender) for (const listener of listeners) listener(stream as StreamName)
  }

  const listenUntilLost = async (onListening: () => void): Promise<void> => {
    const closed = Promise.withResolvers<void>()
    const lost = Promise.withResolvers<void>()
    const listener = await connect({ ...connection, application_name: 'farebox-contended' }, () =>
      lost.resolve(),
    )
    const close = (): void => closed.resolve()
    closing.signal.addEventListener('abort', close, { once: true })
    try {
      listener.client.on('notification', ({ payload }) => hear(payload))
      await answered(listener.client.query(`listen ${channel}`), answerTimeoutMs)
      onListening()
      if (!closing.signal.aborted) await Promise.race([closed.promise, lost.promise])
    } finally {
      closing.signal.removeEventListener('abort', close)
      listener.destroy()
    }
  }

  const listen = async (): Promise<void> => {
    let retryMs = firstRetryMs
    while (!closing.signal.aborted) {
      try {
        await listenUntilLost(() => {
          retryMs = firstRetryMs
        })
      } catch (error) {
        onTrouble?.('listening to contended streams failed', error as Error)
      }
      await pause(retryMs, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
      retryMs = Math.min(2 * retryMs, lastRetryMs)
    }
  }

  return {
    announce(stream) {
      pool
        .query(`select pg_notify($1::text, $2::text)`, [channel, `${sender} ${stream}`])
        .catch((error: Error) => onTrouble?.('a contended stream could not be announced', error))
    },
    onAnnounced(listener) {
      listeners.add(listener)
      listening ??= listen()
    },
    async close() {
      closing.abort()
      await listening
    },
  }
}
