import type { PlanEvent } from '../src/domain/plans/events.ts'
import { isLow } from '../src/domain/plans/fold.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ReadModel, RowKey, Rows, Table } from '../src/platform/projections/read-model.ts'

/** A plan with low traffic. Whether it has expired is computed on read. */
export type LowTrafficRow = {
  readonly plan_id: string
  readonly account_id: string
  readonly product_id: string
  readonly total_bytes: number
  readonly used_bytes: number
  readonly expires_at: string | null
  /** When it reached 10 % or less of its total. */
  readonly low_since: string
}

const prefix = 'plan-'
const planIdOf = ({ stream }: RecordedEvent): string => stream.slice(prefix.length)
/** Events that change a low plan. `PlanRanLow` makes a plan low. */
const changeTypes: ReadonlySet<string> = new Set<PlanEvent['type']>([
  'PlanToppedUp',
  'PlanUnitsWithdrawn',
  'TrafficMetered',
  'PlanExpired',
])

const changedRow = (plan: LowTrafficRow, event: PlanEvent): LowTrafficRow | null => {
  switch (event.type) {
    case 'PlanToppedUp':
      return { ...plan, total_bytes: plan.total_bytes + event.data.bytes }
    case 'PlanUnitsWithdrawn':
      return { ...plan, total_bytes: plan.total_bytes - event.data.bytes }
    case 'TrafficMetered':
      return { ...plan, used_bytes: event.data.usedBytes }
    default:
      return null
  }
}

/**
 * A table of the plans with 10 % or less of their traffic left. `PlanRanLow` inserts a row, and a top-up above the
 * threshold removes it. Orders that open plans write nothing to it. Each group that needs the table has its own, as
 * of its own position.
 */
export const createLowPlans = (name: string) => {
  const table: Table<LowTrafficRow> = {
    name,
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
  return {
    table,
    reads: (event: RecordedEvent): readonly RowKey[] =>
      changeTypes.has(event.type) ? [{ table: name, key: [planIdOf(event)] }] : [],
    /** The plan that the event made low, or changed while it was low; null for other events. */
    fold: (
      recorded: RecordedEvent,
      rows: Rows,
    ): { readonly plan: LowTrafficRow; readonly low: boolean } | null => {
      const event = recorded as RecordedEvent<PlanEvent>
      if (event.type === 'PlanRanLow') {
        const { planId, accountId, productId, totalBytes, usedBytes, expiresAt } = event.data
        const plan = {
          plan_id: planId,
          account_id: accountId,
          product_id: productId,
          total_bytes: totalBytes,
          used_bytes: usedBytes,
          expires_at: expiresAt,
          low_since: event.metadata.recordedAt,
        }
        rows.put(table, plan)
        return { plan, low: true }
      }
      if (!changeTypes.has(event.type)) return null
      const previous = rows.get(table, [planIdOf(event)])
      if (!previous) return null
      const plan = changedRow(previous, event)
      const low = plan !== null && isLow(plan.total_bytes, plan.used_bytes)
      if (low) rows.put(table, plan)
      else rows.remove(table, [previous.plan_id])
      return { plan: plan ?? previous, low }
    },
  }
}

const lowPlans = createLowPlans('low_traffic')

/** The low plans that the plans of an account show. */
export const lowTraffic: ReadModel = {
  name: 'low-traffic',
  version: 1,
  tables: [lowPlans.table],
  reads: lowPlans.reads,
  apply: (event, rows) => void lowPlans.fold(event, rows),
}
