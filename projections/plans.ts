import type { PlanEvent } from '../src/domain/plans/events.ts'
import { isLow } from '../src/domain/plans/fold.ts'
import { isoTime } from '../src/kernel/clock.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { allAccounts, type ListScope, type AccountScope as Scope } from '../src/kernel/scopes.ts'
import {
  beginsWith,
  contains,
  countedPage,
  type Db,
  inScope,
  sql,
  type TimePage,
  timePage,
} from '../src/platform/postgres/kysely.ts'
import {
  column,
  nullable,
  type RowKey,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/** One plan with its traffic in bytes. The remaining traffic, depleted and expired are computed on read. */
export const plansTable = readTable({
  name: 'plans',
  columns: {
    planId: column.text(),
    accountId: column.text(),
    /** The reseller's customer who owns it; null for the account itself. */
    customerId: nullable(column.text()),
    productId: column.text(),
    shape: column.text<'gateway_gb' | 'gateway_time'>(),
    renewal: column.text<'topup' | 'repurchase'>(),
    /** Null for a plan that is sold by time. */
    totalBytes: nullable(column.bigint()),
    usedBytes: column.bigint(),
    speedUnits: nullable(column.integer()),
    startedAt: column.timestamptz(),
    expiresAt: nullable(column.timestamptz()),
    /** The generation of the plan's credentials. */
    generation: column.integer(),
    /** When that generation began; null for the first one. The previous generation remains valid for some time. */
    rotatedAt: nullable(column.timestamptz()),
  },
  key: ['planId'],
  indexes: [
    'account_id, started_at desc, plan_id desc',
    // The plans of one customer of a reseller. Plans of the account itself are not in this index.
    'account_id, customer_id, started_at desc, plan_id desc where customer_id is not null',
    // The gateway reads plans that began since its last read. Operators list the plans of all accounts.
    'started_at',
  ],
  rewritten: true,
})

export type PlanRow = RowOf<typeof plansTable>

const prefix = 'plan-'

/** Plans with their bought and used traffic. */
export const plans = readModel({
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
        planId: data.planId,
        accountId: data.accountId,
        customerId: data.customerId,
        productId: data.productId,
        shape: data.shape,
        renewal: data.renewal,
        totalBytes: data.bytes,
        usedBytes: 0,
        speedUnits: data.speedUnits,
        startedAt: data.startedAt,
        expiresAt: data.expiresAt,
        generation: 0,
        rotatedAt: null,
      })
    }
    const planId = event.stream.slice(prefix.length)
    const plan = rows.get(plansTable, [planId])
    if (!plan) {
      // A plan may reject an order before its activation: the order that should activate it may never do so.
      if (event.type === 'PlanOrderRefused') return
      throw new Error(`${event.type} on plan ${planId}, which was never activated`)
    }
    const add = (bytes: number) => (plan.totalBytes === null ? null : plan.totalBytes + bytes)
    switch (event.type) {
      case 'PlanToppedUp':
        return rows.put(plansTable, { ...plan, totalBytes: add(event.data.bytes) })
      case 'PlanUnitsWithdrawn':
        return rows.put(plansTable, { ...plan, totalBytes: add(-event.data.bytes) })
      case 'TrafficMetered':
        return rows.put(plansTable, { ...plan, usedBytes: event.data.usedBytes })
      case 'PlanExpired':
        return rows.put(plansTable, { ...plan, expiresAt: event.data.expiredAt })
      case 'PlanCredentialRotated':
        return rows.put(plansTable, {
          ...plan,
          generation: event.data.generation,
          rotatedAt: event.metadata.recordedAt,
        })
      case 'PlanOrderRefused':
      case 'PlanRanLow':
      case 'PlanExhausted':
        return
    }
  },
})

/**
 * The used traffic of a plan including the counters: traffic that any process metered is visible at once, even before
 * it is in the log.
 */
const usedBytes = () => sql<number>`greatest(plan.used_bytes, counter.used_bytes)`

const plansOf = (db: Db, scope: ListScope) =>
  db
    .selectFrom('read.plans as plan')
    .leftJoin('vault.labels as label', 'label.resourceId', 'plan.planId')
    .leftJoin('work.traffic as counter', 'counter.planId', 'plan.planId')
    .leftJoin('read.low_traffic as low', 'low.planId', 'plan.planId')
    .where(inScope('plan', scope))

/** The most orders in the record of a plan, newest first. */
const maxListedOrders = 50

const orderIds = () =>
  sql<readonly string[]>`array(
  select o.order_id from read.orders o where o.plan_id = plan.plan_id
  order by o.created_at desc, o.order_id desc limit ${sql.lit(maxListedOrders)})`.as('orderIds')

const whitelistCount = () =>
  sql<number>`(
  select count(*) from vault.whitelist entry where entry.plan_id = plan.plan_id)`.as('whitelistCount')

/** The columns of a plan's record in addition to its row. Of two columns with one name, the later one is used. */
const companionColumns = () =>
  ['label.label', 'low.lowSince', usedBytes().as('usedBytes'), orderIds(), whitelistCount()] as const

/** A plan within the scope. Undefined if it does not exist or is outside of the scope. */
export const findPlan = (db: Db, scope: Scope, planId: string): Promise<FoundPlan | undefined> =>
  plansOf(db, scope)
    .where('plan.planId', '=', planId)
    .selectAll('plan')
    .select(companionColumns())
    .executeTakeFirst()

/** What plans are named after: their products, and the account's own labels. */
export const planNames = (
  db: Db,
  scope: Scope,
  planIds: readonly string[],
): Promise<
  readonly { readonly planId: string; readonly productId: string; readonly label: string | null }[]
> =>
  plansOf(db, scope)
    .where(sql<boolean>`plan.plan_id = any (${planIds}::text[])`)
    .select(['plan.planId', 'plan.productId', 'label.label'])
    .execute()

/** Whether a plan of any account has this id. */
export const isPlan = async (db: Db, planId: string): Promise<boolean> =>
  (await plansOf(db, allAccounts)
    .where('plan.planId', '=', planId)
    .select('plan.planId')
    .executeTakeFirst()) !== undefined

type PlanFilter = { readonly status: PlanStatus | undefined; readonly nowMs: number }

const matchingPlans = (db: Db, scope: ListScope, { status, nowMs }: PlanFilter) => {
  const now = isoTime(nowMs)
  const matching = plansOf(db, scope)
  if (status === undefined) return matching
  // The same rules as in `planStatus`.
  if (status === 'expired') return matching.where('plan.expiresAt', '<=', now)
  const current = matching.where((eb) =>
    eb.or([eb('plan.expiresAt', 'is', null), eb('plan.expiresAt', '>', now)]),
  )
  return status === 'depleted'
    ? current.where(usedBytes(), '>=', sql.ref<number>('plan.totalBytes'))
    : current.where((eb) =>
        eb.or([eb('plan.totalBytes', 'is', null), eb(usedBytes(), '<', sql.ref<number>('plan.totalBytes'))]),
      )
}

/** A page of the plans within the scope, newest first, and the number of plans that match the filter. */
export const listPlans = async (
  db: Db,
  scope: ListScope,
  filter: {
    readonly limit: number
    readonly offset: number
    readonly productId: string | undefined
    readonly status: PlanStatus | undefined
  },
  nowMs: number,
): Promise<{ plans: readonly FoundPlan[]; total: number }> => {
  let matching = matchingPlans(db, scope, { status: filter.status, nowMs })
  if (filter.productId !== undefined) matching = matching.where('plan.productId', '=', filter.productId)
  const { rows, total } = await countedPage(
    matching
      .selectAll('plan')
      .select(companionColumns())
      .orderBy('plan.startedAt', 'desc')
      .orderBy('plan.planId', 'desc'),
    matching.select((eb) => eb.fn.countAll<number>().as('total')),
    filter,
  )
  return { plans: rows, total }
}

/**
 * A page of the plans within the scope. `search` is the beginning of a plan's id, a part of its label, or the text of
 * products.
 */
export const plansAfter = (
  db: Db,
  scope: Scope,
  page: TimePage & {
    readonly status: PlanStatus | undefined
    readonly search: { readonly text: string; readonly productIds: readonly string[] } | null
  },
  nowMs: number,
): Promise<readonly FoundPlan[]> => {
  let matching = matchingPlans(db, scope, { status: page.status, nowMs })
  if (page.search) {
    const { text, productIds } = page.search
    matching = matching.where((eb) =>
      eb.or([
        beginsWith('plan.planId', text),
        contains('label.label', text),
        sql<boolean>`plan.product_id = any (${productIds}::text[])`,
      ]),
    )
  }
  const columns = { time: 'plan.startedAt', id: 'plan.planId' }
  return timePage(matching.selectAll('plan').select(companionColumns()), columns, page).execute()
}

export const planStatuses = ['active', 'depleted', 'expired'] as const
export type PlanStatus = (typeof planStatuses)[number]

/** A plan's row with data of other tables: its orders, newest first, and the account's own label. */
export type FoundPlan = PlanRow & {
  readonly orderIds: readonly string[]
  readonly label: string | null
  /** When it reached the threshold; null while more is left. */
  readonly lowSince: string | null
  readonly whitelistCount: number
}

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
