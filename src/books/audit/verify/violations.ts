import type pg from 'pg'
import type { Check, Findings } from './finding.ts'
import { type PlaceRow, toPlace } from './places.ts'

type Row = PlaceRow & {
  rule: string
  problem: string
  reason: string | null
  decided_by: string | null
  decided_at: string | null
}

const limit = 100

/** What an operator decided about it takes nothing away: it is said beside it. */
const problemOf = ({ problem, reason, decided_by: by, decided_at: at }: Row): string =>
  reason === null ? problem : `${problem}; ${by} decided on ${at} that it stands: ${reason}`

/** What the rules found, each with the event at fault. */
export const readViolations = async (
  client: pg.Client,
  schema: string,
  findings: Findings,
): Promise<void> => {
  const { rows } = await client.query<Row>(
    `select v.rule, v.problem, d.reason, d.decided_by, d.decided_at, e.*
       from ${schema}.violations v join ${schema}.event_places e using (position)
       left join ${schema}.audit_decided d using (event_id, rule)
      order by e.ordinal, v.rule limit ${limit}`,
  )
  for (const row of rows) {
    const check: Check = row.rule === 'postings' || row.rule === 'cross-book' ? 'postings' : 'invariants'
    findings.add({ where: 'event', check, event: toPlace(row), problem: problemOf(row) })
  }
}
