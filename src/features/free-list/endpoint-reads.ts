import type pg from 'pg'
import {
  type Anonymity,
  type CheckError,
  type Endpoint,
  type EndpointState,
  protocolsOf,
  type SocketAddress,
} from '../../domain/free-list/endpoint.ts'
import { isoTime } from '../../kernel/clock.ts'
import { medianOf, uptimeOf } from './endpoint-status.ts'

/** A row of `work.free_proxies` with the columns that `endpointColumns` names. */
export type EndpointRow = {
  readonly ip: string
  readonly port: number
  readonly state: EndpointState
  readonly protocols: number
  readonly anonymity: Anonymity | null
  readonly exit_ip: string | null
  readonly intercepts_tls: boolean | null
  readonly error: CheckError | null
  readonly connect_ms: number | null
  readonly latencies: Buffer
  readonly hours: Buffer
  readonly hour: number
  readonly checks: number
  readonly successes: number
  readonly failures: number
  readonly first_seen: string
  readonly last_checked: string | null
  readonly last_answered: string | null
  readonly next_due: string
}

/** The columns of `work.free_proxies` for `endpointOf`. */
export const endpointColumns = `host(ip) as ip, port, state, protocols, anonymity, host(exit_ip) as exit_ip, intercepts_tls,
  error, connect_ms, latencies, hours, hour, checks, successes, failures, first_seen, last_checked, last_answered, next_due`

/** @param nowMs the end of the 24 hours of its uptime */
export const endpointOf = (row: EndpointRow, nowMs: number): Endpoint => ({
  ip: row.ip,
  port: row.port,
  state: row.state,
  protocols: protocolsOf(row.protocols),
  anonymity: row.anonymity,
  exitIp: row.exit_ip,
  interceptsTls: row.intercepts_tls,
  latencyMs: medianOf(row.latencies),
  connectMs: row.connect_ms,
  uptime24h: uptimeOf({ bytes: row.hours, hour: row.hour }, nowMs),
  checks: row.checks,
  successes: row.successes,
  failures: row.failures,
  error: row.error,
  firstSeen: row.first_seen,
  lastChecked: row.last_checked,
  lastAnswered: row.last_answered,
  nextCheck: row.next_due,
})

/** An address and port with a mark that differs between versions of its row. */
export type VersionedAddress = SocketAddress & { readonly mark: string }

/** All endpoints that answered their last check, without their data: a tenth of the cost of reading them completely. */
export const readLiveMarks = async (pool: pg.Pool): Promise<readonly VersionedAddress[]> => {
  const { rows } = await pool.query<VersionedAddress>({
    name: 'free-proxies-live-marks',
    text: `select host(ip) as ip, port, xmin::text as mark from work.free_proxies where state = 'live'`,
  })
  return rows
}

/** The stored endpoints among these, in any order. */
export const readEndpoints = async (
  pool: pg.Pool,
  socketAddresses: readonly SocketAddress[],
  nowMs: number,
): Promise<readonly Endpoint[]> => {
  const { rows } = await pool.query<EndpointRow>({
    name: 'free-proxies-places',
    text: `select ${endpointColumns} from work.free_proxies
      where (ip, port) in (select * from unnest($1::inet[], $2::int[]))`,
    values: [socketAddresses.map(({ ip }) => ip), socketAddresses.map(({ port }) => port)],
  })
  return rows.map((row) => endpointOf(row, nowMs))
}

/** All stored ports of one address in ascending order. */
export const readAddress = async (pool: pg.Pool, ip: string, nowMs: number): Promise<readonly Endpoint[]> => {
  const { rows } = await pool.query<EndpointRow>({
    name: 'free-proxies-address',
    text: `select ${endpointColumns} from work.free_proxies where ip = $1::inet order by port`,
    values: [ip],
  })
  return rows.map((row) => endpointOf(row, nowMs))
}

/** Statistics of all stored endpoints. */
export type Stats = {
  readonly endpoints: number
  readonly states: Readonly<Record<string, number>>
  /** Of live endpoints. An endpoint with two protocols counts in both. */
  readonly protocols: Readonly<Record<string, number>>
  readonly anonymity: Readonly<Record<string, number>>
  /** Last error of the endpoints that did not answer their last check. */
  readonly errors: Readonly<Record<string, number>>
  readonly checks: number
  readonly successes: number
  readonly due: number
  /** How long the most overdue endpoint has been due, milliseconds; 0 when none is due. */
  readonly lateMs: number
}

type Row = {
  readonly state: string
  readonly protocols: number
  readonly anonymity: string | null
  readonly error: string | null
  readonly count: number
  readonly checks: number
  readonly successes: number
  readonly due: number
  readonly longest: string | null
}

const countBy = (
  rows: readonly Row[],
  names: (row: Row) => readonly (string | null)[],
): Record<string, number> => {
  const totals: Record<string, number> = {}
  for (const row of rows)
    for (const name of names(row)) if (name !== null) totals[name] = (totals[name] ?? 0) + row.count
  return totals
}

/** Scans the whole table: a second for a million endpoints. */
export const readStats = async (pool: pg.Pool, nowMs: number): Promise<Stats> => {
  const { rows } = await pool.query<Row>(
    `select state, protocols, anonymity, error, count(*) as count, sum(checks)::bigint as checks,
            sum(successes)::bigint as successes, count(*) filter (where next_due <= $1::timestamptz) as due,
            min(next_due) filter (where next_due <= $1::timestamptz) as longest
       from work.free_proxies group by state, protocols, anonymity, error`,
    [isoTime(nowMs)],
  )
  const total = (value: (row: Row) => number): number => rows.reduce((sum, row) => sum + value(row), 0)
  const live = rows.filter(({ state }) => state === 'live')
  const longest = rows.flatMap(({ longest }) => (longest === null ? [] : [Date.parse(longest)]))
  return {
    endpoints: total(({ count }) => count),
    states: countBy(rows, ({ state }) => [state]),
    protocols: countBy(live, ({ protocols }) => protocolsOf(protocols)),
    anonymity: countBy(live, ({ anonymity }) => [anonymity]),
    errors: countBy(rows, ({ error }) => [error]),
    checks: total(({ checks }) => checks),
    successes: total(({ successes }) => successes),
    due: total(({ due }) => due),
    lateMs: longest.length === 0 ? 0 : nowMs - Math.min(...longest),
  }
}
