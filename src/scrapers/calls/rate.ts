import type pg from 'pg'
import type { Rate } from '../../platform/http/rate-limit.ts'

/** Counts a request of an account. @returns 0 when it may go on, else the seconds to wait */
export type TakeScrape = (accountId: string) => Promise<number>

type Waiting = { readonly resolve: (waitS: number) => void; readonly reject: (error: unknown) => void }

type Row = { account_id: string; taken: number; wait_ms: number }

/**
 * The generic cell rate algorithm of src/platform/http/rate-limit.ts, by the one clock of Postgres and for several requests
 * of an account at once: of those that are asked, as many pass as the bucket has. Whole numbers throughout, in thousandths
 * of a request. Accounts are locked in one order, so that no two statements wait for each other. A bucket that is full
 * again later than a whole one takes was left by a clock that ran ahead.
 */
const takeText = `
  with asked as (
    select account_id, n, (floor(extract(epoch from clock_timestamp()) * 1000))::bigint * $4::bigint as now,
           $3::bigint * 1000 as burst
      from unnest($1::text[], $2::integer[]) as list (account_id, n)
  )
  insert into work.scrape_rates as bucket (account_id, full_at, taken)
  select account_id, now + least(n, $3::bigint) * 1000, least(n, $3::bigint) from asked order by account_id
  on conflict (account_id) do update set (full_at, taken) = (
    select start.full_at + start.taken * 1000, start.taken
      from (select found.full_at, least(a.n, (a.now + a.burst - found.full_at) / 1000)::integer as taken
              from asked a,
                   lateral (select least(greatest(bucket.full_at, a.now), a.now + a.burst) as full_at) found
             where a.account_id = bucket.account_id) start
  )
  returning account_id, taken,
    greatest(1, ceil((full_at + 1000 - $3::bigint * 1000) / $4::numeric
      - floor(extract(epoch from clock_timestamp()) * 1000)))::integer as wait_ms`

/**
 * The rate of scrapes of each account, over all processes: a row of Postgres is the bucket. The table is not logged, so a
 * request waits for no disk; requests that come while a statement is under way share the next one.
 */
export const createScrapeRate = (pool: Pick<pg.Pool, 'query'>, { burst, perSecond }: Rate): TakeScrape => {
  let waiting = new Map<string, Waiting[]>()
  let running = false

  const take = async (asked: ReadonlyMap<string, readonly Waiting[]>): Promise<void> => {
    const { rows } = await pool.query<Row>({
      name: 'scrape-rate',
      text: takeText,
      values: [[...asked.keys()], [...asked.values()].map(({ length }) => length), burst, perSecond],
    })
    for (const { account_id, taken, wait_ms } of rows)
      for (const [n, { resolve }] of (asked.get(account_id) ?? []).entries())
        resolve(n < taken ? 0 : wait_ms / 1000)
  }

  const run = async (): Promise<void> => {
    while (waiting.size > 0) {
      const asked = waiting
      waiting = new Map()
      try {
        await take(asked)
      } catch (error) {
        for (const one of asked.values()) for (const { reject } of one) reject(error)
      }
    }
    running = false
  }

  return (accountId) => {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    const same = waiting.get(accountId)
    if (same) same.push({ resolve, reject })
    else waiting.set(accountId, [{ resolve, reject }])
    if (!running) {
      running = true
      setImmediate(() => void run())
    }
    return promise
  }
}
