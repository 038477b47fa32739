import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'

/**
 * How far the reactor has come, as far as this process knows: who reads deliveries waits for it. The position rises,
 * until a connection to Postgres ends: the reactor's commits do not wait for the disk (src/platform/postgres/session.ts), so
 * a crash of Postgres takes the last ones back.
 */
export type QueueProgress = {
  advance(position: number): void
  /** The reactor's connection has ended: who waits asks anew. */
  forget(): void
  /** Resolves true once the delivery tables hold everything up to a position, false when `timeoutMs` passed first. */
  reached(position: number, timeoutMs: number): Promise<boolean>
}

const pollMs = 20

/** Asks the table only while somebody waits for a reactor of another process, or after a connection ended. */
export const createQueueProgress = (pool: pg.Pool): QueueProgress => {
  let known = 0
  const advance = (position: number): void => {
    if (position > known) known = position
  }
  const forget = (): void => {
    known = 0
  }
  // Any of them may have told where the reactor is. One that ends for another reason costs a query more.
  pool.on('remove', forget)
  return {
    advance,
    forget,
    reached: async (position, timeoutMs) => {
      const deadlineMs = performance.now() + timeoutMs
      for (;;) {
        if (known >= position) return true
        const { rows } = await pool.query<{ position: number }>({
          name: 'webhooks-place',
          text: "select position from work.webhook_reactor where name = 'webhooks'",
        })
        advance(rows[0]?.position ?? 0)
        if (known >= position) return true
        if (performance.now() > deadlineMs) return false
        await sleep(pollMs)
      }
    },
  }
}
