import type pg from 'pg'
import type { ScrapeEvent, ScrapeFinished, ScrapeOutcome } from '../src/domain/scrapers/calls.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import { column, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** The use of one scraper by one key of an account on one day (UTC): finished attempts by outcome. */
export const scrapeUsageTable = readTable({
  name: 'scrape_usage',
  columns: {
    accountId: column.text(),
    /** `2026-11-21` */
    day: column.text(),
    platform: column.text(),
    operation: column.text(),
    /** Empty if the call had no key. */
    keyId: column.text(),
    billed: column.bigint(),
    found: column.bigint(),
    empty: column.bigint(),
    notFound: column.bigint(),
    restricted: column.bigint(),
    /** All attempts without a result: rejected, failed or interrupted. */
    failed: column.bigint(),
    /** Answers from the provider's cache. They are also counted by their outcome. */
    cached: column.bigint(),
    chargedMicros: column.bigint(),
    /** The charges that providers reported, in their credits. */
    credits: column.bigint(),
  },
  key: ['accountId', 'day', 'platform', 'operation', 'keyId'],
  // The costs and results of all accounts.
  indexes: ['day, platform'],
  rewritten: true,
})

export type ScrapeUsageRow = RowOf<typeof scrapeUsageTable>

type Count = 'found' | 'empty' | 'notFound' | 'restricted' | 'failed'

const counts: Partial<Record<ScrapeOutcome, Count>> = {
  found: 'found',
  empty: 'empty',
  target_not_found: 'notFound',
  target_restricted: 'restricted',
}

const isFinished = (event: RecordedEvent): event is RecordedEvent<ScrapeFinished> =>
  (event as RecordedEvent<ScrapeEvent>).type === 'ScrapeFinished'

const keyOf = ({ data, metadata }: RecordedEvent<ScrapeFinished>) => {
  const { accountId, platform, operation, keyId } = data
  return [accountId, metadata.recordedAt.slice(0, 10), platform, operation, keyId ?? ''] as const
}

const emptyRow = (event: RecordedEvent<ScrapeFinished>): ScrapeUsageRow => {
  const [accountId, day, platform, operation, keyId] = keyOf(event)
  const zeroCounts = { billed: 0, found: 0, empty: 0, notFound: 0, restricted: 0, failed: 0, cached: 0 }
  return { accountId, day, platform, operation, keyId, ...zeroCounts, chargedMicros: 0, credits: 0 }
}

/** Calls of scrapers, counted by account, day, scraper and key. */
export const scrapeUsage = readModel({
  name: 'scrape-usage',
  version: 2,
  tables: [scrapeUsageTable],
  reads: (event) => (isFinished(event) ? [{ table: scrapeUsageTable.name, key: keyOf(event) }] : []),
  apply: (event, rows) => {
    if (!isFinished(event)) return
    const { outcome, billed, amountMicros, cached, creditsCharged } = event.data
    const row = rows.get(scrapeUsageTable, keyOf(event)) ?? emptyRow(event)
    const count = counts[outcome] ?? 'failed'
    rows.put(scrapeUsageTable, {
      ...row,
      [count]: row[count] + 1,
      billed: row.billed + (billed ? 1 : 0),
      cached: row.cached + (cached ? 1 : 0),
      chargedMicros: row.chargedMicros + amountMicros,
      credits: row.credits + (creditsCharged ?? 0),
    })
  },
})

/** Whole days (UTC), from the first (inclusive) to the second (exclusive); null: no bound. */
export type Days = { readonly from: string | null; readonly to: string | null }

export type UsageDimension = 'day' | 'platform' | 'scraper' | 'key'

/** Finished calls by outcome. */
export type ScrapeUsage = {
  readonly calls: number
  readonly billed: number
  readonly found: number
  readonly empty: number
  readonly notFound: number
  readonly restricted: number
  readonly failed: number
  readonly cached: number
  readonly chargedMicros: number
}

export type ScrapeUsageSum = ScrapeUsage & { readonly key: string }

/** The results of calls, and their costs at the providers, in the providers' credits. */
export type ScrapeCost = ScrapeUsage & { readonly credits: number }

const keys: Readonly<Record<UsageDimension, string>> = {
  day: 'day',
  platform: 'platform',
  scraper: `platform || '/' || operation`,
  key: 'key_id',
}

/** Days newest first; other dimensions by charge, the largest first. */
const orders: Readonly<Record<UsageDimension, string>> = {
  day: 'key desc',
  platform: 'charged desc, key',
  scraper: 'charged desc, key',
  key: 'charged desc, key',
}

const figures = `
  coalesce(sum(found + empty + not_found + restricted + failed), 0)::bigint as calls,
  coalesce(sum(billed), 0)::bigint as billed,
  coalesce(sum(found), 0)::bigint as found, coalesce(sum(empty), 0)::bigint as empty,
  coalesce(sum(not_found), 0)::bigint as "notFound", coalesce(sum(restricted), 0)::bigint as restricted,
  coalesce(sum(failed), 0)::bigint as failed, coalesce(sum(cached), 0)::bigint as cached,
  coalesce(sum(charged_micros), 0)::bigint as charged, coalesce(sum(credits), 0)::bigint as credits`

type Figures = {
  readonly calls: number
  readonly billed: number
  readonly found: number
  readonly empty: number
  readonly notFound: number
  readonly restricted: number
  readonly failed: number
  readonly cached: number
  readonly charged: number
  readonly credits: number
}

const usageOf = (row: Figures): ScrapeUsage => {
  const { calls, billed, found, empty, notFound, restricted, failed, cached } = row
  return { calls, billed, found, empty, notFound, restricted, failed, cached, chargedMicros: row.charged }
}

const inDays = (from: string, to: string): string =>
  `day >= coalesce(${from}::text, '') and day < coalesce(${to}::text, '~')`

/** A page of an account's usage, and the totals of all of it. */
export const readScrapeUsage = async (
  pool: pg.Pool,
  accountId: AccountId,
  request: Days & { readonly groupBy: UsageDimension; readonly limit: number; readonly offset: number },
): Promise<{
  readonly rows: readonly ScrapeUsageSum[]
  readonly total: number
  readonly totals: ScrapeUsage
}> => {
  const { from, to, groupBy, limit, offset } = request
  const { rows } = await pool.query<Figures & { readonly key: string | null; readonly total: number }>({
    name: `scrape-usage-by-${groupBy}`,
    text: `with sums as (
             select ${keys[groupBy]} as key, ${figures} from read.scrape_usage
              where account_id = $1::text and ${inDays('$2', '$3')}
              group by grouping sets ((${keys[groupBy]}), ()))
           select *, (select count(*) from sums where key is not null) as total from sums where key is null
           union all
           (select *, 0::bigint from sums where key is not null
             order by ${orders[groupBy]} limit $4::bigint offset $5::bigint)`,
    values: [accountId, from, to, limit, offset],
  })
  const totalRow = rows.find(({ key }) => key === null)!
  return {
    totals: usageOf(totalRow),
    total: totalRow.total,
    rows: rows.filter(({ key }) => key !== null).map((row) => ({ key: row.key!, ...usageOf(row) })),
  }
}

/** The results and costs of each platform over all accounts, the most charged first, and the totals. */
export const readPlatformCosts = async (
  pool: pg.Pool,
  { from, to }: Days,
): Promise<{
  readonly rows: readonly (ScrapeCost & { readonly platform: string })[]
  readonly totals: ScrapeCost
}> => {
  const { rows } = await pool.query<Figures & { readonly platform: string | null }>({
    name: 'scrape-costs',
    text: `select platform, ${figures} from read.scrape_usage where ${inDays('$1', '$2')}
            group by grouping sets ((platform), ()) order by platform is null, charged desc, platform`,
    values: [from, to],
  })
  const costs = rows.map(({ platform, ...row }) => ({ platform, credits: row.credits, ...usageOf(row) }))
  const { platform: _, ...totals } = costs.pop()!
  return { totals, rows: costs.map((cost) => ({ ...cost, platform: cost.platform! })) }
}
