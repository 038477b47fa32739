import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type Connection, connect, withAnswerTimeout } from './connection.ts'

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

/** Back-off while Postgres cannot be reached, doubling. */
const firstRetryMs = 50
const lastRetryMs = 2_000

/** Without an answer in this time, a poll counts as a broken connection: TCP may need minutes to detect one. */
const pollTimeoutMs = 5_000

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

  const pollUntilLost = async ({ client, isOpen }: Connection): Promise<void> => {
    while (isOpen() && !closing.signal.aborted) {
      const query = { name: 'farebox-head', text: 'select last_position from log.head' }
      const { rows } = await withAnswerTimeout(client.query(query), pollTimeoutMs)
      notify(Number(rows[0].last_position))
      await sleep(pollMs, undefined, { signal: closing.signal, ref: false })
    }
  }

  const listenOnce = async (onListening: () => void): Promise<void> => {
    const listening = await connect({ ...connection, application_name: 'farebox-listen' }, (error) => {
      if (error !== null && !closing.signal.aborted) onTrouble('the listening connection broke', error)
    })
    try {
      listening.client.on('notification', ({ payload }) => notify(Number(payload)))
      await withAnswerTimeout(listening.client.query('listen farebox_log'), pollTimeoutMs)
      onListening()
      await pollUntilLost(listening)
    } finally {
      listening.destroy()
    }
  }

  const watch = async (): Promise<void> => {
    let retryMs = firstRetryMs
    while (!closing.signal.aborted) {
      try {
        await listenOnce(() => {
          retryMs = firstRetryMs
        })
      } catch (error) {
        if (closing.signal.aborted) return
        onTrouble('listening to the log failed', error as Error)
      }
      await sleep(retryMs, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
      retryMs = Math.min(2 * retryMs, lastRetryMs)
    }
  }

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
