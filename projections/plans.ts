import type { Kysely } from 'kysely'
import type { PlanEvent } from '../src/domain/plans/events.ts'
import { isoTime } from '../src/kernel/clock.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ListScope, AccountScope as Scope } from '../src/kernel/scopes.ts'
import { countedPage, sql } from '../src/platform/postgres/kysely.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'
import type { LowTrafficRow } from './low-traffic.ts'
import type { LabelDatabase, TrafficDatabase } from './other-tables.ts'

/** The read tables of the queries in this file. */
type QueriedTables = {
  'read.plans': PlanRow
  'read.low_traffic': LowTrafficRow
}

/** One plan with its traffic in bytes. The remaining traffic, depleted and expired are computed on read. */
export type PlanRow = {
  readonly plan_id: string
  readonly account_id: string
  /** The reseller's customer who owns it; null for the account itself. */
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
  /** The generation of the plan's credentials. */
  readonly generation: number
  /** When that generation began; null for the first one. The previous generation remains valid for some time. */
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
    // The plans of one customer of a reseller. Plans of the account itself are not in this index.
    'account_id, customer_id, started_at desc, plan_id desc where customer_id is not null',
    // The gateway reads plans that began since its last read. Operators list the plans of all accounts.
    'started_at',
  ],
  rewritten: true,
}

const prefix = 'plan-'

/** Plans with their bought and used traffic. */
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
      // A plan may reject an order before its activation: the order that should activate it may never do so.
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

export type PlanQueries = Kysely<QueriedTables & LabelDatabase & TrafficDatabase>

/**
 * The used traffic of a plan including the counters: traffic that any process metered is visible at once, even before
 * it is in the log.
 */
const usedBytes = () => sql<number>`greatest(plan.used_bytes, counter.used_bytes)`

const plansOf = (db: PlanQueries, { accountId, customerId }: ListScope) => {
  const all = db
    .selectFrom('read.plans as plan')
    .leftJoin('vault.labels as label', 'label.resource_id', 'plan.plan_id')
    .leftJoin('work.traffic as counter', 'counter.plan_id', 'plan.plan_id')
    .leftJoin('read.low_traffic as low', 'low.plan_id', 'plan.plan_id')
  if (accountId === null) return all
  const ofAccount = all.where('plan.account_id', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where('plan.customer_id', '=', customerId)
}

/** The most orders in the record of a plan, newest first. */
const maxListedOrders = 50

const orderIds = () =>
  sql<readonly string[]>`array(
  select o.order_id from read.orders o where o.plan_id = plan.plan_id
  order by o.created_at desc, o.order_id desc limit ${sql.lit(maxListedOrders)})`.as('order_ids')

const whitelistCount = () =>
  sql<number>`(
  select count(*) from vault.whitelist entry where entry.plan_id = plan.plan_id)`.as('whitelist_count')

/** The columns of a plan's record in addition to its row. Of two columns with one name, the later one is used. */
const companionColumns = () =>
  ['label.label', 'low.low_since', usedBytes().as('used_bytes'), orderIds(), whitelistCount()] as const

/** A plan within the scope. Undefined if it does not exist or is outside of the scope. */
export const findPlan = (db: PlanQueries, scope: Scope, planId: string): Promise<FoundPlan | undefined> =>
  plansOf(db, scope)
    .where('plan.plan_id', '=', planId)
    .selectAll('plan')
    .select(companionColumns())
    .executeTakeFirst()

/** A page of the plans within the scope, newest first, and the number of plans that match the filter. */
export const listPlans = async (
  db: PlanQueries,
  scope: ListScope,
  filter: {
    readonly limit: number
    readonly offset: number
    readonly productId: string | undefined
    readonly status: PlanStatus | undefined
  },
  nowMs: number,
): Promise<{ plans: readonly FoundPlan[]; total: number }> => {
  const now = isoTime(nowMs)
  let matching = plansOf(db, scope)
  if (filter.productId !== undefined) matching = matching.where('plan.product_id', '=', filter.productId)
  // The same rules as in `planStatus`.
  if (filter.status === 'expired') matching = matching.where('plan.expires_at', '<=', now)
  if (filter.status === 'active' || filter.status === 'depleted') {
    matching = matching.where((eb) =>
      eb.or([eb('plan.expires_at', 'is', null), eb('plan.expires_at', '>', now)]),
    )
    matching =
      filter.status === 'depleted'
        ? matching.where(usedBytes(), '>=', sql.ref<number>('plan.total_bytes'))
        : matching.where((eb) =>
            eb.or([
              eb('plan.total_bytes', 'is', null),
              eb(usedBytes(), '<', sql.ref<number>('plan.total_bytes')),
            ]),
          )
  }
  const { rows, total } = await countedPage(
    matching
      .selectAll('plan')
      .select(companionColumns())
      .orderBy('plan.started_at', 'desc')
      .orderBy('plan.plan_id', 'desc'),
    matching.select((eb) => eb.fn.countAll<number>().as('total')),
    filter,
  )
  return { plans: rows, total }
}

/**
 * Up to `limit` plans within the scope after a given one, newest first; null: from the newest. It reads only as many
 * rows as it returns.
 */
export const plansAfter = (
  db: PlanQueries,
  scope: Scope,
  page: { readonly after: { readonly at: string; readonly id: string } | null; readonly limit: number },
): Promise<readonly FoundPlan[]> => {
  let matching = plansOf(db, scope)
  if (page.after !== null) {
    const { at, id } = page.after
    matching = matching
      .where('plan.started_at', '<=', at)
      .where(sql<boolean>`(plan.started_at, plan.plan_id) < (${at}::timestamptz, ${id}::text)`)
  }
  return matching
    .selectAll('plan')
    .select(companionColumns())
    .orderBy('plan.started_at', 'desc')
    .orderBy('plan.plan_id', 'desc')
    .limit(page.limit)
    .execute()
}

export const planStatuses = ['active', 'depleted', 'expired'] as const
export type PlanStatus = (typeof planStatuses)[number]

/** A plan's row with data of other tables: its orders, newest first, and the account's own label. */
export type FoundPlan = PlanRow & {
  readonly order_ids: readonly string[]
  readonly label: string | null
  /** When it reached the threshold; null while more is left. */
  readonly low_since: string | null
  readonly whitelist_count: number
}
