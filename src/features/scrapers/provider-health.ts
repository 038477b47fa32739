import type pg from 'pg'
import { rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import type { ScrapeOutcome, ScrapeResult } from './provider-port.ts'

/** Health of a scraper in the last 24 hours, as measured by this installation. */
export type Health = {
  /** Calls whose outcome counts for or against the scraper. */
  readonly calls: number
  /** The share of these calls that got an answer: from 0 to 1, four decimals; null without calls. */
  readonly successShare: number | null
  /** Median and 95th percentile duration of the good calls, milliseconds; null without one. */
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  /** ISO 8601, within the last seven days; null without one. */
  readonly lastGoodAt: string | null
}

export type ScraperHealth = {
  /** Counts the end of a call. */
  note(row: ScraperRow, result: ScrapeResult): void
  /** By row name, without uncalled scrapers. At most half a minute old. */
  read(): Promise<ReadonlyMap<string, Health>>
  /** Writes the pending counts now. */
  flush(): Promise<void>
  stop(): Promise<void>
}

/** Upper bounds of the duration classes, milliseconds. Longer calls are in the last class. */
const classes = [
  25, 50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 20_000, 30_000,
  61_000,
]

export const scraperHealth = worker({
  name: 'scraper-health',
  about: 'Writes how the calls of scrapers ended',
  trigger: { everyMs: 10_000 },
  per: 'process',
  process: 'server',
})
const cacheMs = 30_000

type Counts = { good: number; bad: number; readonly took: number[]; lastGoodMs: number | null }

/** True for a success of the scraper, false for a failure, null if the outcome counts for neither. */
const isGood = (outcome: ScrapeOutcome): boolean | null => {
  if (outcome.kind === 'bad_input') return null
  if (outcome.kind !== 'failed') return true
  return outcome.code === 'overloaded' || outcome.code === 'scraper_unavailable' ? null : false
}

const classOf = (ms: number): number => {
  const at = classes.findIndex((end) => ms <= end)
  return at < 0 ? classes.length - 1 : at
}

const writeText = `
  insert into work.scraper_health as known (scraper, hour, good, bad, took, last_good_at)
  select name, date_trunc('hour', $2::timestamptz), (counts->>'good')::bigint, (counts->>'bad')::bigint,
         (select array_agg(value::bigint order by at) from jsonb_array_elements_text(counts->'took') with ordinality as t (value, at)),
         (counts->>'lastGoodAt')::timestamptz
    from jsonb_each($1::jsonb) as noted (name, counts) order by name
  on conflict (scraper, hour) do update set
    good = known.good + excluded.good,
    bad = known.bad + excluded.bad,
    took = (select array_agg(coalesce(a, 0) + coalesce(b, 0) order by at)
              from unnest(known.took, excluded.took) with ordinality as both_sides (a, b, at)),
    last_good_at = greatest(known.last_good_at, excluded.last_good_at)`

type Row = { scraper: string; good: string; bad: string; took: string[] | null; last_good_at: string | null }

/** The last day's hours are summed class by class. Older hours only provide the time of the last good call. */
const readText = `
  with recent as (
    select scraper, good, bad, took from work.scraper_health where hour > $1::timestamptz - interval '24 hours'
  ), classes as (
    select scraper, at, sum(calls) as calls
      from recent, unnest(took) with ordinality as t (calls, at) group by scraper, at
  ), counted as (
    select scraper, sum(good) as good, sum(bad) as bad from recent group by scraper
  )
  select scraper, coalesce(good, 0)::text as good, coalesce(bad, 0)::text as bad, last_good_at,
         (select array_agg(calls::text order by at) from classes where classes.scraper = last.scraper) as took
    from (select scraper, max(last_good_at) as last_good_at from work.scraper_health group by scraper) last
    left join counted using (scraper)`

const quantile = (took: readonly number[], share: number): number | null => {
  const all = took.reduce((sum, calls) => sum + calls, 0)
  if (all === 0) return null
  let below = 0
  for (const [at, calls] of took.entries()) {
    below += calls
    if (below >= all * share) return classes[at] ?? null
  }
  return classes.at(-1) ?? null
}

const healthOf = ({ good, bad, took, last_good_at: last }: Row): Health => {
  const calls = Number(good) + Number(bad)
  const times = (took ?? []).map(Number)
  return {
    calls,
    successShare: calls === 0 ? null : Math.round((Number(good) / calls) * 10_000) / 10_000,
    p50Ms: quantile(times, 0.5),
    p95Ms: quantile(times, 0.95),
    lastGoodAt: last,
  }
}

/** Counts the ends of calls in memory, and adds them every ten seconds to the counts of all processes in Postgres. */
export const startScraperHealth = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: Pick<pg.Pool, 'query'>
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
}): ScraperHealth => {
  const { scheduler, pool, clock, monotonicMs } = dependencies
  let pendingCounts = new Map<string, Counts>()
  let cachedHealth: { readonly atMs: number; readonly health: Promise<ReadonlyMap<string, Health>> } | null =
    null

  const countsOf = (name: string): Counts => {
    const counts = pendingCounts.get(name) ?? {
      good: 0,
      bad: 0,
      took: classes.map(() => 0),
      lastGoodMs: null,
    }
    pendingCounts.set(name, counts)
    return counts
  }
  const write = async (): Promise<void> => {
    if (pendingCounts.size === 0) return
    const written = pendingCounts
    pendingCounts = new Map()
    const counts = [...written].map(([name, { lastGoodMs, ...rest }]) => [
      name,
      { ...rest, lastGoodAt: lastGoodMs === null ? null : isoTime(lastGoodMs) },
    ])
    const now = isoTime(clock())
    // Counts that cannot be written are lost: nothing needs them later, and they must not accumulate.
    await pool.query(writeText, [JSON.stringify(Object.fromEntries(counts)), now])
    await pool.query(`delete from work.scraper_health where hour < $1::timestamptz - interval '7 days'`, [
      now,
    ])
  }
  const writing = scheduler.start(scraperHealth, write)

  const readNow = async (): Promise<ReadonlyMap<string, Health>> => {
    const { rows } = await pool.query<Row>(readText, [isoTime(clock())])
    return new Map(rows.map((row) => [row.scraper, healthOf(row)]))
  }
  return {
    note: (row, { outcome, cost }) => {
      const verdict = isGood(outcome)
      if (verdict === null) return
      const counts = countsOf(rowName(row))
      if (!verdict) {
        counts.bad += 1
        return
      }
      counts.good += 1
      const at = classOf(cost.tookMs)
      counts.took[at] = (counts.took[at] ?? 0) + 1
      counts.lastGoodMs = clock()
    },
    read: () => {
      if (cachedHealth !== null && monotonicMs() - cachedHealth.atMs < cacheMs) return cachedHealth.health
      const health = readNow()
      cachedHealth = { atMs: monotonicMs(), health }
      health.catch(() => {
        cachedHealth = null
      })
      return health
    },
    flush: async () => {
      await writing.runNow()
      cachedHealth = null
    },
    stop: async () => {
      await writing.runNow().catch(() => undefined) // logged by the scheduler; at most ten seconds of counts are lost
      await writing.stop()
    },
  }
}
