import type { PeriodEvent } from '../../domain/periods/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { ReadModel, Table } from '../../platform/projections/read-model.ts'
import { recordViolation } from './violation.ts'

type PeriodRow = { period: string; closed: boolean }

const periodsTable: Table<PeriodRow> = {
  name: 'audit_periods',
  columns: { period: { type: 'text' }, closed: { type: 'boolean' } },
  key: ['period'],
  indexes: [],
}

const isPeriod = (event: RecordedEvent): event is RecordedEvent<PeriodEvent> =>
  event.type === 'PeriodCutOff' || event.type === 'PeriodClosed'

/**
 * A month is cut off once, after its end, and closed once, after its cut-off (docs/periods.md). It follows that nothing
 * is booked in the month afterwards: accounting time never runs back.
 */
export const periodRules: ReadModel = {
  name: 'audit-periods',
  version: 1,
  tables: [periodsTable],
  takes: { types: new Set(['PeriodCutOff', 'PeriodClosed']) },
  reads: (event) => (isPeriod(event) ? [{ table: periodsTable.name, key: [event.data.period] }] : []),
  apply: (event, rows) => {
    if (!isPeriod(event)) return
    const { period } = event.data
    const previous = rows.get(periodsTable, [period])
    const report = (rule: string, problem: string): void => recordViolation(rows, event, rule, problem)
    if (event.type === 'PeriodCutOff') {
      if (previous !== undefined) report('period-twice', `${period} was cut off before`)
      if (event.metadata.recordedAt < event.data.endedAt)
        report('period-early', `${period} ends at ${event.data.endedAt} and was cut off before that`)
      rows.put(periodsTable, { period, closed: false })
      return
    }
    if (previous === undefined) report('period-open', `${period} was closed without a cut-off`)
    if (previous?.closed) report('period-twice', `${period} was closed before`)
    rows.put(periodsTable, { period, closed: true })
  },
}
