import type { PlanEvent } from '../src/domain/plans/events.ts'
import { isLow } from '../src/domain/plans/fold.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import {
  column,
  nullable,
  type RowKey,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

const lowPlansTable = <const Name extends string>(name: Name) =>
  readTable({
    name,
    columns: {
      planId: column.text(),
      accountId: column.text(),
      productId: column.text(),
      totalBytes: column.bigint(),
      usedBytes: column.bigint(),
      expiresAt: nullable(column.timestamptz()),
      /** When it reached 10 % or less of its total. */
      lowSince: column.timestamptz(),
    },
    key: ['planId'],
    indexes: ['account_id'],
  })

/** A plan with low traffic. Whether it has expired is computed on read. */
export type LowTrafficRow = RowOf<ReturnType<typeof lowPlansTable>>

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
      return { ...plan, totalBytes: plan.totalBytes + event.data.bytes }
    case 'PlanUnitsWithdrawn':
      return { ...plan, totalBytes: plan.totalBytes - event.data.bytes }
    case 'TrafficMetered':
      return { ...plan, usedBytes: event.data.usedBytes }
    default:
      return null
  }
}

/**
 * A table of the plans with 10 % or less of their traffic left. `PlanRanLow` inserts a row, and a top-up above the
 * threshold removes it. Orders that open plans write nothing to it. Each group that needs the table has its own, as
 * of its own position.
 */
export const createLowPlans = <const Name extends string>(name: Name) => {
  const table = lowPlansTable(name)
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
          planId,
          accountId,
          productId,
          totalBytes,
          usedBytes,
          expiresAt,
          lowSince: event.metadata.recordedAt,
        }
        rows.put(table, plan)
        return { plan, low: true }
      }
      if (!changeTypes.has(event.type)) return null
      const previous = rows.get(table, [planIdOf(event)])
      if (!previous) return null
      const plan = changedRow(previous, event)
      const low = plan !== null && isLow(plan.totalBytes, plan.usedBytes)
      if (low) rows.put(table, plan)
      else rows.remove(table, [previous.planId])
      return { plan: plan ?? previous, low }
    },
  }
}

const lowPlans = createLowPlans('low_traffic')

/** The low plans that the plans of an account show. */
export const lowTraffic = readModel({
  name: 'low-traffic',
  version: 1,
  tables: [lowPlans.table],
  reads: lowPlans.reads,
  apply: (event, rows) => void lowPlans.fold(event, rows),
})
