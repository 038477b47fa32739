import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'
import type { Place } from './endpoint.ts'

/** Rows of one statement. */
const batch = 5_000

/**
 * Puts candidates on record, due at once. What is known already stays as it is. Whether they may be dialled is to be
 * asked before (candidate.ts).
 * @returns how many are new
 */
export const addCandidates = async (
  pool: pg.Pool,
  places: readonly Place[],
  nowMs: number,
): Promise<number> => {
  let added = 0
  for (let at = 0; at < places.length; at += batch) {
    const some = places.slice(at, at + batch)
    const { rowCount } = await pool.query({
      name: 'free-proxies-add',
      // In the order of the key, so that two that add at once do not wait for each other in a circle.
      text: `insert into work.free_proxies (ip, port, first_seen, next_due)
             select ip, port, $3::timestamptz, $3::timestamptz
               from (select distinct ip, port from unnest($1::inet[], $2::int[]) as given (ip, port) order by ip, port) given
             on conflict do nothing`,
      values: [some.map(({ ip }) => ip), some.map(({ port }) => port), isoTime(nowMs)],
    })
    added += rowCount ?? 0
  }
  return added
}
