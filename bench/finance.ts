import type { Bench } from './bench.ts'
import { withLog } from './database.ts'
import { benchJournal } from './finance/journal.ts'
import { appendHistory } from './history.ts'

/** What the journal costs an order, and what its reads take, over histories of different lengths. */
export const finance: Bench = {
  name: 'finance',
  what: 'what the journal costs an order, and what its reads take',
  run: async ({ url, print, bar, sizes }) => {
    for (const events of [Math.round(sizes.events / 10), sizes.events])
      await withLog(url, async (place) => {
        await appendHistory(place.log, events, bar)
        await benchJournal(place, print)
      })
  },
}
