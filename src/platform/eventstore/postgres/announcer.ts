import type pg from 'pg'

export type Announcer = {
  /** Tells the processes of this database how far the log is. Returns at once. */
  tell(position: number): void
  /** Resolves when what was told is on its way, or failed. */
  idle(): Promise<void>
}

/**
 * NOTIFY in a transaction of its own, after the commit of the batch: a commit that notifies takes a lock of the whole
 * server, every database of it, and inside the batch it would hold that lock while the batch is flushed
 * (docs/decisions/0046-doors-to-many-logs.md). This one waits for no flush.
 *
 * It is a hint and may be lost: whoever waits for events polls the head as well (waker.ts). Only the newest position is
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
    tell: (position) => {
      if (position <= newest) return
      newest = position
      sending ??= send()
    },
    idle: async () => {
      await sending
    },
  }
}
