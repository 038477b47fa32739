import type pg from 'pg'
import type { TrafficGroupName } from './traffic-groups.ts'

/** From the first instant (inclusive) to the second one (exclusive). */
export type Range = { readonly fromMs: number; readonly toMs: number }

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** The whole hours that contain a range. */
export const hourRange = ({ fromMs, toMs }: Range): Range => ({
  fromMs: Math.floor(fromMs / hourMs) * hourMs,
  toMs: Math.ceil(toMs / hourMs) * hourMs,
})

/** A recorded connection or request of a plan. */
export type RequestRow = {
  readonly requestId: string
  readonly endedAt: string
  readonly protocol: string
  readonly line: string | null
  readonly host: string | null
  readonly port: number | null
  readonly country: string | null
  readonly bytesUp: number
  readonly bytesDown: number
  readonly durationMs: number
  readonly reason: string | null
}

export type RequestFilter = {
  readonly host?: string | undefined
  readonly country?: string | undefined
  readonly reason?: string | undefined
  readonly requestId?: string | undefined
  readonly sinceMs?: number | undefined
  readonly untilMs?: number | undefined
}

/** The place of a row in the list, newest first. */
export type RequestPlace = { readonly endedAt: string; readonly requestId: string }

export const cursorOf = ({ endedAt, requestId }: RequestPlace): string =>
  Buffer.from(`${endedAt} ${requestId}`).toString('base64url')

const cursorForm = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\S{1,100})$/

/** Parses the text of `cursorOf`; null for any other text. */
export const parseCursor = (cursor: string | null): RequestPlace | null => {
  const text = Buffer.from(cursor ?? '', 'base64url').toString('utf8')
  const [, endedAt, requestId] = cursorForm.exec(text) ?? []
  if (endedAt === undefined || requestId === undefined || Number.isNaN(Date.parse(endedAt))) return null
  return { endedAt, requestId }
}

/** The reason of requests that ended without an error, as a filter. */
export const noError = 'none'

const iso = (ms: number | undefined): string | null => (ms === undefined ? null : new Date(ms).toISOString())

/** Recorded requests, newest first, after a place. */
export const readRequests = async (
  pool: pg.Pool,
  planId: string,
  { host, country, reason, requestId, sinceMs, untilMs }: RequestFilter,
  { after, limit }: { readonly after: RequestPlace | null; readonly limit: number },
): Promise<readonly RequestRow[]> => {
  const { rows } = await pool.query({
    name: 'traffic-requests',
    text: `
      select request_id, ended_at, protocol, line, host, port, country, bytes_up, bytes_down, duration_ms, reason
        from traffic.requests
       where plan_id = $1::text
         and ($2::text is null or host = $2::text)
         and ($3::text is null or country = $3::text)
         and ($4::text is null or coalesce(reason, '${noError}') = $4::text)
         and ($5::text is null or request_id = $5::text)
         and ($6::timestamptz is null or ended_at >= $6::timestamptz)
         and ($7::timestamptz is null or ended_at < $7::timestamptz)
         and ($8::timestamptz is null or (ended_at, request_id) < ($8::timestamptz, $9::text))
       order by ended_at desc, request_id desc
       limit $10::int`,
    values: [
      planId,
      host?.toLowerCase() ?? null,
      country?.toLowerCase() ?? null,
      reason ?? null,
      requestId ?? null,
      iso(sinceMs),
      iso(untilMs),
      after?.endedAt ?? null,
      after?.requestId ?? null,
      limit,
    ],
  })
  return rows.map((row) => ({
    requestId: row.request_id,
    endedAt: new Date(row.ended_at).toISOString(),
    protocol: row.protocol,
    line: row.line,
    host: row.host,
    port: row.port,
    country: row.country,
    bytesUp: row.bytes_up,
    bytesDown: row.bytes_down,
    durationMs: row.duration_ms,
    reason: row.reason,
  }))
}

type Sum = {
  readonly bytesUp: number
  readonly bytesDown: number
  readonly requests: number
  readonly failures: number
}

export type TrafficReport = {
  /** The metered bytes, which are the sum of all other rows. */
  readonly meteredBytes: number
  /** The groups with the most bytes; hours in their order. */
  readonly groups: readonly (Sum & { readonly value: string | null })[]
  /** Groups beyond the shown ones. */
  readonly otherGroups: Sum
  /** Requests beyond the limit of records, without details. */
  readonly merged: Sum
  /** Metered bytes that are in no record. Negative: more was recorded than metered. */
  readonly unrecordedBytes: number
  readonly reasons: readonly { readonly reason: string; readonly count: number }[]
}

/** Hours may be as many as the longest retention has. */
const maxGroups: Readonly<Record<TrafficGroupName, number>> = {
  host: 100,
  country: 300,
  line: 100,
  hour: 2_500,
}

const noSum: Sum = { bytesUp: 0, bytesDown: 0, requests: 0, failures: 0 }

const sumOf = (row: Record<string, number>): Sum => ({
  bytesUp: row.bytes_up ?? 0,
  bytesDown: row.bytes_down ?? 0,
  requests: row.requests ?? 0,
  failures: row.failures ?? 0,
})

const addSums = (one: Sum, other: Sum): Sum => ({
  bytesUp: one.bytesUp + other.bytesUp,
  bytesDown: one.bytesDown + other.bytesDown,
  requests: one.requests + other.requests,
  failures: one.failures + other.failures,
})

const bytesOf = ({ bytesUp, bytesDown }: Sum): number => bytesUp + bytesDown

/**
 * What used the traffic of a plan in whole hours. All figures are from one snapshot of Postgres, so their sum is exactly
 * the metered bytes.
 */
export const readTraffic = async (
  pool: pg.Pool,
  planId: string,
  { fromMs, toMs }: Range,
  groupBy: TrafficGroupName,
  shownGroups = maxGroups[groupBy],
): Promise<TrafficReport> => {
  const { rows } = await pool.query({
    name: `traffic-by-${groupBy}`,
    text: `
      with own as materialized (
        select ${groupBy} as value, bytes_up, bytes_down, reason from traffic.requests
         where plan_id = $1::text and hour >= $2::timestamptz and hour < $3::timestamptz)
      select 'group' as kind, ${groupBy === 'hour' ? `to_char(value at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.000"Z"')` : 'value'} as value,
             sum(bytes_up)::bigint as bytes_up, sum(bytes_down)::bigint as bytes_down,
             count(*) filter (where reason is distinct from 'in_progress')::bigint as requests,
             count(*) filter (where reason <> 'in_progress')::bigint as failures
        from own group by value
      union all
      select 'reason', reason, 0, 0, 0, count(*)::bigint from own where reason <> 'in_progress' group by reason
      union all
      select 'merged', null, coalesce(sum(bytes_up), 0)::bigint, coalesce(sum(bytes_down), 0)::bigint,
             coalesce(sum(requests), 0)::bigint, coalesce(sum(failures), 0)::bigint
        from traffic.merged_hours
       where plan_id = $1::text and hour >= $2::timestamptz and hour < $3::timestamptz
      union all
      select 'metered', null, coalesce(sum(bytes), 0)::bigint, 0, 0, 0 from traffic.metered_hours
       where plan_id = $1::text and hour >= $2::timestamptz and hour < $3::timestamptz`,
    values: [planId, new Date(fromMs).toISOString(), new Date(toMs).toISOString()],
  })
  const of = (kind: string) => rows.filter((row) => row.kind === kind)
  const all = of('group').map((row) => ({ value: row.value as string | null, ...sumOf(row) }))
  const text = ({ value }: { readonly value: string | null }): string => value ?? ''
  all.sort((one, other) =>
    groupBy === 'hour'
      ? text(one).localeCompare(text(other))
      : bytesOf(other) - bytesOf(one) || text(one).localeCompare(text(other)),
  )
  const merged = sumOf(of('merged')[0])
  const meteredBytes: number = of('metered')[0].bytes_up
  const recordedBytes = all.reduce((sum, group) => sum + bytesOf(group), 0)
  return {
    meteredBytes,
    groups: all.slice(0, shownGroups),
    otherGroups: all.slice(shownGroups).reduce<Sum>(addSums, noSum),
    merged,
    unrecordedBytes: meteredBytes - recordedBytes - bytesOf(merged),
    reasons: of('reason')
      .map((row) => ({ reason: row.value as string, count: row.failures as number }))
      .sort((one, other) => other.count - one.count || one.reason.localeCompare(other.reason)),
  }
}

/** Drops the records of all days before the retained ones. With 0 days all records are dropped, also those of today. */
export const dropOldRecords = async (pool: pg.Pool, nowMs: number, days: number): Promise<void> => {
  const today = Math.floor(nowMs / dayMs) * dayMs
  const firstDay = new Date(days === 0 ? today + dayMs : today - days * dayMs).toISOString()
  const { rows } = await pool.query<{ name: string }>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'traffic.requests'::regclass and c.relname < $1::text`,
    [`requests_${firstDay.slice(0, 10).replaceAll('-', '')}`],
  )
  for (const { name } of rows) await pool.query(`drop table if exists traffic.${name}`)
  await pool.query('delete from traffic.merged_hours where hour < $1::timestamptz', [firstDay])
  await pool.query('delete from traffic.metered_hours where hour < $1::timestamptz', [firstDay])
  await pool.query('delete from traffic.plan_days where day < $1::date', [firstDay.slice(0, 10)])
}

/** Removes the target hosts from the records of a plan. */
export const removeHosts = async (pool: pg.Pool, planId: string): Promise<void> => {
  await pool.query(
    'update traffic.requests set host = null, port = null where plan_id = $1::text and host is not null',
    [planId],
  )
}
