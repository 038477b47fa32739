import type pg from 'pg'
import { remedyOf } from '../../domain/exits/connection-failures.ts'
import { type Range, removeHosts } from './traffic-records.ts'

export const buckets = ['hour', 'day'] as const
export type Bucket = (typeof buckets)[number]

export type UsageBucket = {
  readonly ts: string
  readonly bytesUp: number
  readonly bytesDown: number
  readonly connections: number
  readonly failures: number
}

const values = (planId: string, { fromMs, toMs }: Range): unknown[] => [
  planId,
  new Date(fromMs).toISOString(),
  new Date(toMs).toISOString(),
]

/** Buckets with traffic or connections, oldest first. */
const readBuckets = async (
  pool: pg.Pool,
  planId: string,
  range: Range,
  bucket: Bucket,
): Promise<readonly UsageBucket[]> => {
  const { rows } = await pool.query<{
    readonly ts: Date | string
    readonly bytes_up: number
    readonly bytes_down: number
    readonly connections: number
    readonly failures: number
  }>({
    name: `plan-usage-${bucket}`,
    text: `
      with failed as (
        select hour, sum(count)::bigint as failures from work.plan_failures
         where plan_id = $1::text and hour >= $2::timestamptz and hour < $3::timestamptz group by hour)
      select date_trunc('${bucket}', hours.hour, 'UTC') as ts, sum(bytes_up)::bigint as bytes_up,
             sum(bytes_down)::bigint as bytes_down, sum(connections)::bigint as connections,
             coalesce(sum(failed.failures), 0)::bigint as failures
        from work.plan_hours hours left join failed on failed.hour = hours.hour
       where hours.plan_id = $1::text and hours.hour >= $2::timestamptz and hours.hour < $3::timestamptz
       group by 1 order by 1`,
    values: values(planId, range),
  })
  return rows.map((row) => ({
    ts: new Date(row.ts).toISOString(),
    bytesUp: row.bytes_up,
    bytesDown: row.bytes_down,
    connections: row.connections,
    failures: row.failures,
  }))
}

/** Reasons of failed connections, the most frequent first. */
const readFailures = async (
  pool: pg.Pool,
  planId: string,
  range: Range,
): Promise<readonly { readonly error: string; readonly count: number }[]> => {
  const { rows } = await pool.query({
    name: 'plan-failures',
    text: `select error, sum(count)::bigint as count from work.plan_failures
            where plan_id = $1::text and hour >= $2::timestamptz and hour < $3::timestamptz
            group by error order by count desc, error limit 50`,
    values: values(planId, range),
  })
  return rows
}

/** Target hosts of the traffic, by whole days (UTC), those with the most traffic first. */
const readHosts = async (
  pool: pg.Pool,
  planId: string,
  range: Range,
  limit: number,
): Promise<readonly { readonly host: string; readonly bytes: number; readonly connections: number }[]> => {
  const { rows } = await pool.query({
    name: 'plan-hosts',
    text: `select host, sum(bytes)::bigint as bytes, sum(connections)::bigint as connections from work.plan_hosts
            where plan_id = $1::text and day >= ($2::timestamptz at time zone 'UTC')::date
              and day <= (($3::timestamptz - interval '1 microsecond') at time zone 'UTC')::date
            group by host order by bytes desc, host limit $4::int`,
    values: [...values(planId, range), limit],
  })
  return rows
}

const readCountsHosts = async (pool: pg.Pool, planId: string): Promise<boolean> => {
  const { rows } = await pool.query({
    name: 'plan-counts-hosts',
    text: 'select from work.plans_without_hosts where plan_id = $1::text',
    values: [planId],
  })
  return rows.length === 0
}

/** Turns the counting of hosts on or off. Off: counting stops within a second, and counted hosts are deleted. */
export const setCountsHosts = async (pool: pg.Pool, planId: string, counts: boolean): Promise<void> => {
  if (counts) {
    await pool.query('delete from work.plans_without_hosts where plan_id = $1::text', [planId])
    return
  }
  await pool.query(
    'insert into work.plans_without_hosts (plan_id) values ($1::text) on conflict do nothing',
    [planId],
  )
  await pool.query('delete from work.plan_hosts where plan_id = $1::text', [planId])
  await removeHosts(pool, planId)
}

export type PlanUsage = {
  readonly buckets: readonly UsageBucket[]
  readonly failures: readonly { readonly reason: string; readonly count: number; readonly howToFix: string }[]
  readonly hosts: readonly { readonly host: string; readonly bytes: number; readonly connections: number }[]
  readonly countsHosts: boolean
}

/** The usage of a plan in a time range, with the `hosts` hosts with the most traffic. */
export const readUsage = async (
  pool: pg.Pool,
  planId: string,
  range: Range,
  { bucket, hosts: maxHosts }: { readonly bucket: Bucket; readonly hosts: number },
): Promise<PlanUsage> => {
  const [found, failures, hosts, countsHosts] = await Promise.all([
    readBuckets(pool, planId, range, bucket),
    readFailures(pool, planId, range),
    readHosts(pool, planId, range, maxHosts),
    readCountsHosts(pool, planId),
  ])
  return {
    buckets: found,
    failures: failures.map(({ error, count }) => ({ reason: error, count, howToFix: remedyOf(error) })),
    hosts,
    countsHosts,
  }
}
