import type pg from 'pg'
import type { EndpointState } from '../../domain/free-list/endpoint.ts'

type Range = { readonly first: string; readonly last: string }

/** An endpoint that does not answer now, as on its network's page. */
export type UnresponsiveRow = {
  readonly ip: string
  readonly port: number
  readonly checks: number
  readonly successes: number
  readonly last_checked: string
  /** Null: it never answered. */
  readonly last_answered: string | null
}

/** Stored endpoints in some address ranges. */
export type RecordOfRanges = {
  readonly notAnswering: number
  readonly neverAnswered: number
  /** The most recently answering first. */
  readonly quiet: readonly UnresponsiveRow[]
  /** The most recently checked first. */
  readonly never: readonly UnresponsiveRow[]
}

/** Each range is one search in the primary key. The aggregate keeps the planner from scanning the whole table. */
const inRanges = `from unnest($1::inet[], $2::inet[]) as range(first, last)
  cross join lateral (
    select * from work.free_proxies p where p.ip between range.first and range.last offset 0
  ) as held`

/** @param maxRows rows of each list; the counts are complete */
export const readRanges = async (
  pool: pg.Pool,
  ranges: readonly Range[],
  maxRows: number,
): Promise<RecordOfRanges> => {
  const [firsts, lasts] = [ranges.map(({ first }) => first), ranges.map(({ last }) => last)]
  const countsQuery = pool.query<{ state: EndpointState; count: number }>({
    name: 'free-proxies-of-network-counts',
    text: `select state, count(*)::int as count ${inRanges} group by state`,
    values: [firsts, lasts],
  })
  const listByState = (state: EndpointState, newest: 'last_answered' | 'last_checked') =>
    pool.query<UnresponsiveRow>({
      name: `free-proxies-of-network-${state}`,
      text: `select host(ip) as ip, port, checks, successes, last_checked, last_answered ${inRanges}
        where state = '${state}' order by ${newest} desc, ip, port limit $3`,
      values: [firsts, lasts, maxRows],
    })
  const [counts, quiet, never] = await Promise.all([
    countsQuery,
    listByState('not_answering', 'last_answered'),
    listByState('never_answered', 'last_checked'),
  ])
  const countOf = (state: EndpointState): number => counts.rows.find((row) => row.state === state)?.count ?? 0
  return {
    notAnswering: countOf('not_answering'),
    neverAnswered: countOf('never_answered'),
    quiet: quiet.rows,
    never: never.rows,
  }
}

/** A row of a page over all stored endpoints. */
export type PageRow = { readonly ip: string; readonly port: number; readonly state: EndpointState }

/** @param after the last row of the previous page; null: the first page */
export const readPage = async (
  pool: pg.Pool,
  after: PageRow | null,
  rows: number,
): Promise<readonly PageRow[]> => {
  const found = await pool.query<PageRow>({
    name: 'free-proxies-page',
    text: `select host(ip) as ip, port, state from work.free_proxies
      where (ip, port) > ($1::inet, $2::int) order by ip, port limit $3`,
    values: [after?.ip ?? '0.0.0.0', after?.port ?? 0, rows],
  })
  return found.rows
}
