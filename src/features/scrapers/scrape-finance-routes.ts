import type pg from 'pg'
import { z } from 'zod'
import { books } from '../../../projections/groups.ts'
import { readPlatformCosts, type ScrapeCost } from '../../../projections/scrape-usage.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { dayQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { ReadsBehind } from '../../platform/projections/read-your-writes.ts'
import { daysOf } from './scrape-usage-routes.ts'

/** Revenue and cost of calls, micro-dollars. Cost and margin are null while the price of a credit is unknown. */
export type Earned = {
  readonly costMicros: number | null
  readonly marginMicros: number | null
}

/** @param creditMicros our cost of a provider's credit, micro-dollars; null: not known */
export const earnedOf = <Cost extends ScrapeCost>(cost: Cost, creditMicros: number | null): Cost & Earned => {
  const costMicros = creditMicros === null ? null : cost.credits * creditMicros
  return { ...cost, costMicros, marginMicros: costMicros === null ? null : cost.chargedMicros - costMicros }
}

const micros = z
  .string()
  .regex(/^-?\d+$/)
  .meta({ description: 'Micro-dollars, signed, exact.' })
const count = z.int().min(0)
const amountFields = {
  calls: count,
  billed: count,
  failed: count,
  revenueMicros: micros,
  credits: count.meta({ description: 'What providers said that they charged, in their credits.' }),
  costMicros: micros.nullable().meta({ description: 'Null without FAREBOX_SCRAPERS_CREDIT_USD.' }),
  marginMicros: micros.nullable(),
}
const ScrapeEarnings = z
  .object({
    platforms: z.array(z.object({ platform: z.string(), ...amountFields })),
    totals: z.object(amountFields),
  })
  .meta({ id: 'ScrapeEarnings' })

const text = (value: number | null): string | null => (value === null ? null : String(value))
const earningsJson = ({
  calls,
  billed,
  failed,
  chargedMicros,
  credits,
  costMicros,
  marginMicros,
}: ScrapeCost & Earned) => ({
  calls,
  billed,
  failed,
  revenueMicros: String(chargedMicros),
  credits,
  costMicros: text(costMicros),
  marginMicros: text(marginMicros),
})

const example = {
  calls: 120,
  billed: 112,
  failed: 4,
  revenueMicros: '336000',
  credits: 112,
  costMicros: '210560',
  marginMicros: '125440',
} as const

/** The longest wait of a request for the books projection, milliseconds. */
const waitMs = 2_000

/** Revenue and cost of the scrapers, for finance. */
export const scrapeFinanceRoutes = (deps: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'head'>
  readonly progress: Pick<Progress, 'reached'>
  /** Micro-dollars; null: not known. */
  readonly creditMicros: number | null
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/finance/v1/scrapes',
    operationId: 'listScrapeEarnings',
    summary: 'Read what the scrapers earned',
    description:
      'Revenue of the scrapers by platform, beside what their calls cost at the providers, over all accounts. Whole days, UTC.',
    tag: 'Finance',
    access: 'finance',
    writes: false,
    query: z.object({
      from: dayQuery('From this day on; from the first call on when left out.').optional(),
      to: dayQuery('Before this day; until now when left out.').optional(),
    }),
    examples: { query: { from: '2026-11-01', to: '2026-12-01' } },
    responses: {
      200: {
        description: 'By platform, the most revenue first.',
        body: ScrapeEarnings,
        example: { platforms: [{ platform: 'tiktok', ...example }], totals: example },
      },
    },
    errors: [],
    handler: async ({ query }) => {
      const days = daysOf(query)
      if (!(await deps.progress.reached(books.name, await deps.log.head(), waitMs)))
        throw new ReadsBehind('the books have not come as far as the log; try again')
      const { rows, totals } = await readPlatformCosts(deps.pool, days)
      const earned = (cost: ScrapeCost) => earningsJson(earnedOf(cost, deps.creditMicros))
      return {
        status: 200,
        body: {
          platforms: rows.map((row) => ({ platform: row.platform, ...earned(row) })),
          totals: earned(totals),
        },
      }
    },
  }),
]
