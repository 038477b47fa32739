import { setTimeout as sleep } from 'node:timers/promises'
import type { EventLog, StoredEvent, SubscribeOptions } from '../port.ts'
import type { Recent } from './recent.ts'
import type { Waker } from './waker.ts'

const defaultBatch = 1_000
const firstRetryMs = 50
const lastRetryMs = 2_000

export type SubscriptionSources = {
  readonly readAll: EventLog['readAll']
  readonly recent: Recent
  readonly waker: Waker
  /** Aborted when the log closes. */
  readonly closed: AbortSignal
  readonly onTrouble: (what: string, error: Error) => void
}

/**
 * Reads on from a position for ever. What is delivered comes by position, from `readAll` or from what this process
 * appended right after that position; wake-ups only say when to look, so a lost or doubled one does no harm. A read that
 * fails is tried again from the same position.
 */
export const subscribe = async function* (
  { readAll, recent, waker, closed, onTrouble }: SubscriptionSources,
  { after, maxBatch = defaultBatch, signal }: SubscribeOptions,
): AsyncGenerator<readonly StoredEvent[]> {
  const ended = AbortSignal.any([signal, closed])
  const nextAfter = async (position: number): Promise<readonly StoredEvent[]> => {
    const own = recent.after(position, maxBatch)
    if (own !== null) return own
    await recent.settled(position)
    return recent.after(position, maxBatch) ?? readAll(position, maxBatch)
  }
  let position = after
  let retryMs = firstRetryMs
  while (!ended.aborted) {
    let batch: readonly StoredEvent[]
    try {
      batch = await nextAfter(position)
    } catch (error) {
      if (ended.aborted) return
      onTrouble('reading the log for a subscription failed', error as Error)
      await sleep(retryMs, undefined, { signal: ended }).catch(() => undefined)
      retryMs = Math.min(2 * retryMs, lastRetryMs)
      continue
    }
    retryMs = firstRetryMs
    const last = batch.at(-1)
    if (last !== undefined) {
      position = last.position
      if (ended.aborted) return
      yield batch
    }
    if (batch.length < maxBatch) await waker.past(position, ended)
  }
}
