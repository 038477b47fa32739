import type { PlanEvent } from '../src/market/plans/events.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { ReadModel, Table } from './engine/read-model.ts'

/** One plan with its traffic in bytes. What is left, depleted and expired are computed at read. */
export type PlanRow = {
  readonly plan_id: string
  readonly account_id: string
  /** The reseller's customer who holds it; null for the account itself. */
  readonly customer_id: string | null
  readonly product_id: string
  readonly shape: 'gateway_gb' | 'gateway_time'
  readonly renewal: 'topup' | 'repurchase'
  /** Null for a plan that is sold by time. */
  readonly total_bytes: number | null
  readonly used_bytes: number
  readonly speed_units: number | null
  readonly started_at: string
  readonly expires_at: string | null
  /** Of the plan's credentials. */
  readonly generation: number
  /** When that generation began; null while it is the first. The one before works for a while longer. */
  readonly rotated_at: string | null
}

export const plansTable: Table<PlanRow> = {
  name: 'plans',
  columns: {
    plan_id: { type: 'text' },
    account_id: { type: 'text' },
    customer_id: { type: 'text', nullable: true },
    product_id: { type: 'text' },
    shape: { type: 'text' },
    renewal: { type: 'text' },
    total_bytes: { type: 'bigint', nullable: true },
    used_bytes: { type: 'bigint' },
    speed_units: { type: 'integer', nullable: true },
    started_at: { type: 'timestamptz' },
    expires_at: { type: 'timestamptz', nullable: true },
    generation: { type: 'integer' },
    rotated_at: { type: 'timestamptz', nullable: true },
  },
  key: ['plan_id'],
  indexes: [
    'account_id, started_at desc, plan_id desc',
    // The plans of one customer of a reseller; an account's own are not in it.
    'account_id, customer_id, started_at desc, plan_id desc where customer_id is not null',
    // The gateway looks for plans that began since it last looked.
    'started_at',
  ],
  rewritten: true,
}

const prefix = 'plan-'

/** Plans, and what was bought and used of them. */
export const plans: ReadModel = {
  name: 'plans',
  version: 5,
  tables: [plansTable],
  reads: (event) =>
    event.stream.startsWith(prefix) && event.type !== 'PlanActivated'
      ? [{ table: plansTable.name, key: [event.stream.slice(prefix.length)] }]
      : [],
  apply: (recorded, rows) => {
    if (!recorded.stream.startsWith(prefix)) return
    const event = recorded as RecordedEvent<PlanEvent>
    if (event.type === 'PlanActivated') {
      const { data } = event
      return rows.put(plansTable, {
        plan_id: data.planId,
        account_id: data.accountId,
        customer_id: data.customerId,
        product_id: data.productId,
        shape: data.shape,
        renewal: data.renewal,
        total_bytes: data.bytes,
        used_bytes: 0,
        speed_units: data.speedUnits,
        started_at: data.startedAt,
        expires_at: data.expiresAt,
        generation: 0,
        rotated_at: null,
      })
    }
    const planId = event.stream.slice(prefix.length)
    const plan = rows.get(plansTable, [planId])
    if (!plan) {
      // An order may be refused by a plan that another order never got to activate.
      if (event.type === 'PlanOrderRefused') return
      throw new Error(`${event.type} on plan ${planId}, which was never activated`)
    }
    const add = (bytes: number) => (plan.total_bytes === null ? null : plan.total_bytes + bytes)
    switch (event.type) {
      case 'PlanToppedUp':
        return rows.put(plansTable, { ...plan, total_bytes: add(event.data.bytes) })
      case 'PlanUnitsWithdrawn':
        return rows.put(plansTable, { ...plan, total_bytes: add(-event.data.bytes) })
      case 'TrafficMetered':
        return rows.put(plansTable, { ...plan, used_bytes: event.data.usedBytes })
      case 'PlanExpired':
        return rows.put(plansTable, { ...plan, expires_at: event.data.expiredAt })
      case 'PlanCredentialRotated':
        return rows.put(plansTable, {
          ...plan,
          generation: event.data.generation,
          rotated_at: event.metadata.recordedAt,
        })
      case 'PlanOrderRefused':
      case 'PlanRanLow':
      case 'PlanExhausted':
        return
    }
  },
}
