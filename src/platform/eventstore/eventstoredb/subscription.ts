import { setTimeout as delay } from 'node:timers/promises'
import { streamNameFilter } from '@eventstore/db-client'
import { type StreamName, streamPrefixes } from '../../../kernel/streams.ts'
import { LogUnavailable } from '../errors.ts'
import type { StoredEvent, SubscribeOptions } from '../port.ts'
import type { Origin } from './append.ts'
import type { Connection } from './client.ts'
import { positionsBackwards, type ReadDeps } from './client.ts'
import { fromPosition, isInvalidPosition, logUnavailable, toStored } from './conversions.ts'

/** The default of 32 sends a checkpoint for every few events: 40,936 of them over 1.3 million events (research). */
const maxSearchWindow = 1_000

export type FeedPage = {
  /** In order of position; may be empty. */
  readonly events: readonly StoredEvent[]
  /** Every event that was acknowledged before the feed was opened has been pulled by now. */
  readonly caughtUp: boolean
}

/** Our events of $all after a position, pulled, so that a slow reader holds the server back. */
export type Feed = {
  /**
   * Up to `count` events that are there.
   * @throws what ended the feed, once all events before it were pulled: LogUnavailable, or the client's error that
   * `isInvalidPosition` knows
   */
  pull(count: number): FeedPage
  /** Resolves when a pull may give something new. */
  changed(): Promise<void>
  /** Wakes those that wait for a change, too. */
  close(): void
}

/** `after` must be an event's own position. A feed does not reconnect: it fails, once, and is to be replaced. */
export const openFeed = ({ client }: Connection, after: number, buffered: number): Feed => {
  // $all is filtered by the server: its own streams and other programs' never travel.
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
  // Never taken off: an error that nobody listens to ends the process.
  subscription.on('error', fail)
  for (const event of ['end', 'close'] as const)
    subscription.on(event, () => fail(new LogUnavailable('EventStoreDB ended the subscription')))

  return {
    pull: (count) => {
      // Noted before the pull: what passed the stream before that mark is in its buffer.
      const marked = caughtUp
      const ended = failure
      const events: StoredEvent[] = []
      while (events.length < count) {
        const resolved = subscription.read()
        if (resolved === null) {
          if (ended !== null && events.length === 0) throw ended
          return { events, caughtUp: marked }
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
 * Runs what touches the same streams one after another, in the order of arrival, and everything else at once. Calls
 * travel side by side, so two appends to one stream that are sent together may arrive in either order, and the later
 * one would conflict.
 */
export const createStreamSerializer = () => {
  const tails = new Map<StreamName, Promise<void>>()

  return async <Value>(streams: ReadonlySet<StreamName>, run: () => Promise<Value>): Promise<Value> => {
    const before = [...streams].flatMap((stream) => tails.get(stream) ?? [])
    const { promise: done, resolve } = Promise.withResolvers<void>()
    // Taken at once for all streams: no cycle of waiting can form.
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
 * The last place at or before a number at which the server can start to read: it takes an event's own position only.
 * Looked for from the end, so it costs what came after; store positions that came from events, which need no search.
 * @throws LogUnavailable
 */
export const findStartPosition = async (deps: ReadDeps, origin: Origin, after: number): Promise<number> => {
  for await (const { position } of positionsBackwards(deps))
    if (position <= after) return Math.max(position, origin.position)
  return origin.position
}

const defaultBatch = 500
const firstBackOffMs = 50
const lastBackOffMs = 2_000

export type SubscribeDeps = ReadDeps & {
  readonly origin: () => Promise<Origin>
  readonly onTrouble: (what: string, error: Error) => void
}

async function* batchesOf(feed: Feed, count: number, signal: AbortSignal) {
  while (!signal.aborted) {
    const { events } = feed.pull(count)
    if (events.length > 0) yield events
    else await feed.changed()
  }
}

/**
 * All our events after a position and then the new ones, in batches. The client reconnects, its subscriptions do not
 * (research, trap 9), so a feed that failed is replaced by one from the last position that was delivered, with a
 * growing pause while the server stays away.
 */
export async function* subscribeAfter(
  deps: SubscribeDeps,
  { after, maxBatch = defaultBatch, signal }: SubscribeOptions,
): AsyncGenerator<readonly StoredEvent[]> {
  let last = after
  let failures = 0
  let feed: Feed | null = null
  /** No event stands at `after`: where to start in its place (see `findStartPosition`). */
  let start: number | null = null
  let isMisplaced = false
  const stop = () => feed?.close()
  signal.addEventListener('abort', stop)
  try {
    while (!signal.aborted) {
      try {
        const origin = await deps.origin()
        if (isMisplaced) start = await findStartPosition(deps, origin, last)
        isMisplaced = false
        feed = openFeed(deps.connection, start ?? Math.max(last, origin.position), maxBatch)
        for await (const events of batchesOf(feed, maxBatch, signal)) {
          failures = 0
          const fresh = events.filter((event) => event.position > last)
          if (fresh.length === 0) continue
          start = null
          last = fresh.at(-1)!.position
          yield fresh
        }
      } catch (error) {
        feed?.close()
        if (isInvalidPosition(error) && start === null) isMisplaced = true
        else if (error instanceof LogUnavailable) {
          if (!signal.aborted) deps.onTrouble('a subscription to the log broke', error)
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
