import type pg from 'pg'
import { z } from 'zod'
import { books } from '../../../projections/groups.ts'
import {
  type Days,
  readPlatformCosts,
  readScrapeUsage,
  type ScrapeCost,
  type ScrapeUsage,
} from '../../../projections/scrape-usage.ts'
import { csv } from '../../kernel/csv.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { dayQuery, pagingCodes, wordQuery } from '../../platform/http/query.ts'
import { exampleRows, reportQuery, reportShape, rowFields, rowsOf } from '../../platform/http/report-rows.ts'
import { accountOnly, type Route, route } from '../../platform/http/route.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { type Reads, ReadsBehind } from '../../platform/projections/read-your-writes.ts'

const count = z.int().min(0)
const usageFields = {
  calls: count.meta({
    description: 'The number of finished calls. A retry of a failed call counts as another call.',
  }),
  billed: count.meta({
    description: 'The number of charged calls: the target was found, or the target does not exist.',
  }),
  found: count,
  empty: count.meta({
    description:
      'The number of searches without a hit and of media without speech. These calls are not charged.',
  }),
  notFound: count,
  restricted: count,
  failed: count,
  cached: count.meta({ description: 'The number of found targets whose answer came from a cache.' }),
  chargedUsd: z
    .string()
    .meta({ description: 'The charged amount, in dollars with four decimals.', example: '1.2930' }),
}
const Usage = z.object(usageFields)
const UsageList = z
  .object({
    scrapes: z.array(
      z.object({
        key: z.string().meta({
          description:
            'The key of the row: the day (2026-11-21), the platform, the scraper (`tiktok/video`) or the id of the API key.',
        }),
        ...usageFields,
      }),
    ),
    totals: Usage.meta({ description: 'The totals of all rows, also of those that are left out.' }),
    ...reportShape,
  })
  .meta({ id: 'ScrapeUsageList' })

const usageJson = ({ chargedMicros, ...rest }: ScrapeUsage): z.infer<typeof Usage> => ({
  ...rest,
  chargedUsd: dollarsOfMicros(chargedMicros),
})

const exampleUsage: z.infer<typeof Usage> = {
  calls: 120,
  billed: 112,
  found: 104,
  empty: 3,
  notFound: 8,
  restricted: 1,
  failed: 4,
  cached: 0,
  chargedUsd: '0.3360',
}

/** In column order. */
const columns = {
  calls: 'calls',
  billed: 'billed',
  found: 'found',
  empty: 'empty',
  notFound: 'not_found',
  restricted: 'restricted',
  failed: 'failed',
  cached: 'cached',
  chargedUsd: 'charged_usd',
} as const satisfies Record<keyof typeof usageFields, string>
const fields = Object.keys(columns) as (keyof typeof usageFields)[]
const usageCsv = (
  groupBy: string,
  rows: readonly ({ readonly key: string } & z.infer<typeof Usage>)[],
): string =>
  csv(
    [groupBy, ...Object.values(columns)],
    rows.map((row) => [row.key, ...fields.map((name) => row[name])]),
  )

/** @throws invalid_parameter when the end is before the beginning */
export const daysOf = ({ from, to }: { from?: string | undefined; to?: string | undefined }): Days => {
  if (from !== undefined && to !== undefined && to <= from)
    throw refuse(
      'invalid_parameter',
      'to must be later than from: the day of from is included, that of to is not',
    )
  return { from: from ?? null, to: to ?? null }
}

/** Scraper usage of an account. `reads` are those of the books projection. */
export const scrapeUsageRoutes = ({
  reads,
  pool,
}: {
  readonly reads: Pick<Reads, 'settled'>
  readonly pool: pg.Pool
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/v1/scrapes',
    operationId: 'listScrapeUsage',
    summary: 'Read your usage of the scrapers',
    description:
      'The number of scraper calls by outcome, and their cost, by day (newest first), platform, scraper or API key (most charged first). Days are whole days in UTC.',
    tag: 'Scrapers',
    access: 'scrape',
    writes: false,
    customer: accountOnly('usage of the scrapers is'),
    query: z.object({
      from: dayQuery('Only calls on or after this day. Default: from the first call.').optional(),
      to: dayQuery('Only calls before this day. Default: until now.').optional(),
      group_by: wordQuery(['day', 'platform', 'scraper', 'key'], 'The grouping of the rows.').default('day'),
      format: wordQuery(
        ['json', 'csv'],
        'The format of the answer: JSON, or CSV (RFC 4180) with a header row and all rows.',
      ).default('json'),
      ...reportQuery,
    }),
    codes: { query: pagingCodes },
    examples: { query: { from: '2026-11-01', to: '2026-12-01', group_by: 'platform' } },
    responses: {
      200: {
        description: 'The usage.',
        body: UsageList,
        example: {
          scrapes: [{ key: 'tiktok', ...exampleUsage }],
          totals: exampleUsage,
          ...exampleRows,
        },
        text: { mediaType: 'text/csv', example: usageCsv('platform', [{ key: 'tiktok', ...exampleUsage }]) },
        headers: { 'Content-Disposition': 'For CSV only: `attachment; filename="scrapes.csv"`' },
      },
    },
    errors: [],
    handler: async ({ caller, query, after }) => {
      const { group_by: groupBy, format } = query
      const page = rowsOf(format === 'csv' ? {} : query)
      const days = daysOf(query)
      await reads.settled(caller.accountId, after ?? 0)
      const found = await readScrapeUsage(pool, caller.accountId, { ...days, groupBy, ...page })
      const scrapes = found.rows.map(({ key, ...usage }) => ({ key, ...usageJson(usage) }))
      if (format === 'csv')
        return {
          status: 200,
          text: usageCsv(groupBy, scrapes),
          headers: { 'content-disposition': 'attachment; filename="scrapes.csv"' },
        }
      return {
        status: 200,
        body: { scrapes, totals: usageJson(found.totals), ...rowFields(found.total, page) },
      }
    },
  }),
]

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
  .meta({ description: 'An exact, signed amount in micro-dollars.' })
const amountFields = {
  calls: count,
  billed: count,
  failed: count,
  revenueMicros: micros,
  credits: count.meta({ description: 'The sum of the credits that the providers reported as charged.' }),
  costMicros: micros.nullable().meta({
    description:
      'The cost at the providers in micro-dollars. Null: `FAREBOX_SCRAPERS_CREDIT_USD` is not set.',
  }),
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

const exampleEarnings = {
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
export const scrapeFinanceRoutes = ({
  pool,
  log,
  progress,
  creditMicros,
}: {
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
    summary: 'Read the revenue of the scrapers',
    description:
      'The revenue of the scrapers by platform, with the cost of their calls at the providers, for all accounts. Days are whole days in UTC.',
    tag: 'Finance',
    access: 'finance',
    writes: false,
    query: z.object({
      from: dayQuery('Only calls on or after this day. Default: from the first call.').optional(),
      to: dayQuery('Only calls before this day. Default: until now.').optional(),
    }),
    examples: { query: { from: '2026-11-01', to: '2026-12-01' } },
    responses: {
      200: {
        description: 'The revenue by platform, highest revenue first.',
        body: ScrapeEarnings,
        example: { platforms: [{ platform: 'tiktok', ...exampleEarnings }], totals: exampleEarnings },
      },
    },
    errors: [],
    handler: async ({ query }) => {
      const days = daysOf(query)
      if (!(await progress.reached(books.name, await log.head(), waitMs)))
        throw new ReadsBehind('the books have not come as far as the log; try again')
      const { rows, totals } = await readPlatformCosts(pool, days)
      const earned = (cost: ScrapeCost) => earningsJson(earnedOf(cost, creditMicros))
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
