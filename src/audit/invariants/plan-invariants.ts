import type { PlanEvent } from '../../domain/plans/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { ReadModel, Table } from '../../platform/projections/read-model.ts'
import { recordViolation } from './violation.ts'

type PlanRow = {
  plan_id: string
  total_bytes: number | null
  used_bytes: number
  /** JSON: the event that opened the plan, in the form for the fold. */
  activated: string
}

/** The state of each plan in the log. Verifications also compare the traffic counters with it. */
export const plansTable: Table<PlanRow> = {
  name: 'audit_plans',
  columns: {
    plan_id: { type: 'text' },
    total_bytes: { type: 'bigint', nullable: true },
    used_bytes: { type: 'bigint' },
    activated: { type: 'text' },
  },
  key: ['plan_id'],
  indexes: [],
}

const planPrefix = 'plan-'

/** A plan is opened once, its traffic adds up, and no more bytes are withdrawn than it has. */
export const planRules: ReadModel = {
  name: 'audit-plans',
  version: 2,
  tables: [plansTable],
  takes: { types: new Set(), streams: new Set([planPrefix]) },
  reads: ({ stream }) =>
    stream.startsWith(planPrefix) ? [{ table: plansTable.name, key: [stream.slice(planPrefix.length)] }] : [],
  apply: (recorded, rows) => {
    if (!recorded.stream.startsWith(planPrefix)) return
    const event = recorded as RecordedEvent<PlanEvent>
    const planId = event.stream.slice(planPrefix.length)
    const report = (rule: string, problem: string): void => recordViolation(rows, event, rule, problem)
    const plan = rows.get(plansTable, [planId])
    if (event.type === 'PlanActivated') {
      if (plan !== undefined) report('plan-twice', `plan ${planId} was opened before`)
      const { type, data, revision, metadata } = event
      const activated = JSON.stringify({
        type,
        data,
        revision,
        recordedAtMs: Date.parse(metadata.recordedAt),
      })
      rows.put(plansTable, { plan_id: planId, total_bytes: data.bytes, used_bytes: 0, activated })
      return
    }
    if (plan === undefined) {
      if (event.type !== 'PlanOrderRefused') report('plan-unknown', `plan ${planId} was never opened`)
      return
    }
    switch (event.type) {
      case 'PlanToppedUp':
        rows.put(plansTable, { ...plan, total_bytes: (plan.total_bytes ?? 0) + event.data.bytes })
        return
      case 'PlanUnitsWithdrawn': {
        const remainingBytes = (plan.total_bytes ?? 0) - event.data.bytes
        if (remainingBytes < 0)
          report('plan-below-zero', `plan ${planId} is left with ${remainingBytes} bytes`)
        rows.put(plansTable, { ...plan, total_bytes: remainingBytes })
        return
      }
      case 'TrafficMetered': {
        const { bytes, usedBytes } = event.data
        if (bytes < 0 || plan.used_bytes + bytes !== usedBytes)
          report('traffic', `${plan.used_bytes} and ${bytes} bytes are not the ${usedBytes} that it says`)
        rows.put(plansTable, { ...plan, used_bytes: usedBytes })
        return
      }
      default:
    }
  },
}
