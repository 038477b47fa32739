import type { Watch } from '../../../projections/engine/changes.ts'
import { createLive } from '../../../projections/engine/live.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { type LiveStock, noStock } from './availability.ts'

/** Rests of addresses end by the clock, so what was read is used for this long at most. */
const maxAgeMs = 100

/** Stock that all requests of the process share: a crowd of readers costs one query at a time. */
export const createSharedStock = (deps: {
  readonly source: Pick<LiveStock, 'all'>
  /** Of the tables that `source` reads, exact: a caller sees what it waited for. */
  readonly watch: Watch
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Parameters<typeof createLive>[0]['logger']
}): LiveStock => {
  const { source, watch, clock, monotonicMs, logger } = deps
  const maxAge = { ms: maxAgeMs, clock, monotonicMs }
  const { fresh } = createLive({ name: 'stock', watch, load: source.all, logger, maxAge })
  return { all: fresh, of: async (productId) => (await fresh()).get(productId) ?? noStock }
}
