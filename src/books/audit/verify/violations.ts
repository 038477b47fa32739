import type pg from 'pg'
import type { Check, Findings } from './finding.ts'
import { type PlaceRow, toPlace } from './places.ts'

type Row = PlaceRow & { rule: string; problem: string }

const limit = 100

/** What the rules found, each with the event at fault. */
export const readViolations = async (
  client: pg.Client,
  schema: string,
  findings: Findings,
): Promise<void> => {
  const { rows } = await client.query<Row>(
    `select v.rule, v.problem, e.* from ${schema}.violations v join ${schema}.event_places e using (position)
      order by e.ordinal, v.rule limit ${limit}`,
  )
  for (const row of rows) {
    const check: Check = row.rule === 'postings' || row.rule === 'cross-book' ? 'postings' : 'invariants'
    findings.add({ where: 'event', check, event: toPlace(row), problem: row.problem })
  }
}
