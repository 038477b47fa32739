import type pg from 'pg'
import { policyOf, type Rate, type Taken, takenOf } from '../../platform/http/rate-limiter.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'

/** The limit of each account over all processes. */
export type ScrapeRate = {
  readonly per: 'account'
  readonly policy: string
  take(accountId: string): Promise<Taken>
}

/** A request of an account. Each is a separate object, because the batch loader matches results by identity. */
type RateRequest = { readonly accountId: string }

type Row = { account_id: string; taken: number; missing: string }

/**
 * The generic cell rate algorithm of src/platform/http/rate-limit.ts, by the clock of Postgres and for several requests
 * of an account at once. As many of the requests pass as the bucket has. All numbers are integers, in thousandths of a
 * request. Accounts are locked in a fixed order, so that statements do not deadlock. A bucket that would be full later
 * than an empty one was stored by a clock that ran ahead, so it is limited to an empty one.
 */
const takeText = `
  with requests as (
    select account_id, n, (floor(extract(epoch from clock_timestamp()) * 1000))::bigint * $4::bigint as now,
           $3::bigint * 1000 as burst
      from unnest($1::text[], $2::integer[]) as list (account_id, n)
  )
  insert into work.scrape_rates as bucket (account_id, full_at, taken)
  select account_id, now + least(n, $3::bigint) * 1000, least(n, $3::bigint) from requests order by account_id
  on conflict (account_id) do update set (full_at, taken) = (
    select start.full_at + start.taken * 1000, start.taken
      from (select found.full_at, least(a.n, (a.now + a.burst - found.full_at) / 1000)::integer as taken
              from requests a,
                   lateral (select least(greatest(bucket.full_at, a.now), a.now + a.burst) as full_at) found
             where a.account_id = bucket.account_id) start
  )
  returning account_id, taken,
    greatest(0, full_at - (floor(extract(epoch from clock_timestamp()) * 1000))::bigint * $4::bigint) as missing`

/**
 * The scrape rate limit of each account over all processes. Its bucket is a row of Postgres. The table is unlogged, so
 * a request waits for no disk. Requests that arrive during a statement share the next one.
 */
export const createScrapeRate = (pool: Pick<pg.Pool, 'query'>, rate: Rate): ScrapeRate => {
  const { burst, perSecond } = rate
  const takeTokens = createBatchLoader<RateRequest, Taken>(async (pendingRequests) => {
    const requestsByAccount = Map.groupBy(pendingRequests, ({ accountId }) => accountId)
    const { rows } = await pool.query<Row>({
      name: 'scrape-rate',
      text: takeText,
      values: [
        [...requestsByAccount.keys()],
        [...requestsByAccount.values()].map(({ length }) => length),
        burst,
        perSecond,
      ],
    })
    return new Map(
      rows.flatMap(({ account_id, taken, missing }) => {
        const lacks = Number(missing)
        // Whole milliseconds, at least one.
        const waitMs = Math.max(1, Math.ceil((lacks + 1000 - burst * 1000) / perSecond))
        return (requestsByAccount.get(account_id) ?? []).map(
          (rateRequest, n) => [rateRequest, takenOf(rate, lacks, n < taken ? 0 : waitMs)] as const,
        )
      }),
    )
  })
  return {
    per: 'account',
    policy: policyOf(rate),
    take: async (accountId) => {
      const taken = await takeTokens({ accountId })
      if (taken === undefined) throw new Error(`the rate of ${accountId} was not answered`)
      return taken
    },
  }
}
