import type pg from 'pg'
import type { PoisonEvent } from '../../platform/projections/fold-batch.ts'
import { addEventFindings, type EventLocationRow, type Findings, toEventLocation } from './finding.ts'

/** Events that a rule or a read model could not process. */
export type Poisons = {
  ofRules(poison: PoisonEvent): void
  ofModels(poison: PoisonEvent): void
  /** Adds one finding for each event, however many models failed. */
  report(client: pg.Client, schema: string, findings: Findings): Promise<void>
}

type Problem = { readonly ofRules: boolean; readonly models: Set<string>; readonly errorText: string }

/** Events beyond this number are only counted. A genuine log does not have so many. */
const limit = 1_000

export const createPoisons = (): Poisons => {
  const problems = new Map<number, Problem>()
  let unlistedCount = 0
  const addProblem = (poison: PoisonEvent, ofRules: boolean): void => {
    const { event, model, cause } = poison
    const existing = problems.get(event.position)
    if (existing) existing.models.add(model)
    else if (problems.size === limit) unlistedCount += 1
    else
      problems.set(event.position, {
        ofRules,
        models: new Set([model]),
        errorText: cause instanceof Error ? cause.message : String(cause),
      })
  }
  const problemText = ({ ofRules, models, errorText }: Problem): string => {
    const names = [...models].join(', ')
    return ofRules
      ? `no rule can read what it says: ${errorText} (${names})`
      : `a read table cannot take it: ${errorText} (${names})`
  }
  return {
    ofRules: (poison) => addProblem(poison, true),
    ofModels: (poison) => addProblem(poison, false),
    report: async (client, schema, findings) => {
      const { rows } = await client.query<EventLocationRow>(
        `select * from ${schema}.event_places where position = any ($1::bigint[]) order by ordinal`,
        [[...problems.keys()]],
      )
      for (const row of rows) {
        const problem = problems.get(row.position) as Problem
        findings.add({
          where: 'event',
          check: 'content',
          event: toEventLocation(row),
          problem: problemText(problem),
        })
      }
      if (unlistedCount === 0) return
      findings.add({
        where: 'log',
        check: 'content',
        problem: `rules or read tables could not take ${unlistedCount} more events`,
      })
      findings.addUnshown(unlistedCount - 1)
    },
  }
}

type Row = EventLocationRow & {
  problem: string
  reason: string | null
  decided_by: string | null
  decided_at: string | null
}

/** Appends an operator's decision to the problem. The finding stays. */
const problemOf = ({ problem, reason, decided_by: by, decided_at: at }: Row): string =>
  reason === null ? problem : `${problem}; ${by} decided on ${at} that it stands: ${reason}`

/** Rules about the entries in the books. */
const postingRules = ['postings', 'cross-book']

/** Adds a finding for each violation of a rule about the books (`postings`), or of any other rule. */
export const readViolations = (
  client: pg.Client,
  schema: string,
  findings: Findings,
  check: 'postings' | 'invariants',
): Promise<void> =>
  addEventFindings<Row>(
    client,
    findings,
    `select v.problem, d.reason, d.decided_by, d.decided_at, e.*
       from ${schema}.violations v join ${schema}.event_places e using (position)
       left join ${schema}.audit_decided d using (event_id, rule)
      where (v.rule = any ($1::text[])) = $2::boolean`,
    (row) => ({ check, problem: problemOf(row) }),
    [postingRules, check === 'postings'],
  )
