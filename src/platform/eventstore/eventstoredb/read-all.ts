import { LogUnavailable } from '../errors.ts'
import type { StoredEvent } from '../port.ts'
import { within } from '../within.ts'
import { isInvalidPosition } from './failures.ts'
import { type Feed, openFeed } from './feed.ts'
import type { Origin } from './origin.ts'
import type { ReadDeps } from './read-page.ts'
import { startBefore } from './start.ts'

const maxBuffered = 500

const take = async (feed: Feed, after: number, limit: number, timeoutMs: number): Promise<StoredEvent[]> => {
  const taken: StoredEvent[] = []
  for (;;) {
    const { events, caughtUp } = feed.pull(limit - taken.length)
    for (const event of events) if (event.position > after) taken.push(event)
    if (taken.length === limit || caughtUp) return taken
    const late = () => new LogUnavailable(`EventStoreDB gave nothing for ${timeoutMs} ms`)
    if (events.length === 0) await within(feed.changed(), timeoutMs, late)
  }
}

/**
 * Up to `limit` of our events after a position. Through a subscription that is left where it has caught up, because
 * the client's own read of $all drops its filter (research, trap 8).
 *
 * Any other number than an event's own position is taken, too, at the cost of a search (see `startBefore`).
 *
 * @throws LogUnavailable
 */
export const readAfter = async (
  deps: ReadDeps,
  origin: Origin,
  after: number,
  limit: number,
): Promise<readonly StoredEvent[]> => {
  if (limit <= 0) return []
  const takeFrom = async (start: number): Promise<StoredEvent[]> => {
    const feed = openFeed(deps.connection, start, Math.min(limit, maxBuffered))
    try {
      return await take(feed, after, limit, deps.readTimeoutMs)
    } finally {
      feed.close()
    }
  }
  if (after <= origin.position) return await takeFrom(origin.position)
  try {
    return await takeFrom(after)
  } catch (error) {
    if (!isInvalidPosition(error)) throw error
    return await takeFrom(await startBefore(deps, origin, after))
  }
}
