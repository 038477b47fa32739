import type { StreamName } from '../../kernel/streams.ts'

/**
 * The revision that a stream must be at: the one of its last event (from 0), or `noStream` when it must not exist.
 * There is nothing looser: a loose expectation loses idempotency on EventStoreDB.
 */
export type Expected = number | 'noStream'

/** An event to append. `data` and `metadata` are JSON texts, stored as the exact UTF-8 bytes written. */
export type NewEvent = {
  /** uuid v7, fresh for each decision; used again only to resend identical bytes at the identical expectation. */
  readonly id: string
  readonly type: string
  readonly data: string
  readonly metadata: string
}

export type StoredEvent = NewEvent & {
  readonly stream: StreamName
  /** From 0, without gaps within the stream. */
  readonly revision: number
  /** Strictly increasing over the whole log; gapless on Postgres only, so nothing else may count on that. */
  readonly position: number
}

/** Events for one stream. They land together or not at all. */
export type Append = {
  readonly stream: StreamName
  readonly expected: Expected
  readonly events: readonly NewEvent[]
  /**
   * It may land before or after those beside it in its item that say the same. Where items do not land whole, they are sent
   * at once: then any of them may have landed beyond the prefix that an outcome names.
   */
  readonly anyOrder?: true
}

/** Where the last event of an append landed. */
export type Appended = { readonly revision: number; readonly position: number }

/**
 * One decision over several streams, in the order in which it is written. A stream may stand in it more than once,
 * each time expecting the revision that the item's former append left.
 *
 * On Postgres it lands whole or conflicts alone. On EventStoreDB its appends are written one after another, so a
 * prefix of them can be left: every prefix must be safe, and a reactor completes it.
 */
export type AppendItem = { readonly appends: readonly Append[] }

export type ItemOutcome =
  | { readonly status: 'landed'; readonly appended: readonly Appended[] }
  /** A stream stands elsewhere. `landed` counts the item's appends before it that are written: 0 on Postgres. */
  | {
      readonly status: 'conflict'
      readonly stream: StreamName
      readonly actual: Expected
      readonly landed: readonly Appended[]
    }
  /** Refused for its data (size, bytes the database does not take). Nothing past `landed` was written. */
  | { readonly status: 'rejected'; readonly cause: Error; readonly landed: readonly Appended[] }
  /** The log could not be reached. Nothing past `landed` was written. */
  | { readonly status: 'unavailable'; readonly cause: Error; readonly landed: readonly Appended[] }
  /** The answer was lost: past `landed` anything may be written. Only the identical item, sent again, tells. */
  | { readonly status: 'unknown'; readonly cause: Error; readonly landed: readonly Appended[] }

export type SubscribeOptions = {
  /** Deliver only events after this position; 0 delivers from the start. */
  readonly after: number
  /** At most this many events in one batch. */
  readonly maxBatch?: number
  /** Ends the subscription. */
  readonly signal: AbortSignal
}

/** At most 1 MiB of types, ids, data and metadata in one append, on every adapter. */
export const maxAppendBytes = 1_048_576

/**
 * The event log. Two adapters pass one contract suite (`test/platform/eventstore/contract.ts`).
 * Reads never miss an event: a position that was read means that all lower positions are final.
 */
export type EventLog = {
  /** An item of several appends lands whole or not at all. Left out: a prefix of it can land. */
  readonly atomicItems?: true
  /**
   * Appends to one stream, all or nothing. Resending the same events at the same expectation gives the first result.
   * @throws WrongExpectedRevision, AppendRejected, LogUnavailable, OutcomeUnknown (src/platform/eventstore/errors.ts)
   */
  append(stream: StreamName, expected: Expected, events: readonly NewEvent[]): Promise<Appended>
  /**
   * Writes many independent decisions, one outcome an item, in the order given; never throws for an outage.
   * Streams of different items of one call are disjoint (asserted). Resent items give their first outcome.
   */
  appendAll(items: readonly AppendItem[]): Promise<readonly ItemOutcome[]>
  /** Events of one stream from a revision (default 0) on, in order; an absent stream gives none. */
  readStream(stream: StreamName, from?: number): AsyncIterable<StoredEvent>
  /**
   * The tails of many streams in one round trip where the adapter can: all events from `from` on, in stream order, or the
   * first `limitEach` of them. A stream with no such event has no entry.
   */
  readStreams(
    tails: readonly { readonly stream: StreamName; readonly from: number }[],
    limitEach?: number,
  ): Promise<ReadonlyMap<StreamName, readonly StoredEvent[]>>
  /** The last event's place, or null for an absent stream. */
  lastOf(stream: StreamName): Promise<Appended | null>
  /** Up to `limit` events after a position, strictly by position. Fewer than `limit` means the head was reached. */
  readAll(after: number, limit: number): Promise<readonly StoredEvent[]>
  /**
   * Up to `limit` events before the event at this position, the nearest first. An event must stand there: EventStoreDB
   * takes no other position.
   */
  readBefore(position: number, limit: number): Promise<readonly StoredEvent[]>
  /** The event at exactly this position; null where none of the log's events stands. */
  eventAt(position: number): Promise<StoredEvent | null>
  /**
   * All events after a position, then new ones as they land, in non-empty batches, strictly by position. Reconnects by
   * itself, loses and repeats nothing. It ends only by its signal.
   */
  subscribeAll(options: SubscribeOptions): AsyncIterable<readonly StoredEvent[]>
  /** The position of the last event; 0 in an empty log. */
  head(): Promise<number>
  /** Made with the log, never changes. Checkpoints and snapshots store it. */
  logId(): Promise<string>
  close(): Promise<void>
}
