import { BACKWARDS, FORWARDS } from '@eventstore/db-client'
import pLimit from 'p-limit'
import { withTimeout } from '../../../kernel/every.ts'
import type { StreamName } from '../../../kernel/streams.ts'
import { LogUnavailable } from '../errors.ts'
import type { StoredEvent } from '../port.ts'
import type { Origin } from './append.ts'
import { positionsBackwards, type ReadDependencies, readPage, readToEnd } from './client.ts'
import {
  fromPosition,
  isInvalidPosition,
  isOwnStream,
  logUnavailable,
  toPosition,
  toStored,
} from './conversions.ts'
import { type Feed, findStartPosition, openFeed } from './subscription.ts'

/**
 * The event of this log at exactly this position, or null.
 * @throws LogUnavailable
 */
export const eventAtPosition = async (
  { connection, readTimeoutMs }: ReadDependencies,
  origin: Origin,
  position: number,
): Promise<StoredEvent | null> => {
  // Events from before the origin are not part of this log.
  if (position <= origin.position) return null
  const read = connection.client.readAll({
    direction: FORWARDS,
    fromPosition: fromPosition(position),
    maxCount: 1,
    requiresLeader: true,
  })
  try {
    const [first] = await readToEnd(read, readTimeoutMs)
    if (first?.event === undefined || !isOwnStream(first.event.streamId)) return null
    return toPosition(first.event.position) === position ? toStored(first) : null
  } catch (error) {
    if (isInvalidPosition(error)) return null
    throw logUnavailable(error)
  }
}

/** Finds the last event of this log, backwards from the end of $all. It stops at the result of an earlier call. */
export const createHead = (dependencies: ReadDependencies) => {
  let known = 0

  /** @throws LogUnavailable */
  return async (origin: Origin): Promise<number> => {
    const floor = Math.max(known, origin.position)
    for await (const { position, stream } of positionsBackwards(dependencies)) {
      if (position <= floor) break
      if (isOwnStream(stream)) {
        known = Math.max(known, position)
        break
      }
    }
    return known
  }
}

const maxBuffered = 500

const takeEvents = async (
  feed: Feed,
  after: number,
  limit: number,
  timeoutMs: number,
): Promise<StoredEvent[]> => {
  const taken: StoredEvent[] = []
  for (;;) {
    const { events, caughtUp } = feed.pull(limit - taken.length)
    for (const event of events) if (event.position > after) taken.push(event)
    if (taken.length === limit || caughtUp) return taken
    const timeoutError = () => new LogUnavailable(`EventStoreDB gave nothing for ${timeoutMs} ms`)
    if (events.length === 0) await withTimeout(feed.changed(), timeoutMs, timeoutError)
  }
}

/**
 * Up to `limit` events of this log after a position. It uses a subscription and closes it when it has caught up,
 * because the client's read of $all ignores its filter (research, trap 8).
 *
 * `after` may be any number. If it is not the position of an event, a search is needed (see `findStartPosition`).
 *
 * @throws LogUnavailable
 */
export const readAfter = async (
  dependencies: ReadDependencies,
  origin: Origin,
  after: number,
  limit: number,
): Promise<readonly StoredEvent[]> => {
  if (limit <= 0) return []
  const takeFrom = async (start: number): Promise<StoredEvent[]> => {
    const feed = openFeed(dependencies.connection, start, Math.min(limit, maxBuffered))
    try {
      return await takeEvents(feed, after, limit, dependencies.readTimeoutMs)
    } finally {
      feed.close()
    }
  }
  if (after <= origin.position) return await takeFrom(origin.position)
  try {
    return await takeFrom(after)
  } catch (error) {
    if (!isInvalidPosition(error)) throw error
    return await takeFrom(await findStartPosition(dependencies, origin, after))
  }
}

const pageSizeBefore = 500

/**
 * Up to `limit` events of this log before the event at a position, the nearest first.
 * @throws LogUnavailable
 */
export const readBeforePosition = async (
  { connection, readTimeoutMs }: ReadDependencies,
  origin: Origin,
  position: number,
  limit: number,
): Promise<readonly StoredEvent[]> => {
  const taken: StoredEvent[] = []
  for (let from = position; from > origin.position && taken.length < limit; ) {
    const read = connection.client.readAll({
      direction: BACKWARDS,
      fromPosition: fromPosition(from),
      maxCount: pageSizeBefore,
      requiresLeader: true,
    })
    const page = await readToEnd(read, readTimeoutMs).catch((error) => {
      throw logUnavailable(error)
    })
    for (const resolved of page) {
      if (resolved.event === undefined) continue
      from = toPosition(resolved.event.position)
      if (from > origin.position && isOwnStream(resolved.event.streamId)) taken.push(toStored(resolved))
    }
    if (page.length < pageSizeBefore) break
  }
  return taken.slice(0, limit)
}

/** Most streams are shorter, so one call reads them. */
const pageSize = 500

const tailsAtOnce = 32

export async function* readEvents(
  dependencies: ReadDependencies,
  stream: StreamName,
  from = 0,
): AsyncGenerator<StoredEvent> {
  for (let next = from; ; next += pageSize) {
    const page = await readPage(dependencies, stream, { from: next, count: pageSize })
    yield* page
    if (page.length < pageSize) return
  }
}

const readTail = async (
  dependencies: ReadDependencies,
  stream: StreamName,
  from: number,
  limit: number | undefined,
): Promise<readonly StoredEvent[]> => {
  if (limit !== undefined) return await readPage(dependencies, stream, { from, count: limit })
  const events: StoredEvent[] = []
  for await (const event of readEvents(dependencies, stream, from)) events.push(event)
  return events
}

/** Reads the tails of many streams, one call per stream, because the server has no call for several streams. */
export const readTails = async (
  dependencies: ReadDependencies,
  tails: readonly { readonly stream: StreamName; readonly from: number }[],
  limitEach?: number,
): Promise<ReadonlyMap<StreamName, readonly StoredEvent[]>> => {
  const limiter = pLimit(tailsAtOnce)
  const found = new Map<StreamName, readonly StoredEvent[]>()
  await Promise.all(
    tails.map(async ({ stream, from }) => {
      const events = await limiter(() => readTail(dependencies, stream, from, limitEach))
      if (events.length > 0) found.set(stream, events)
    }),
  )
  return found
}
