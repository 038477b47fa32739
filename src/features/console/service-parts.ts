import type pg from 'pg'
import type { Family } from '../../domain/shared/order-terms.ts'
import type { Clock } from '../../kernel/clock.ts'
import { type Probe, probeOutcome } from '../../platform/http/health.ts'
import { depthOf } from '../../platform/work/queue-operations.ts'
import type { LocationsByCountry } from '../exits/index.ts'
import type { LiveList } from '../free-list/index.ts'
import { deliveryQueue } from '../webhooks/index.ts'
import type { ServicePart } from './status-page.ts'

/** A delivery that is due for longer than this is late, milliseconds. */
const lateDeliveryMs = 60_000
/**
 * A list that is older than this is late, milliseconds. Its endpoints are checked at least every quarter of an hour.
 */
const maxListAgeMs = 60 * 60_000

/** The parts of the service that customers see, and how the state of each is found. */
export const serviceParts = (deps: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly probes: readonly Probe[]
  readonly places: (family: Family | null) => LocationsByCountry
  readonly list: LiveList
  /** The number of scrapers that have a serving provider now. */
  readonly scrapers: () => number
}): readonly ServicePart[] => {
  const { pool, clock, probes, places, list } = deps
  return [
    {
      name: 'Orders',
      about: 'Takes orders and payments, and answers the API.',
      state: async () => {
        const probeOutcomes = await Promise.all(probes.filter(({ note }) => !note).map(probeOutcome))
        return probeOutcomes.every((each) => each === 'ok') ? 'up' : 'down'
      },
    },
    {
      name: 'Gateway',
      about: 'Has exits that lines of plans go out through.',
      state: async () => (places(null).size > 0 ? 'up' : 'down'),
    },
    {
      name: 'Webhooks',
      about: 'Sends what happened to the endpoints of customers.',
      state: async () => {
        const { oldestDueAt } = await depthOf(pool, deliveryQueue, clock())
        return oldestDueAt !== null && clock() - Date.parse(oldestDueAt) > lateDeliveryMs ? 'late' : 'up'
      },
    },
    {
      name: 'Scrapers',
      about: 'Have providers that serve calls.',
      state: async () => (deps.scrapers() > 0 ? 'up' : 'down'),
    },
    {
      name: 'Free proxies',
      about: 'Are checked again and again.',
      state: async () => {
        const { updatedAt } = (await list.current()).page({}, 1)
        if (updatedAt === null) return 'new'
        return clock() - Date.parse(updatedAt) > maxListAgeMs ? 'late' : 'up'
      },
    },
  ]
}
