import type { StreamName } from '../../../kernel/streams.ts'
import { revisionBefore } from '../append-checks.ts'
import type { AppendItem, ItemOutcome, StoredEvent } from '../port.ts'

type Seen = Pick<StoredEvent, 'position' | 'id'>

/**
 * The newest event that this process has read or written. While the log has it, it has all that the process knows:
 * positions are given in the order of commits, and nothing is ever taken out.
 */
export type NewestKnownEvent = {
  read(events: readonly Seen[]): void
  sent(items: readonly AppendItem[], outcomes: readonly ItemOutcome[]): void
  /** Null before the first. */
  newest(): Seen | null
}

export const createNewestKnownEvent = (): NewestKnownEvent => {
  let newest: Seen | null = null
  const see = (position: number, id: string): void => {
    if (newest === null || position > newest.position) newest = { position, id }
  }
  return {
    read: (events) => {
      for (const { position, id } of events) see(position, id)
    },
    sent: (items, outcomes) => {
      for (const [index, { appends }] of items.entries()) {
        const outcome = outcomes[index]!
        if (outcome.status === 'landed')
          see(outcome.appended.at(-1)!.position, appends.at(-1)!.events.at(-1)!.id)
      }
    },
    newest: () => newest,
  }
}

/**
 * How far streams reach at least, from what one connection appended to them. Nothing is ever taken out of the log, so
 * what landed over a connection stands for as long as that connection lives: a log that was restored to an earlier
 * point has ended all of them.
 */
export type StreamRevisionCache = {
  /** Whether the stream is known to have this revision. */
  hasRevision(stream: StreamName, revision: number): boolean
  /** These landed. Streams that did not exist before are not remembered: most of them are hardly appended to again. */
  recordAppended(items: readonly AppendItem[]): void
  /**
   * Another process appends to the stream too. From now on its end is looked up before each append: one that only the
   * index refuses leaves its rows in the table until they are vacuumed, and two processes would leave many.
   */
  contested(stream: StreamName): void
}

/** Of each kind; beyond that all are forgotten, and looked at once more. */
const maxStreams = 20_000

export const createStreamRevisionCache = (): StreamRevisionCache => {
  const tails = new Map<StreamName, number>()
  const shared = new Set<StreamName>()
  return {
    hasRevision: (stream, revision) => (tails.get(stream) ?? -1) >= revision,
    recordAppended: (items) => {
      if (tails.size > maxStreams) tails.clear()
      for (const { appends } of items)
        for (const { stream, expected, events } of appends)
          if (expected !== 'noStream' && !shared.has(stream))
            tails.set(stream, revisionBefore(expected) + events.length)
    },
    contested: (stream) => {
      if (shared.size > maxStreams) shared.clear()
      tails.delete(stream)
      shared.add(stream)
    },
  }
}

export type RecentAppends = {
  /** Tells of a batch that landed whole: its events stand right after `base`, in the order in which they were written. */
  recordAppended(base: number, items: readonly AppendItem[]): void
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
export const createRecentAppends = (): RecentAppends => {
  let events: StoredEvent[] = []
  /** The position before the first of `events`. */
  let before = 0
  let underWay: Promise<unknown> | null = null

  return {
    recordAppended: (base, items) => {
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
