import type { PlanEvent } from '../src/market/plans/events.ts'
import { isLow } from '../src/market/plans/low.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { ReadModel, Table } from './engine/read-model.ts'

/** A plan that is low. Whether it has expired is computed at read. */
export type LowTrafficRow = {
  readonly plan_id: string
  readonly account_id: string
  readonly product_id: string
  readonly total_bytes: number
  readonly used_bytes: number
  readonly expires_at: string | null
  /** When it passed to 10 % or less of its total. */
  readonly low_since: string
}

const lowTrafficTable: Table<LowTrafficRow> = {
  name: 'low_traffic',
  columns: {
    plan_id: { type: 'text' },
    account_id: { type: 'text' },
    product_id: { type: 'text' },
    total_bytes: { type: 'bigint' },
    used_bytes: { type: 'bigint' },
    expires_at: { type: 'timestamptz', nullable: true },
    low_since: { type: 'timestamptz' },
  },
  key: ['plan_id'],
  indexes: ['account_id'],
}

const prefix = 'plan-'
const planIdOf = ({ stream }: RecordedEvent): string => stream.slice(prefix.length)
const touching = new Set(['PlanToppedUp', 'PlanUnitsWithdrawn', 'TrafficMetered', 'PlanExpired'])

/**
 * The plans with 10 % or less of their traffic left: a row comes with `PlanRanLow` and goes when a top-up lifts the plan
 * again. Orders that open plans write nothing here.
 */
export const lowTraffic: ReadModel = {
  name: 'low-traffic',
  version: 1,
  tables: [lowTrafficTable],
  reads: (event) =>
    touching.has(event.type) ? [{ table: lowTrafficTable.name, key: [planIdOf(event)] }] : [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<PlanEvent>
    if (event.type === 'PlanRanLow') {
      const { planId, accountId, productId, totalBytes, usedBytes, expiresAt } = event.data
      return rows.put(lowTrafficTable, {
        plan_id: planId,
        account_id: accountId,
        product_id: productId,
        total_bytes: totalBytes,
        used_bytes: usedBytes,
        expires_at: expiresAt,
        low_since: event.metadata.recordedAt,
      })
    }
    if (!touching.has(event.type)) return
    const plan = rows.get(lowTrafficTable, [planIdOf(event)])
    if (!plan) return
    const change = (changed: LowTrafficRow): void => {
      if (isLow(changed.total_bytes, changed.used_bytes)) rows.put(lowTrafficTable, changed)
      else rows.remove(lowTrafficTable, [plan.plan_id])
    }
    switch (event.type) {
      case 'PlanToppedUp':
        return change({ ...plan, total_bytes: plan.total_bytes + event.data.bytes })
      case 'PlanUnitsWithdrawn':
        return change({ ...plan, total_bytes: plan.total_bytes - event.data.bytes })
      case 'TrafficMetered':
        return change({ ...plan, used_bytes: event.data.usedBytes })
      case 'PlanExpired':
        return rows.remove(lowTrafficTable, [plan.plan_id])
    }
  },
}
