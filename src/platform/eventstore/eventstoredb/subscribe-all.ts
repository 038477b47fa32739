import { setTimeout as delay } from 'node:timers/promises'
import { LogUnavailable } from '../errors.ts'
import type { StoredEvent, SubscribeOptions } from '../port.ts'
import { isInvalidPosition } from './failures.ts'
import { type Feed, openFeed } from './feed.ts'
import type { Origin } from './origin.ts'
import type { ReadDeps } from './read-page.ts'
import { startBefore } from './start.ts'

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
  /** No event stands at `after`: where to start in its place (see `startBefore`). */
  let start: number | null = null
  let isMisplaced = false
  const stop = () => feed?.close()
  signal.addEventListener('abort', stop)
  try {
    while (!signal.aborted) {
      try {
        const origin = await deps.origin()
        if (isMisplaced) start = await startBefore(deps, origin, last)
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
