import type pg from 'pg'
import { counted } from '../../../kernel/counted.ts'
import { openEnds } from '../invariants/open-ends.ts'
import type { Findings } from './finding.ts'
import { type PlaceRow, toPlace } from './places.ts'

type Row = PlaceRow & { problem: string }

const limit = 100

/** A service that was down for long, and is back, has so much time to finish what became due meanwhile. Milliseconds. */
const catchUpMs = 10 * 60 * 1000

/**
 * What other streams say must have followed, and does not stand in the log: the end of an order, a payment, a call. Work that was
 * begun less than its bound before the end of the log is let be: a process may have died over it, and another goes
 * on with it. The end is the last event before the last minutes of the log: when the service was down until then, nothing
 * stands there but what was before.
 */
export const checkOpenEnds = async (client: pg.Client, schema: string, findings: Findings): Promise<void> => {
  const { rows: ends } = await client.query<{ last_ms: number | null }>(
    `select max(recorded_ms) as last_ms from ${schema}.event_places
      where recorded_ms <= (select max(recorded_ms) from ${schema}.event_places) - ${catchUpMs}`,
  )
  const lastMs = ends[0]?.last_ms
  if (lastMs === null || lastMs === undefined) return
  for (const { sql, boundMs } of openEnds) {
    const { rows } = await client.query<Row>(
      `select o.problem, e.* from (${sql(schema)}) o join ${schema}.event_places e using (position)
        where coalesce(o.since_ms, e.recorded_ms) < $1::bigint order by e.ordinal limit ${limit}`,
      [lastMs - boundMs],
    )
    for (const row of rows)
      findings.add({
        where: 'event',
        check: 'invariants',
        event: toPlace(row),
        problem: `${row.problem}, ${counted(Math.floor(boundMs / 3_600_000), 'hour')} and more before the end of the log`,
      })
  }
}
