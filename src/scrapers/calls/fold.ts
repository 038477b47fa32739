import type { ScrapeId } from '../../kernel/ids.ts'
import { type Fold, foldedOn } from '../../platform/eventstore/fold.ts'
import { scrapeStream } from '../../terms/streams.ts'
import type { ScrapeEvent, ScrapeFinished, ScrapeStarted } from './events.ts'

/** The last try under an `X-Request-Id`, and how it ended; `finished` is null while it runs. */
export type Scrape = {
  readonly started: ScrapeStarted['data']
  readonly leaseUntilMs: number
  readonly finished: ScrapeFinished['data'] | null
}
/** Null: no call under the id was started. */
export type ScrapeState = Scrape | null

const evolve: Fold<ScrapeState, ScrapeEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'ScrapeStarted':
      return { started: event.data, leaseUntilMs: Date.parse(event.data.leaseUntil), finished: null }
    case 'ScrapeFinished':
      if (state === null || state.started.attempt !== event.data.attempt)
        throw new Error(`attempt ${event.data.attempt} of ${event.data.scrapeId} was never started`)
      return { ...state, finished: event.data }
    default: {
      const unknown: never = event
      throw new Error(`unknown scrape event ${JSON.stringify(unknown)}`)
    }
  }
}

/** The scrape after facts that were just decided. */
export const scrapeAfter = (state: ScrapeState, events: readonly ScrapeEvent[]): Scrape => {
  const after = foldedOn(scrapeFold, state, events, 0)
  if (after === null) throw new Error('no event makes no scrape')
  return after
}

/** The state of `scrape-{id}`: at most two events for each of its tries, whose number is bounded. */
export const scrapeFold: Fold<ScrapeState, ScrapeEvent> = {
  name: 'scrape',
  version: 1,
  initial: null,
  usedOnce: true,
  evolve,
}

/** The stream of a scrape, as a command names it. */
export const scrapeRef = (scrape: ScrapeId) => ({ stream: scrapeStream(scrape), fold: scrapeFold })
