import { setTimeout as delay } from 'node:timers/promises'
import { streamNameFilter } from '@eventstore/db-client'
import { type StreamName, streamPrefixes } from '../../../kernel/streams.ts'
import { LogUnavailable } from '../errors.ts'
import type { StoredEvent, SubscribeOptions } from '../port.ts'
import type { Origin } from './append.ts'
import type { Connection } from './client.ts'
import { positionsBackwards, type ReadDependencies } from './client.ts'
import { fromPosition, isInvalidPosition, logUnavailable, toStored } from './conversions.ts'

/** The default of 32 sends a checkpoint every few events: 40,936 checkpoints for 1.3 million events (research). */
const maxSearchWindow = 1_000

type FeedPage = {
  /** In order of position. May be empty. */
  readonly events: readonly StoredEvent[]
  /** Whether all events that were acknowledged before the feed was opened have been pulled. */
  readonly caughtUp: boolean
}

/**
 * The events of this log after a position. They are pulled, so that a slow reader causes backpressure on the server.
 */
export type Feed = {
  /**
   * Up to `count` buffered events.
   * @throws the error that ended the feed, after all earlier events were pulled: LogUnavailable, or the client's error
   *   for an invalid position (`isInvalidPosition`)
   */
  pull(count: number): FeedPage
  /** Resolves when a pull may give a new result. */
  changed(): Promise<void>
  /** Also resolves pending `changed()` promises. */
  close(): void
}

/**
 * Opens a feed. `after` must be the position of an event. A feed does not reconnect: after a failure it must be
 * replaced.
 */
export const openFeed = ({ client }: Connection, after: number, buffered: number): Feed => {
  // The server filters $all, so that it does not send its own streams and those of other programs.
  const filter = streamNameFilter({ prefixes: [...streamPrefixes], maxSearchWindow, checkpointInterval: 100 })
  const subscription = client.subscribeToAll(
    { fromPosition: fromPosition(after), filter, requiresLeader: true },
    { highWaterMark: buffered },
  )
  let caughtUp = false
  let failure: Error | null = null
  let { promise: change, resolve: wake } = Promise.withResolvers<void>()
  const changed = () => {
    wake()
    ;({ promise: change, resolve: wake } = Promise.withResolvers<void>())
  }
  const fail = (error: Error) => {
    failure ??= isInvalidPosition(error) ? error : logUnavailable(error)
    changed()
  }
  subscription.on('readable', changed)
  subscription.on('caughtUp', () => {
    caughtUp = true
    changed()
  })
  // Never removed: an error event without a listener ends the process.
  subscription.on('error', fail)
  for (const event of ['end', 'close'] as const)
    subscription.on(event, () => fail(new LogUnavailable('EventStoreDB ended the subscription')))

  return {
    pull: (count) => {
      // Read before the pull: all events from before `caughtUp` are in the buffer by then.
      const wasCaughtUp = caughtUp
      const ended = failure
      const events: StoredEvent[] = []
      while (events.length < count) {
        const resolved = subscription.read()
        if (resolved === null) {
          if (ended !== null && events.length === 0) throw ended
          return { events, caughtUp: wasCaughtUp }
        }
        events.push(toStored(resolved))
      }
      return { events, caughtUp: false }
    },
    changed: () => change,
    close: () => {
      changed()
      subscription.unsubscribe().catch(() => undefined)
    },
  }
}

/**
 * Runs operations on the same streams one after another, in the order of arrival, and all others concurrently. The
 * calls of one connection are concurrent: two appends to one stream that are sent at the same time may arrive in either
 * order, and then one of them conflicts.
 */
export const createStreamSerializer = () => {
  const tails = new Map<StreamName, Promise<void>>()

  return async <Value>(streams: ReadonlySet<StreamName>, run: () => Promise<Value>): Promise<Value> => {
    const before = [...streams].flatMap((stream) => tails.get(stream) ?? [])
    const { promise: done, resolve } = Promise.withResolvers<void>()
    // Set for all streams synchronously, so that no deadlock is possible.
    for (const stream of streams) tails.set(stream, done)
    try {
      await Promise.all(before)
      return await run()
    } finally {
      for (const stream of streams) if (tails.get(stream) === done) tails.delete(stream)
      resolve()
    }
  }
}

/**
 * The last position at or before `after` at which the server can start to read: it accepts only positions of events.
 * The search starts at the end of the log and reads all later events. Callers should store positions of events, which
 * need no search.
 * @throws LogUnavailable
 */
export const findStartPosition = async (
  dependencies: ReadDependencies,
  origin: Origin,
  after: number,
): Promise<number> => {
  for await (const { position } of positionsBackwards(dependencies))
    if (position <= after) return Math.max(position, origin.position)
  return origin.position
}

const defaultBatch = 500
const firstBackOffMs = 50
const lastBackOffMs = 2_000

type SubscribeDependencies = ReadDependencies & {
  readonly origin: () => Promise<Origin>
  readonly onTrouble: (description: string, error: Error) => void
}

async function* batchesOf(feed: Feed, count: number, signal: AbortSignal) {
  while (!signal.aborted) {
    const { events } = feed.pull(count)
    if (events.length > 0) yield events
    else await feed.changed()
  }
}

/**
 * All events of this log after a position and then the new ones, in batches. The client reconnects, but its
 * subscriptions do not (research, trap 9). So a failed feed is replaced by a new one from the last delivered position,
 * with exponential back-off during an outage.
 */
export async function* subscribeAfter(
  dependencies: SubscribeDependencies,
  { after, maxBatch = defaultBatch, signal }: SubscribeOptions,
): AsyncGenerator<readonly StoredEvent[]> {
  let last = after
  let failures = 0
  let feed: Feed | null = null
  /** The start position if no event is at `after` (see `findStartPosition`). */
  let start: number | null = null
  let isMisplaced = false
  const stop = () => feed?.close()
  signal.addEventListener('abort', stop)
  try {
    while (!signal.aborted) {
      try {
        const origin = await dependencies.origin()
        if (isMisplaced) start = await findStartPosition(dependencies, origin, last)
        isMisplaced = false
        feed = openFeed(dependencies.connection, start ?? Math.max(last, origin.position), maxBatch)
        for await (const events of batchesOf(feed, maxBatch, signal)) {
          failures = 0
          const newEvents = events.filter((event) => event.position > last)
          if (newEvents.length === 0) continue
          start = null
          last = newEvents.at(-1)!.position
          yield newEvents
        }
      } catch (error) {
        feed?.close()
        if (isInvalidPosition(error) && start === null) isMisplaced = true
        else if (error instanceof LogUnavailable) {
          if (!signal.aborted) dependencies.onTrouble('a subscription to the log broke', error)
          const pauseMs = Math.min(firstBackOffMs * 2 ** failures++, lastBackOffMs)
          await delay(pauseMs, undefined, { signal }).catch(() => undefined)
        } else throw error
      }
    }
  } finally {
    signal.removeEventListener('abort', stop)
    feed?.close()
  }
}
