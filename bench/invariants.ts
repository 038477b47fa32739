import { invariantGroup, invariants } from '../src/audit/invariants/invariants.ts'
import type { Bench } from './bench.ts'
import { withLog } from './database.ts'
import { costOfModel } from './finance/model-cost.ts'
import { appendHistory } from './history.ts'

/** The cost for an order of checking every event against the invariants before it is sealed. */
export const invariantChecks: Bench = {
  name: 'laws',
  what: 'the cost for an order of checking the invariants before a seal',
  run: async ({ url, print, bar, sizes }) =>
    withLog(url, async (place) => {
      await appendHistory(place.log, sizes.events, bar)
      await costOfModel(place, { model: invariants, batchEvents: invariantGroup.maxBatch ?? 4_000 }, print)
    }),
}
