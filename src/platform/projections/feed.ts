import { setTimeout as sleep } from 'node:timers/promises'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { EventLog, StoredEvent } from '../eventstore/port.ts'

/**
 * The part of a batch that certainly ends at the end of a command. Events with the correlation id of the last event
 * are left for the next batch, except in two cases: `next` (the following event, if known) shows that the command is
 * over, or no events would be left.
 */
export const trimToCommandBoundary = (
  events: readonly RecordedEvent[],
  next?: RecordedEvent,
): readonly RecordedEvent[] => {
  const last = events.at(-1)
  if (!last) return events
  const { correlationId } = last.metadata
  if (next && next.metadata.correlationId !== correlationId) return events
  const end = events.findLastIndex((event) => event.metadata.correlationId !== correlationId)
  return end === -1 ? events : events.slice(0, end + 1)
}

/** An event whose bytes cannot be decoded. */
export class UndecodableEvent extends Error {
  override readonly name = 'UndecodableEvent'
  readonly event: StoredEvent
  constructor(event: StoredEvent, cause: unknown) {
    super(
      `event ${event.id} (${event.type}, ${event.stream} revision ${event.revision}, position ${event.position}) cannot be decoded: ${cause instanceof Error ? cause.message : cause}`,
      { cause },
    )
    this.event = event
  }
}

export type LogReads = {
  /**
   * The events after a position in log order, at least one and at most `limit`. Waits until there is one. Where the
   * feed can determine it, a batch does not end between the events of a command.
   * @throws UndecodableEvent if the first of them cannot be decoded; the signal's reason if it is aborted
   */
  next(after: number, limit: number, signal: AbortSignal): Promise<readonly RecordedEvent[]>
  /** As `next`, but not decoded, and it may end within a command. For readers of the bytes, such as the sealer. */
  nextStored(after: number, limit: number, signal: AbortSignal): Promise<readonly StoredEvent[]>
}

/** A reader that continues from one position to the next. Call `close` after the last read. */
export type LogReader = LogReads & {
  /** Whether there is an event after a position, as far as the feed has read. */
  has(after: number): boolean
  /**
   * Resolves when there is an event after a position and it is time to read it. A reader that has caught up waits for
   * `batchWindowMs` after its last read. A reader that is behind (its last read left events unread) does not wait:
   * with a limit on reads per second it might never catch up.
   * @throws the signal's reason if it is aborted
   */
  waitForEvent(after: number, signal: AbortSignal): Promise<void>
  close(): void
}

export type Pace = {
  /** The time between two reads in which events collect, milliseconds. It avoids one read per append. Default 0. */
  readonly batchWindowMs?: number
}

/** The one reader of the log for all its followers in this process: projections, reactors and the sealer. */
export type LogFeed = LogReads & {
  /**
   * Events that all readers have passed are dropped from memory early, for the garbage collector. A reader far behind
   * does not prevent this.
   */
  reader(pace?: Pace): LogReader
  close(): Promise<void>
}

export type FeedOptions = {
  readonly log: EventLog
  readonly decode: (event: StoredEvent) => RecordedEvent
  /** Called when the subscription fails, which is not expected. The feed subscribes again after a second. */
  readonly onError: (error: unknown) => void
  /** The number of newest events in memory. A reader that is further behind reads from the log. Default 4,096. */
  readonly keep?: number
}

type Entry = { readonly stored: StoredEvent; decoded?: RecordedEvent }

/** Resolves with `arrival`. Rejects with the signal's reason if it is aborted first. */
const waitFor = async (arrival: Promise<void>, signal: AbortSignal): Promise<void> => {
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    await Promise.race([arrival, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** Events that all readers have passed are dropped in pieces of this size. */
const trimEvents = 256

/** The most events in one delivery of a subscription. A smaller delivery means that the log has no more events. */
const maxBatch = 1000

/**
 * Follows the log from its head at the first call of `next`, and caches the newest events, each decoded once. A
 * reader is only a position: it may fall behind, catch up or start again without an effect on the others.
 */
export const createLogFeed = ({ log, decode, onError, keep = 4096 }: FeedOptions): LogFeed => {
  const closing = new AbortController()
  let tail: Entry[] = []
  /** All events after this position are in `tail`, or were not received yet. */
  let tailAfter = 0
  /** The last delivery was full, so it may have ended between the events of a command. */
  let openEnd = false
  let arrival = Promise.withResolvers<void>()
  let started: Promise<void> | null = null
  let running: Promise<void> = Promise.resolve()

  const wake = (): void => {
    const previous = arrival
    arrival = Promise.withResolvers()
    previous.resolve()
  }

  /** Drops the first entries. */
  const trim = (entries: number): void => {
    tailAfter = (tail[entries - 1] as Entry).stored.position
    tail = tail.slice(entries)
  }

  const receive = (batch: readonly StoredEvent[]): void => {
    for (const stored of batch) tail.push({ stored })
    openEnd = batch.length >= maxBatch
    if (tail.length > keep * 2) trim(tail.length - keep)
    wake()
  }

  /** The position of each reader. Readers of events older than the tail do not prevent the removal of events. */
  const readerStates = new Set<{ after: number }>()
  const trimRead = (): void => {
    let lowestPosition = Number.POSITIVE_INFINITY
    for (const { after } of readerStates)
      if (after >= tailAfter && after < lowestPosition) lowestPosition = after
    const entries = firstAfter(lowestPosition)
    if (entries >= trimEvents) trim(entries)
  }

  const followLog = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      try {
        const after = tail.at(-1)?.stored.position ?? tailAfter
        const options = { after, maxBatch, signal: closing.signal }
        for await (const batch of log.subscribeAll(options)) receive(batch)
      } catch (error) {
        if (closing.signal.aborted) return
        onError(error)
      }
      await sleep(1000, undefined, { signal: closing.signal }).catch(() => undefined)
    }
  }

  const start = (): Promise<void> => {
    started ??= log.head().then(
      (head) => {
        tailAfter = head
        running = followLog()
      },
      (error) => {
        started = null
        throw error
      },
    )
    return started
  }

  const decoded = (entry: Entry): RecordedEvent => {
    try {
      entry.decoded ??= decode(entry.stored)
      return entry.decoded
    } catch (cause) {
      throw new UndecodableEvent(entry.stored, cause)
    }
  }

  const tryDecoded = (entry: Entry): RecordedEvent | undefined => {
    try {
      return decoded(entry)
    } catch {
      // The reader that reaches this event gets the error. Here it is only unknown where the command ends.
      return undefined
    }
  }

  /** Decodes up to the first event that cannot be decoded. */
  const decodedPrefix = (entries: readonly Entry[]): { events: RecordedEvent[]; isComplete: boolean } => {
    const events: RecordedEvent[] = []
    for (const entry of entries)
      try {
        events.push(decoded(entry))
      } catch (error) {
        if (events.length === 0) throw error
        return { events, isComplete: false }
      }
    return { events, isComplete: true }
  }

  const firstAfter = (position: number): number => {
    let low = 0
    let high = tail.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((tail[middle] as Entry).stored.position > position) high = middle
      else low = middle + 1
    }
    return low
  }

  const fromTail = (after: number, limit: number): readonly RecordedEvent[] => {
    const first = firstAfter(after)
    const { events, isComplete } = decodedPrefix(tail.slice(first, first + limit))
    const following = tail[first + events.length]
    if (!isComplete) return events
    if (!following) return openEnd ? trimToCommandBoundary(events) : events
    return trimToCommandBoundary(events, tryDecoded(following))
  }

  const fromLog = async (after: number, limit: number): Promise<readonly RecordedEvent[]> => {
    const stored = await log.readAll(after, limit)
    const { events, isComplete } = decodedPrefix(stored.map((event) => ({ stored: event })))
    return isComplete && stored.length === limit ? trimToCommandBoundary(events) : events
  }

  /** The tail begins right after an event: the head of the log when following began, or a dropped event. */
  const has = (position: number): boolean => position < tailAfter || firstAfter(position) < tail.length

  const waitForEventAfter = async (position: number, signal: AbortSignal): Promise<void> => {
    await start()
    for (;;) {
      closing.signal.throwIfAborted()
      if (has(position)) return
      await waitFor(arrival.promise, signal)
    }
  }

  /** The first events after a position, from memory or from the log. */
  const firstFrom = async <Found>(
    after: number,
    signal: AbortSignal,
    readTail: (from: number) => readonly Found[],
    readOlder: (from: number) => Promise<readonly Found[]>,
  ): Promise<readonly Found[]> => {
    let from = after
    for (;;) {
      await waitForEventAfter(from, signal)
      const begin = tailAfter
      const events = from < begin ? await readOlder(from) : readTail(from)
      if (events.length > 0) return events
      // The log before the tail has no events after `from`, so continue with the tail.
      if (from < begin) from = begin
    }
  }

  const tailEntriesAfter = (position: number, limit: number): readonly Entry[] => {
    const first = firstAfter(position)
    return tail.slice(first, first + limit)
  }

  const reads: LogReads = {
    next: (after, limit, signal) =>
      firstFrom(
        after,
        signal,
        (from) => fromTail(from, limit),
        (from) => fromLog(from, limit),
      ),
    nextStored: (after, limit, signal) =>
      firstFrom(
        after,
        signal,
        (from) => tailEntriesAfter(from, limit).map(({ stored }) => stored),
        (from) => log.readAll(from, limit),
      ),
  }

  const openReader = ({ batchWindowMs = 0 }: Pace = {}): LogReader => {
    const readerState = { after: 0 }
    readerStates.add(readerState)
    let isBehind = true
    let readMs = Number.NEGATIVE_INFINITY

    const advanceTo = (after: number): void => {
      readerState.after = after
      trimRead()
    }
    const trackRead = async <Event extends { readonly position: number }>(
      after: number,
      read: Promise<readonly Event[]>,
    ): Promise<readonly Event[]> => {
      advanceTo(after)
      const found = await read
      isBehind = has(found.at(-1)!.position)
      readMs = performance.now()
      return found
    }

    return {
      has,
      waitForEvent: async (after, signal) => {
        advanceTo(after)
        await waitForEventAfter(after, signal)
        const waitMs = isBehind ? 0 : readMs + batchWindowMs - performance.now()
        if (waitMs > 0) await sleep(waitMs, undefined, { signal }).catch(() => signal.throwIfAborted())
      },
      next: (after, limit, signal) => trackRead(after, reads.next(after, limit, signal)),
      nextStored: (after, limit, signal) => trackRead(after, reads.nextStored(after, limit, signal)),
      close: () => void readerStates.delete(readerState),
    }
  }

  return {
    ...reads,
    reader: openReader,
    close: async () => {
      closing.abort(new Error('the feed is closed'))
      wake()
      await running
    },
  }
}
