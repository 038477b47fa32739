import type pg from 'pg'
import { listen } from './connection.ts'

export type Announcer = {
  /** Sends the position of the last event to all processes of this database. Returns at once. */
  announce(position: number): void
  /** Resolves when all announcements are sent, or failed. */
  idle(): Promise<void>
}

/**
 * Sends NOTIFY in a separate transaction after the commit of the batch. A commit with NOTIFY takes a lock of the whole
 * server, for all its databases. As part of the batch it would lock the server during the flush of the batch
 * (docs/decisions/0046-doors-to-many-logs.md). The separate transaction does not wait for a flush.
 *
 * An announcement may be lost, so subscriptions also poll the head. While one is in flight, only the newest of the
 * later positions is sent next.
 */
export const createAnnouncer = (
  pool: pg.Pool,
  onTrouble: (description: string, error: Error) => void,
): Announcer => {
  let newest = 0
  let sending: Promise<void> | null = null

  const send = async (): Promise<void> => {
    try {
      for (let notifiedPosition = 0; notifiedPosition < newest; ) {
        notifiedPosition = newest
        await pool.query({
          name: 'farebox-announce',
          text: `select set_config('synchronous_commit', 'off', true), pg_notify('farebox_log', $1::text)`,
          values: [String(notifiedPosition)],
        })
      }
    } catch (error) {
      onTrouble('the log could not be announced', error as Error)
    } finally {
      sending = null
    }
  }

  return {
    announce: (position) => {
      if (position <= newest) return
      newest = position
      sending ??= send()
    },
    idle: async () => {
      await sending
    },
  }
}

export type Waker = {
  /** Reports a position of an event in the log. */
  notify(position: number): void
  /** Resolves when an event after `position` is known, or the signal aborts. */
  waitPast(position: number, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export type WakerOptions = {
  readonly connection: pg.ClientConfig
  readonly pollMs: number
  readonly onTrouble: (description: string, error: Error) => void
}

/**
 * Tracks the last position of the log for all subscriptions of a process. Its sources are the appends of this process,
 * NOTIFY, and a poll over the same connection. The poll also detects a connection that broke silently. The connection
 * is opened with the first wait.
 */
export const createWaker = ({ connection, pollMs, onTrouble }: WakerOptions): Waker => {
  const closing = new AbortController()
  const waiting = new Set<{ readonly after: number; readonly wake: () => void }>()
  let known = 0
  let watching: Promise<void> | null = null

  const notify = (position: number): void => {
    if (position <= known) return
    known = position
    for (const each of waiting) if (each.after < known) each.wake()
  }

  const watch = (): Promise<void> =>
    listen({
      channel: 'farebox_log',
      connection: { ...connection, application_name: 'farebox-listen' },
      signal: closing.signal,
      onNotification: (payload) => notify(Number(payload)),
      poll: {
        everyMs: pollMs,
        query: { name: 'farebox-head', text: 'select last_position from log.head' },
        onRow: ({ last_position }) => notify(Number(last_position)),
      },
      onTrouble,
    })

  return {
    notify,
    waitPast: (position, signal) =>
      new Promise((resolve) => {
        if (known > position || signal.aborted) return resolve()
        watching ??= watch()
        const entry = {
          after: position,
          wake: () => {
            waiting.delete(entry)
            signal.removeEventListener('abort', entry.wake)
            resolve()
          },
        }
        waiting.add(entry)
        signal.addEventListener('abort', entry.wake)
      }),
    close: async () => {
      closing.abort()
      await watching
    },
  }
}
