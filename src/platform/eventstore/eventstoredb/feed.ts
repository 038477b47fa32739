import { streamNameFilter } from '@eventstore/db-client'
import { streamPrefixes } from '../../../terms/streams.ts'
import { LogUnavailable } from '../errors.ts'
import type { StoredEvent } from '../port.ts'
import type { Connection } from './client.ts'
import { isInvalidPosition, logUnavailable } from './failures.ts'
import { fromPosition, toStored } from './wire.ts'

/** The default of 32 sends a checkpoint for every few events: 40,936 of them over 1.3 million events (research). */
const maxSearchWindow = 1_000

export type Pulled = {
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
  pull(count: number): Pulled
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
