import { type Kysely, sql } from 'kysely'
import type { ReadDatabase } from '../../../projections/database.ts'
import { isoTime } from '../../kernel/clock.ts'
import { countedPage } from '../../platform/postgres/counted-page.ts'
import type { Scope } from '../../terms/holder.ts'
import type { LabelDatabase } from '../labels/database.ts'
import type { TrafficDatabase } from './migrations.ts'
import type { FoundPlan, PlanStatus } from './record.ts'

export type PlanQueries = Kysely<ReadDatabase & LabelDatabase & TrafficDatabase>

/**
 * What was used of a plan, counters included: whatever any process metered shows at once, also before the log hears of
 * it.
 */
const usedBytes = sql<number>`greatest(plan.used_bytes, counter.used_bytes)`

const plansOf = (db: PlanQueries, { accountId, customerId }: Scope) => {
  const ofAccount = db
    .selectFrom('read.plans as plan')
    .leftJoin('vault.labels as label', 'label.resource_id', 'plan.plan_id')
    .leftJoin('work.traffic as counter', 'counter.plan_id', 'plan.plan_id')
    .leftJoin('read.low_traffic as low', 'low.plan_id', 'plan.plan_id')
    .where('plan.account_id', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where('plan.customer_id', '=', customerId)
}

/** A plan names at most this many of its orders, newest first. */
const namedOrders = 50

const orderIds = sql<readonly string[]>`array(
  select o.order_id from read.orders o where o.plan_id = plan.plan_id
  order by o.created_at desc, o.order_id desc limit ${sql.lit(namedOrders)})`.as('order_ids')

const whitelistCount = sql<number>`(
  select count(*) from vault.whitelist entry where entry.plan_id = plan.plan_id)`.as('whitelist_count')

/** What the record of a plan shows beside its row; the later column of a name is the one that is read. */
const beside = ['label.label', 'low.low_since', usedBytes.as('used_bytes'), orderIds, whitelistCount] as const

/** A plan within the scope, or undefined: absent and foreign read alike. */
export const findPlan = (db: PlanQueries, scope: Scope, planId: string): Promise<FoundPlan | undefined> =>
  plansOf(db, scope).where('plan.plan_id', '=', planId).selectAll('plan').select(beside).executeTakeFirst()

/** A page of the plans within the scope, newest first, and how many fit the filter. */
export const listPlans = async (
  db: PlanQueries,
  scope: Scope,
  filter: {
    readonly limit: number
    readonly offset: number
    readonly productId: string | undefined
    readonly status: PlanStatus | undefined
  },
  nowMs: number,
): Promise<{ plans: readonly FoundPlan[]; total: number }> => {
  const now = isoTime(nowMs)
  let fitting = plansOf(db, scope)
  if (filter.productId !== undefined) fitting = fitting.where('plan.product_id', '=', filter.productId)
  // The same rules as `planStatus`.
  if (filter.status === 'expired') fitting = fitting.where('plan.expires_at', '<=', now)
  if (filter.status === 'active' || filter.status === 'depleted') {
    fitting = fitting.where((is) =>
      is.or([is('plan.expires_at', 'is', null), is('plan.expires_at', '>', now)]),
    )
    fitting =
      filter.status === 'depleted'
        ? fitting.where(usedBytes, '>=', sql.ref<number>('plan.total_bytes'))
        : fitting.where((is) =>
            is.or([
              is('plan.total_bytes', 'is', null),
              is(usedBytes, '<', sql.ref<number>('plan.total_bytes')),
            ]),
          )
  }
  const { rows, total } = await countedPage(
    fitting
      .selectAll('plan')
      .select(beside)
      .orderBy('plan.started_at', 'desc')
      .orderBy('plan.plan_id', 'desc'),
    fitting.select((is) => is.fn.countAll<number>().as('total')),
    filter,
  )
  return { plans: rows, total }
}

/**
 * Up to `limit` plans within the scope, newest first, that come after one; null: from the newest on. However many there
 * are, it reads as many rows as it gives.
 */
export const plansAfter = (
  db: PlanQueries,
  scope: Scope,
  page: { readonly after: { readonly at: string; readonly id: string } | null; readonly limit: number },
): Promise<readonly FoundPlan[]> => {
  let fitting = plansOf(db, scope)
  if (page.after !== null) {
    const { at, id } = page.after
    fitting = fitting
      .where('plan.started_at', '<=', at)
      .where(sql<boolean>`(plan.started_at, plan.plan_id) < (${at}::timestamptz, ${id}::text)`)
  }
  return fitting
    .selectAll('plan')
    .select(beside)
    .orderBy('plan.started_at', 'desc')
    .orderBy('plan.plan_id', 'desc')
    .limit(page.limit)
    .execute()
}
