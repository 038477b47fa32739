import { invariantGroup, invariants } from '../src/audit/invariants/invariants.ts'
import type { Bench } from './bench.ts'
import { withLog } from './database.ts'
import { costOfModel } from './finance/model-cost.ts'
import { appendHistory } from './history.ts'

/** What it costs an order that a running server holds every event against the laws before it seals it. */
export const lawChecks: Bench = {
  name: 'laws',
  what: 'what checking the laws before a seal costs an order',
  run: async ({ url, print, bar, sizes }) =>
    withLog(url, async (place) => {
      await appendHistory(place.log, sizes.events, bar)
      await costOfModel(place, { model: invariants, batchEvents: invariantGroup.maxBatch ?? 4_000 }, print)
    }),
}
