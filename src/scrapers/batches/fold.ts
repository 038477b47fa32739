import type { ScrapeBatchId } from '../../kernel/ids.ts'
import type { Fold } from '../../platform/eventstore/fold.ts'
import { scrapeBatchStream } from '../../terms/streams.ts'
import type { ScrapeBatchAccepted, ScrapeBatchEvent, ScrapeBatchFinished } from './events.ts'

/** A batch; `finished` is null while calls of it run. */
export type ScrapeBatch = {
  readonly accepted: ScrapeBatchAccepted['data']
  readonly finished: ScrapeBatchFinished['data'] | null
}
/** Null: none was accepted. */
export type ScrapeBatchState = ScrapeBatch | null

const scrapeBatchFold: Fold<ScrapeBatchState, ScrapeBatchEvent> = {
  name: 'scrape-batch',
  version: 1,
  initial: null,
  usedOnce: true,
  evolve: (state, event) => {
    switch (event.type) {
      case 'ScrapeBatchAccepted':
        return { accepted: event.data, finished: null }
      case 'ScrapeBatchFinished':
        if (state === null) throw new Error(`batch ${event.data.batchId} ended and was never accepted`)
        return { ...state, finished: event.data }
      default: {
        const unknown: never = event
        throw new Error(`unknown event of a batch ${JSON.stringify(unknown)}`)
      }
    }
  },
}

/** The stream of a batch, as a command names it. */
export const scrapeBatchRef = (batch: ScrapeBatchId) => ({
  stream: scrapeBatchStream(batch),
  fold: scrapeBatchFold,
})
