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

/** What a statement over `work.free_proxies` selects for `endpointOf`. */
export const endpointColumns = `host(ip) as ip, port, state, protocols, anonymity, host(exit_ip) as exit_ip, intercepts_tls,
  error, connect_ms, latencies, hours, hour, checks, successes, failures, first_seen, last_checked, last_answered, next_due`

/** @param nowMs the instant that the 24 hours of its uptime end at */
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
  nextDue: row.next_due,
})

/** A place and what tells one version of its row from the next. */
export type VersionedAddress = SocketAddress & { readonly mark: string }

/** The places of all that answered their last check: a tenth of what it costs to read them whole. */
export const readLiveMarks = async (pool: pg.Pool): Promise<readonly VersionedAddress[]> => {
  const { rows } = await pool.query<VersionedAddress>({
    name: 'free-proxies-live-marks',
    text: `select host(ip) as ip, port, xmin::text as mark from work.free_proxies where state = 'live'`,
  })
  return rows
}

/** Those of the places that are on record, in any order. */
export const readEndpoints = async (
  pool: pg.Pool,
  places: readonly SocketAddress[],
  nowMs: number,
): Promise<readonly Endpoint[]> => {
  const { rows } = await pool.query<EndpointRow>({
    name: 'free-proxies-places',
    text: `select ${endpointColumns} from work.free_proxies
      where (ip, port) in (select * from unnest($1::inet[], $2::int[]))`,
    values: [places.map(({ ip }) => ip), places.map(({ port }) => port)],
  })
  return rows.map((row) => endpointOf(row, nowMs))
}

/** All ports of one address that are on record, the lowest first. */
export const readAddress = async (pool: pg.Pool, ip: string, nowMs: number): Promise<readonly Endpoint[]> => {
  const { rows } = await pool.query<EndpointRow>({
    name: 'free-proxies-address',
    text: `select ${endpointColumns} from work.free_proxies where ip = $1::inet order by port`,
    values: [ip],
  })
  return rows.map((row) => endpointOf(row, nowMs))
}

/** The record in figures. */
export type Stats = {
  readonly endpoints: number
  readonly states: Readonly<Record<string, number>>
  /** Of those that are live; one that speaks two counts in both. */
  readonly protocols: Readonly<Record<string, number>>
  readonly anonymity: Readonly<Record<string, number>>
  /** Of the last check of those that did not answer it. */
  readonly errors: Readonly<Record<string, number>>
  readonly checks: number
  readonly successes: number
  readonly due: number
  /** How long the longest due one has been due; 0 when none is. */
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

const sums = (
  rows: readonly Row[],
  names: (row: Row) => readonly (string | null)[],
): Record<string, number> => {
  const all: Record<string, number> = {}
  for (const row of rows)
    for (const name of names(row)) if (name !== null) all[name] = (all[name] ?? 0) + row.count
  return all
}

/** One pass over the record: a second for a million endpoints. */
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
    states: sums(rows, ({ state }) => [state]),
    protocols: sums(live, ({ protocols }) => protocolsOf(protocols)),
    anonymity: sums(live, ({ anonymity }) => [anonymity]),
    errors: sums(rows, ({ error }) => [error]),
    checks: total(({ checks }) => checks),
    successes: total(({ successes }) => successes),
    due: total(({ due }) => due),
    lateMs: longest.length === 0 ? 0 : nowMs - Math.min(...longest),
  }
}
