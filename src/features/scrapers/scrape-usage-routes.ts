import type pg from 'pg'
import { z } from 'zod'
import { type Days, readScrapeUsage, type ScrapeUsage } from '../../../projections/scrape-usage.ts'
import { csv } from '../../kernel/csv.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { refuse } from '../../platform/http/errors.ts'
import { dayQuery, pageShape, pagingCodes, pagingQuery, wordQuery } from '../../platform/http/query.ts'
import { accountOnly, type Route, route } from '../../platform/http/route.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'

const count = z.int().min(0)
const usageFields = {
  calls: count.meta({ description: 'Calls that are over. A retry of a call that failed is one more.' }),
  billed: count.meta({ description: 'Of those, the ones that were charged: found, or no such target.' }),
  found: count,
  empty: count.meta({ description: 'Searches without a hit, and media without speech: not charged.' }),
  notFound: count,
  restricted: count,
  failed: count,
  cached: count.meta({ description: 'Of those found, the ones that came from a cache.' }),
  chargedUsd: z.string().meta({ description: 'Dollars with four decimals.', example: '1.2930' }),
}
const Usage = z.object(usageFields)
const UsageList = z
  .object({
    scrapes: z.array(
      z.object({
        key: z.string().meta({
          description:
            'The day (2026-11-21), the platform, the scraper (`tiktok/video`) or the id of the API key.',
        }),
        ...usageFields,
      }),
    ),
    totals: Usage.meta({ description: 'Over all rows of all pages.' }),
    ...pageShape,
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
/** More rows than any account has. */
const csvRows = 100_000

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
      'How many calls of scrapers came to what, and what they cost, by day (newest first), platform, scraper or API key (most charged first). Whole days, UTC.',
    tag: 'Scrapers',
    access: 'scrape',
    writes: false,
    customer: accountOnly('usage of the scrapers is'),
    query: z.object({
      from: dayQuery('From this day on; from the first call on when left out.').optional(),
      to: dayQuery('Before this day; until now when left out.').optional(),
      group_by: wordQuery(['day', 'platform', 'scraper', 'key'], 'What a row stands for.').default('day'),
      format: wordQuery(['json', 'csv'], 'JSON, or all rows as CSV (RFC 4180) with a heading.').default(
        'json',
      ),
      ...pagingQuery,
    }),
    codes: { query: pagingCodes },
    examples: { query: { from: '2026-11-01', to: '2026-12-01', group_by: 'platform' } },
    responses: {
      200: {
        description: 'A page of usage.',
        body: UsageList,
        example: {
          scrapes: [{ key: 'tiktok', ...exampleUsage }],
          totals: exampleUsage,
          total: 1,
          limit: 50,
          offset: 0,
        },
        text: { mediaType: 'text/csv', example: usageCsv('platform', [{ key: 'tiktok', ...exampleUsage }]) },
        headers: { 'Content-Disposition': 'CSV only: `attachment; filename="scrapes.csv"`' },
      },
    },
    errors: [],
    handler: async ({ caller, query, after }) => {
      const { group_by: groupBy, format } = query
      const { limit, offset } = format === 'csv' ? { limit: csvRows, offset: 0 } : query
      const days = daysOf(query)
      await reads.settled(caller.accountId, after ?? 0)
      const found = await readScrapeUsage(pool, caller.accountId, { ...days, groupBy, limit, offset })
      const scrapes = found.rows.map(({ key, ...usage }) => ({ key, ...usageJson(usage) }))
      if (format === 'csv')
        return {
          status: 200,
          text: usageCsv(groupBy, scrapes),
          headers: { 'content-disposition': 'attachment; filename="scrapes.csv"' },
        }
      return {
        status: 200,
        body: { scrapes, totals: usageJson(found.totals), total: found.total, limit, offset },
      }
    },
  }),
]
