import type { ReadModel, Table } from '../../../../projections/engine/read-model.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { BreachEvent } from '../events.ts'

/** What an operator decided about an event that breaks a law. */
export type DecidedRow = {
  event_id: string
  rule: string
  reason: string
  decided_by: string
  decided_at: string
}

export const decidedTable: Table<DecidedRow> = {
  name: 'audit_decided',
  columns: {
    event_id: { type: 'text' },
    rule: { type: 'text' },
    reason: { type: 'text' },
    decided_by: { type: 'text' },
    decided_at: { type: 'text' },
  },
  key: ['event_id', 'rule'],
  indexes: [],
}

/** Not a law: who decided what about events that break one. */
export const decidedRules: ReadModel = {
  name: 'audit-decided',
  version: 1,
  tables: [decidedTable],
  takes: { types: new Set(['LawBreachDecided']) },
  reads: () => [],
  apply: (recorded, rows) => {
    const { type, data, metadata } = recorded as RecordedEvent<BreachEvent>
    if (type !== 'LawBreachDecided') return
    const { eventId, rule, reason } = data
    const { actor, recordedAt } = metadata
    rows.put(decidedTable, {
      event_id: eventId,
      rule,
      reason,
      decided_by: actor.kind === 'operator' ? actor.name : actor.kind,
      decided_at: recordedAt,
    })
  },
}
