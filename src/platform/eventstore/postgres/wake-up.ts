import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type Connection, connect, withAnswerTimeout } from './connection.ts'

export type Announcer = {
  /** Tells the processes of this database how far the log is. Returns at once. */
  announce(position: number): void
  /** Resolves when what was told is on its way, or failed. */
  idle(): Promise<void>
}

/**
 * NOTIFY in a transaction of its own, after the commit of the batch: a commit that notifies takes a lock of the whole
 * server, every database of it, and inside the batch it would hold that lock while the batch is flushed
 * (docs/decisions/0046-doors-to-many-logs.md). This one waits for no flush.
 *
 * It is a hint and may be lost: whoever waits for events polls the head as well. Only the newest position is
 * told while one is on its way.
 */
export const createAnnouncer = (
  pool: pg.Pool,
  onTrouble: (what: string, error: Error) => void,
): Announcer => {
  let newest = 0
  let sending: Promise<void> | null = null

  const send = async (): Promise<void> => {
    try {
      for (let told = 0; told < newest; ) {
        told = newest
        await pool.query({
          name: 'farebox-announce',
          text: `select set_config('synchronous_commit', 'off', true), pg_notify('farebox_log', $1::text)`,
          values: [String(told)],
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

/** A poll that is not answered in this time counts as a broken connection: TCP alone may take minutes to tell. */
const pollTimeoutMs = 5_000

export type Waker = {
  /** Tells of a position that stands in the log. */
  notify(position: number): void
  /** Waits until an event after `position` is known of, or the signal aborts. */
  waitPast(position: number, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export type WakerOptions = {
  readonly connection: pg.ClientConfig
  readonly pollMs: number
  readonly onTrouble: (what: string, error: Error) => void
}

/**
 * Knows how far the log is, for all subscriptions of a process: by this process's own appends, by NOTIFY, and by a poll
 * over the same connection, which also notices a connection that died in silence. The connection is opened for
 * the first one who waits.
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
