import type pg from 'pg'
import type { AccountId } from '../../kernel/ids.ts'

/** Whole days (UTC): from the first on, before the second; null: no bound. */
export type Days = { readonly from: string | null; readonly to: string | null }

export type UsageDimension = 'day' | 'platform' | 'scraper' | 'key'

/** Calls that are over, by what came of them. */
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

export type ScrapeUsageRow = ScrapeUsage & { readonly key: string }

/** What calls brought, and what they cost at the providers, in their credits. */
export type ScrapeCost = ScrapeUsage & { readonly credits: number }

const keys: Readonly<Record<UsageDimension, string>> = {
  day: 'day',
  platform: 'platform',
  scraper: `platform || '/' || operation`,
  key: 'key_id',
}

/** Days newest first; all else by what was charged, the most first. */
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
  coalesce(sum(not_found), 0)::bigint as not_found, coalesce(sum(restricted), 0)::bigint as restricted,
  coalesce(sum(failed), 0)::bigint as failed, coalesce(sum(cached), 0)::bigint as cached,
  coalesce(sum(charged_micros), 0)::bigint as charged, coalesce(sum(credits), 0)::bigint as credits`

type Figures = {
  readonly calls: number
  readonly billed: number
  readonly found: number
  readonly empty: number
  readonly not_found: number
  readonly restricted: number
  readonly failed: number
  readonly cached: number
  readonly charged: number
  readonly credits: number
}

const usageOf = (row: Figures): ScrapeUsage => {
  const { calls, billed, found, empty, not_found: notFound, restricted, failed, cached } = row
  return { calls, billed, found, empty, notFound, restricted, failed, cached, chargedMicros: row.charged }
}

const inDays = (from: string, to: string): string =>
  `day >= coalesce(${from}::text, '') and day < coalesce(${to}::text, '~')`

/** A page of an account's usage, and what all of it comes to. */
export const readScrapeUsage = async (
  pool: pg.Pool,
  accountId: AccountId,
  asked: Days & { readonly groupBy: UsageDimension; readonly limit: number; readonly offset: number },
): Promise<{
  readonly rows: readonly ScrapeUsageRow[]
  readonly total: number
  readonly totals: ScrapeUsage
}> => {
  const { from, to, groupBy, limit, offset } = asked
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
  const all = rows.find(({ key }) => key === null)!
  return {
    totals: usageOf(all),
    total: all.total,
    rows: rows.filter(({ key }) => key !== null).map((row) => ({ key: row.key!, ...usageOf(row) })),
  }
}

/** What each platform brought and cost over all accounts, the most charged first, and what all of them do. */
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
