import type { StreamName } from '../../kernel/streams.ts'

/**
 * The expected revision of a stream: the revision of its last event (from 0), or `noStream` if it must not exist.
 * There is no `any`: EventStoreDB appends are not idempotent with a loose expectation.
 */
export type Expected = number | 'noStream'

/** An event to append. `data` and `metadata` are JSON texts, stored as the exact UTF-8 bytes written. */
export type NewEvent = {
  /** uuid v7, new for each decision. Reused only to resend identical bytes at the identical expectation. */
  readonly id: string
  readonly type: string
  readonly data: string
  readonly metadata: string
}

export type StoredEvent = NewEvent & {
  readonly stream: StreamName
  /** From 0, without gaps within the stream. */
  readonly revision: number
  /**
   * Strictly increasing over the whole log. Gapless on Postgres only, so only the Postgres adapter may rely on that.
   */
  readonly position: number
}

/** Events for one stream, appended atomically. */
export type Append = {
  readonly stream: StreamName
  readonly expected: Expected
  readonly events: readonly NewEvent[]
  /**
   * Adjacent appends of an item with this flag may be appended in any order. Adapters without atomic items send them at
   * the same time, so any of them may be in the log beyond the prefix that an outcome names.
   */
  readonly anyOrder?: true
}

/** The last event of an append. */
export type Appended = { readonly revision: number; readonly position: number }

/**
 * One decision over several streams, in the order of writing. It may have several appends to one stream. Each later one
 * expects the revision after the previous one.
 *
 * On Postgres an item is atomic, and its conflict does not affect other items. On EventStoreDB the appends are written
 * one after another, so a crash can leave a prefix of them: every prefix must be safe, and a reactor completes it.
 */
export type AppendItem = { readonly appends: readonly Append[] }

export type ItemOutcome =
  | { readonly status: 'landed'; readonly appended: readonly Appended[] }
  /** A stream is at another revision. `landed`: the appends of the item before it, in the log; empty on Postgres. */
  | {
      readonly status: 'conflict'
      readonly stream: StreamName
      readonly actual: Expected
      readonly landed: readonly Appended[]
    }
  /** Rejected for its data (size, bytes that the database cannot store). Nothing past `landed` was written. */
  | { readonly status: 'rejected'; readonly cause: Error; readonly landed: readonly Appended[] }
  /** The log could not be reached. Nothing past `landed` was written. */
  | { readonly status: 'unavailable'; readonly cause: Error; readonly landed: readonly Appended[] }
  /** The answer was lost: appends past `landed` may be in the log. Only a resend of the identical item shows it. */
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

/** Calls the listener when an event is appended or work is announced. Returns the function to unsubscribe. */
export type Activity = (listener: () => void) => () => void

/**
 * The event log. Two adapters pass one contract suite (`test/platform/eventstore/contract.ts`).
 * Reads never miss an event: once a position was read, no event is added at a lower position.
 */
export type EventLog = {
  /** An item of several appends is atomic. Without this flag a prefix of an item can be appended. */
  readonly atomicItems?: true
  /**
   * Appends to one stream atomically. A resend of the same events at the same expectation gives the first result.
   * @throws WrongExpectedRevision, AppendRejected, LogUnavailable, OutcomeUnknown (src/platform/eventstore/errors.ts)
   */
  append(stream: StreamName, expected: Expected, events: readonly NewEvent[]): Promise<Appended>
  /**
   * Writes many independent decisions. Returns one outcome per item, in the same order. Never throws for an outage.
   * Different items of one call must not share a stream (asserted). Resent items give their first outcome.
   */
  appendAll(items: readonly AppendItem[]): Promise<readonly ItemOutcome[]>
  /** Events of one stream from a revision (default 0) on, in order. Empty for an absent stream. */
  readStream(stream: StreamName, from?: number): AsyncIterable<StoredEvent>
  /**
   * The tails of many streams, in one round trip if the adapter supports it: all events from revision `from` on, in
   * stream order, or the first `limitEach` of them. A stream without such events has no entry.
   */
  readStreams(
    tails: readonly { readonly stream: StreamName; readonly from: number }[],
    limitEach?: number,
  ): Promise<ReadonlyMap<StreamName, readonly StoredEvent[]>>
  /** Revision and position of the last event, or null for an absent stream. */
  lastOf(stream: StreamName): Promise<Appended | null>
  /**
   * Up to `limit` events after a position, in order of position. Fewer than `limit`: the end of the log was reached.
   */
  readAll(after: number, limit: number): Promise<readonly StoredEvent[]>
  /**
   * Up to `limit` events before the event at this position, the nearest first. The position must be that of an event:
   * EventStoreDB accepts no other.
   */
  readBefore(position: number, limit: number): Promise<readonly StoredEvent[]>
  /** The event at exactly this position; null if the log has none there. */
  eventAt(position: number): Promise<StoredEvent | null>
  /**
   * All events after a position, then new ones as they are appended, in non-empty batches, in order of position. It
   * reconnects automatically, and neither loses nor repeats an event. Only its signal ends it.
   */
  subscribeAll(options: SubscribeOptions): AsyncIterable<readonly StoredEvent[]>
  /** The position of the last event; 0 in an empty log. */
  head(): Promise<number>
  /** Reports appends of all processes, and announced work. Without it, work is found by polling alone. */
  readonly onActivity?: Activity
  /** Created with the log, never changes. Checkpoints and snapshots store it. */
  logId(): Promise<string>
  close(): Promise<void>
}
