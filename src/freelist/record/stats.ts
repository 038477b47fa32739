import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'
import { protocolsOf } from './endpoint.ts'

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
