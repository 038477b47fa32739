import { revisionBefore } from '../checks.ts'
import type { AppendItem, StoredEvent } from '../port.ts'

export type Recent = {
  /** Tells of a batch that landed whole: its events stand right after `base`, in the order in which they were written. */
  landed(base: number, items: readonly AppendItem[]): void
  /**
   * The events after a position, at most `limit`, as far as this process knows that they follow it without a gap; null
   * when the log must be asked.
   */
  after(position: number, limit: number): readonly StoredEvent[] | null
  /** Tells of a batch on its way; it settles once `landed` was told, if it landed. */
  sending(batch: Promise<unknown>): void
  /**
   * Waits, some milliseconds at most, for a batch on its way that may stand right after a position. The poll of the head
   * often shows a process its own batch before the answer that `landed` waits for: a subscription woken by it finds the
   * events here a moment later.
   */
  settled(position: number): Promise<void>
}

/** Longer than an append takes; a batch that hangs holds up what others append no more than that. */
const maxSettleMs = 20

/**
 * Kept beside the last batch, for subscriptions that are a moment late. What is kept for longer than two collections of
 * the young generation is copied twice and then waits for a collection of the old one: with 1,024 in place of 256, an
 * order cost a fifth more of the process's time (docs/decisions/0008-orders-a-second.md).
 */
const keptEvents = 256

/**
 * What this process appended last, so that its own subscriptions need not read it back: at thousands of orders a second
 * that reading took a tenth of the append connection's time on Postgres and as much again here. Positions are gapless
 * on Postgres, so events that follow one another by position are all that there is. What another process wrote in
 * between shows as a gap: then only what came after it is kept, and the log is read.
 */
export const createRecent = (): Recent => {
  let events: StoredEvent[] = []
  /** The position before the first of `events`. */
  let before = 0
  let underWay: Promise<unknown> | null = null

  return {
    landed: (base, items) => {
      if (base !== before + events.length) {
        events = []
        before = base
      } else if (events.length > keptEvents) {
        before += events.length - keptEvents
        events = events.slice(-keptEvents)
      }
      for (const { appends } of items)
        for (const { stream, expected, events: written } of appends) {
          let revision = revisionBefore(expected)
          for (const { id, type, data, metadata } of written) {
            revision++
            const position = before + events.length + 1
            events.push({ id, type, data, metadata, stream, revision, position })
          }
        }
    },
    after: (position, limit) => {
      const first = position - before
      return first >= 0 && first < events.length ? events.slice(first, first + limit) : null
    },
    sending: (batch) => {
      const over = (): void => {
        if (underWay === settling) underWay = null
      }
      const settling = batch.then(over, over)
      underWay = settling
    },
    settled: async (position) => {
      if (underWay === null || position < before + events.length) return
      const over = Promise.withResolvers<void>()
      const tooLong = setTimeout(over.resolve, maxSettleMs)
      void underWay.then(() => over.resolve())
      await over.promise
      clearTimeout(tooLong)
    },
  }
}
