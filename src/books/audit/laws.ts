import { createDispatch } from '../../../projections/engine/dispatch.ts'
import type { ReadModel, ReadModelGroup, RowKey } from '../../../projections/engine/read-model.ts'
import type { RecordedEvent } from '../../platform/eventstore/event.ts'
import { rules } from './invariants/rules.ts'
import { violate } from './invariants/violation.ts'

const rulesFor = createDispatch(rules)

/** What a rule names of an event that it can read; another one is looked up row by row when it is applied. */
const nameRows = (rule: ReadModel, event: RecordedEvent, named: RowKey[]): void => {
  try {
    for (const row of rule.reads(event)) named.push(row)
  } catch {
    // It breaks the law when it is applied, where that is told.
  }
}

/**
 * All laws as one read model, which the running server folds. An event that a law cannot read breaks it, and passes it by: a
 * foreign event stops nothing. A change of any of them makes all their tables anew, for what they found stands in one.
 */
export const laws: ReadModel = {
  name: 'laws',
  version: rules.reduce((sum, { version }) => sum + version, 0),
  tables: rules.flatMap(({ tables }) => tables),
  attempts: true,
  reads: (event) => {
    const named: RowKey[] = []
    for (const rule of rulesFor(event)) nameRows(rule, event, named)
    return named
  },
  apply: (event, rows) => {
    for (const rule of rulesFor(event)) {
      const problem = rows.attempt(() => rule.apply(event, rows))
      if (problem !== null) violate(rows, event, rule.name, `the rule cannot read it: ${problem}`)
    }
  },
}

/** Nobody reads it on a request: large batches cost least, and a seal waits for it. */
export const lawGroup: ReadModelGroup = { name: 'laws', models: [laws], gatherMs: 500, maxBatch: 10_000 }
