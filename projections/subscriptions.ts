import type { Kysely } from 'kysely'
import type { OrderEvent } from '../src/domain/orders/events.ts'
import {
  endOfPeriod,
  type Interval,
  type Period,
  rentalLeadMs,
} from '../src/domain/shared/billing-interval.ts'
import type { Target } from '../src/domain/shared/order-terms.ts'
import type { SubscriptionEvent } from '../src/domain/subscriptions/events.ts'
import { maxOrdersOfPeriod, orderIdOfPeriod } from '../src/domain/subscriptions/fold.ts'
import { isoTime } from '../src/kernel/clock.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId, OrderId, SubscriptionId } from '../src/kernel/ids.ts'
import type { ListScope, AccountScope as Scope } from '../src/kernel/scopes.ts'
import { countedPage, sql } from '../src/platform/postgres/kysely.ts'
import type { ReadModel, Rows, Table } from '../src/platform/projections/read-model.ts'
import type { OrderRow, StoredDetails } from './orders.ts'
import type { RenewalDatabase } from './other-tables.ts'

/** The read tables of the queries in this file. */
type QueriedTables = {
  'read.subscriptions': SubscriptionRow
  'read.orders': OrderRow
}

/** One subscription. Past due is computed on read. */
export type SubscriptionRow = {
  readonly subscription_id: string
  readonly account_id: string
  readonly product_id: string
  readonly quantity: number
  readonly interval: Interval
  readonly target: Target | null
  /** The order of the last paid period. */
  readonly order_id: string
  readonly plan_id: string | null
  readonly proxy_ids: readonly string[]
  readonly amount_cents: number
  readonly started_at: string
  readonly current_period_start: string
  readonly current_period_end: string
  /** When the next period must be paid, or when the requested cancellation takes effect. */
  readonly due_at: string
  readonly cancel_at_period_end: boolean
  readonly ended_as: 'canceled' | 'expired' | null
  readonly ended_reason: string | null
  readonly ended_at: string | null
}

/** A paid period that is not yet in its subscription's stream. */
export type OpenPeriodRow = {
  readonly order_id: string
  readonly subscription_id: string
  readonly opened_at: string
}

const subscriptionsTable: Table<SubscriptionRow> = {
  name: 'subscriptions',
  columns: {
    subscription_id: { type: 'text' },
    account_id: { type: 'text' },
    product_id: { type: 'text' },
    quantity: { type: 'bigint' },
    interval: { type: 'text' },
    target: { type: 'jsonb', nullable: true },
    order_id: { type: 'text' },
    plan_id: { type: 'text', nullable: true },
    proxy_ids: { type: 'text[]' },
    amount_cents: { type: 'bigint' },
    started_at: { type: 'timestamptz' },
    current_period_start: { type: 'timestamptz' },
    current_period_end: { type: 'timestamptz' },
    due_at: { type: 'timestamptz' },
    cancel_at_period_end: { type: 'boolean' },
    ended_as: { type: 'text', nullable: true },
    ended_reason: { type: 'text', nullable: true },
    ended_at: { type: 'timestamptz', nullable: true },
  },
  key: ['subscription_id'],
  indexes: [
    'account_id, started_at desc, subscription_id desc',
    // The subscriptions of all accounts, for operators.
    'started_at desc',
    'due_at where ended_as is null',
  ],
}

const openPeriodsTable: Table<OpenPeriodRow> = {
  name: 'open_periods',
  columns: {
    order_id: { type: 'text' },
    subscription_id: { type: 'text' },
    opened_at: { type: 'timestamptz' },
  },
  key: ['order_id'],
  indexes: ['opened_at'],
}

const prefix = 'subscription-'

/** Addresses are paid a day before their end, see `dueAtMs` in src/domain/subscriptions/decide.ts. */
const dueAt = (end: string, target: Target | null): string =>
  target === null ? end : new Date(Date.parse(end) - rentalLeadMs).toISOString()

/**
 * Applies an order's event to the open periods. On a log with atomic multi-stream appends no row outlives its batch.
 */
const applyOrder = (event: RecordedEvent<OrderEvent>, rows: Rows) => {
  switch (event.type) {
    case 'OrderCompleted':
    case 'OrderPlaced': {
      const { orderId, subscription } = event.data.order
      if (subscription)
        rows.insert(openPeriodsTable, {
          order_id: orderId,
          subscription_id: subscription.subscriptionId,
          opened_at: event.metadata.recordedAt,
        })
      return
    }
    case 'OrderFailed':
      return rows.remove(openPeriodsTable, [event.data.orderId])
    case 'OrderRefunded':
      if (event.data.complete) rows.remove(openPeriodsTable, [event.data.orderId])
      return
  }
}

const applySubscription = (event: RecordedEvent<SubscriptionEvent>, rows: Rows) => {
  const { data } = event
  if (event.type === 'SubscriptionStarted') {
    const started = event.data
    rows.remove(openPeriodsTable, [started.orderId])
    return rows.put(subscriptionsTable, {
      subscription_id: started.subscriptionId,
      account_id: started.accountId,
      product_id: started.productId,
      quantity: started.quantity,
      interval: started.interval,
      target: started.target,
      order_id: started.orderId,
      plan_id: started.planId,
      proxy_ids: started.proxyIds,
      amount_cents: started.amountCents,
      started_at: started.startedAt,
      current_period_start: started.startedAt,
      current_period_end: started.currentPeriodEnd,
      due_at: dueAt(started.currentPeriodEnd, started.target),
      cancel_at_period_end: false,
      ended_as: null,
      ended_reason: null,
      ended_at: null,
    })
  }
  const row = rows.get(subscriptionsTable, [data.subscriptionId])
  if (!row) throw new Error(`${event.type} on ${data.subscriptionId}, which was never started`)
  const change = (changed: Partial<SubscriptionRow>) => rows.put(subscriptionsTable, { ...row, ...changed })
  switch (event.type) {
    case 'SubscriptionRenewed': {
      const { orderId, planId, proxyIds, amountCents, periodStart, currentPeriodEnd } = event.data
      rows.remove(openPeriodsTable, [orderId])
      return change({
        order_id: orderId,
        plan_id: planId,
        proxy_ids: proxyIds,
        amount_cents: amountCents,
        current_period_start: periodStart,
        current_period_end: currentPeriodEnd,
        due_at: dueAt(currentPeriodEnd, row.target),
      })
    }
    case 'SubscriptionCancelScheduled':
      return change({ cancel_at_period_end: true, due_at: row.current_period_end })
    case 'SubscriptionCanceled':
      return change({
        ended_as: 'canceled',
        ended_reason: event.data.reason,
        ended_at: event.data.canceledAt,
      })
    case 'SubscriptionExpired':
      return change({ ended_as: 'expired', ended_reason: event.data.reason, ended_at: event.data.expiredAt })
  }
}

/**
 * Subscriptions, and paid periods without a subscription event after a crash on a log without atomic multi-stream
 * appends.
 */
export const subscriptions: ReadModel = {
  name: 'subscriptions',
  version: 3,
  tables: [subscriptionsTable, openPeriodsTable],
  reads: (event) =>
    event.stream.startsWith(prefix) && event.type !== 'SubscriptionStarted'
      ? [{ table: subscriptionsTable.name, key: [event.stream.slice(prefix.length)] }]
      : [],
  apply: (event, rows) => {
    if (event.stream.startsWith(prefix)) applySubscription(event as RecordedEvent<SubscriptionEvent>, rows)
    else applyOrder(event as RecordedEvent<OrderEvent>, rows)
  },
}

/** The input for the start of each period. Times are ISO 8601 UTC. */
export type Schedule = {
  readonly startedAt: string
  readonly period: Period
  readonly currentPeriodEnd: string
}

/**
 * Every order that a subscription may have, oldest first: one for each paid period, and one for the next period,
 * which exists if its order failed or was late and refunded. Before each of them come the failed orders of the same
 * period. `schedule` is null if the subscription did not start.
 */
export const orderIdsOfSchedule = (
  subscriptionId: SubscriptionId,
  schedule: Schedule | null,
): readonly OrderId[] => {
  const ids = [orderIdOfPeriod(subscriptionId, null)]
  if (schedule === null) return ids
  const [startMs, lastMs] = [Date.parse(schedule.startedAt), Date.parse(schedule.currentPeriodEnd)]
  for (let n = 1; endOfPeriod(startMs, schedule.period, n) <= lastMs; n += 1) {
    const periodStart = isoTime(endOfPeriod(startMs, schedule.period, n))
    for (let failed = 0; failed < maxOrdersOfPeriod; failed += 1)
      ids.push(orderIdOfPeriod(subscriptionId, periodStart, failed))
  }
  return ids
}

/**
 * Every order that a subscription of the account may have. The ids are computed from its periods, so that orders need
 * no column or index for it.
 */
export const orderIdsOfSubscription = async (
  db: Kysely<QueriedTables>,
  account: AccountId,
  subscriptionId: string,
): Promise<readonly OrderId[]> => {
  const row = await db
    .selectFrom('read.subscriptions as held')
    .innerJoin('read.orders as o', 'o.order_id', 'held.order_id')
    .where('held.account_id', '=', account)
    .where('held.subscription_id', '=', subscriptionId)
    .select(['held.started_at', 'held.current_period_end', 'o.details'])
    .executeTakeFirst()
  const paid = row && (JSON.parse(row.details) as StoredDetails).subscription
  const schedule = paid && {
    startedAt: row.started_at,
    period: paid.period,
    currentPeriodEnd: row.current_period_end,
  }
  return orderIdsOfSchedule(subscriptionId as SubscriptionId, schedule ?? null)
}

export type SubscriptionQueries = Kysely<QueriedTables & RenewalDatabase>

/** Why the last attempt to pay the period from `periodStart` was rejected; null: it was not rejected. */
export const refusedReasonOf = async (
  db: SubscriptionQueries,
  subscriptionId: string,
  periodStart: string,
): Promise<string | null> => {
  const row = await db
    .selectFrom('work.renewals')
    .select('reason')
    .where('subscription_id', '=', subscriptionId)
    .where('period_start', '=', periodStart)
    .executeTakeFirst()
  return row?.reason ?? null
}

/** The account's subscriptions, each with the reason of its rejected next payment. A customer has none. */
const subscriptionsOf = (db: SubscriptionQueries, { accountId, customerId }: ListScope) => {
  const all = db
    .selectFrom('read.subscriptions as held')
    .leftJoin('work.renewals as refused', (join) =>
      join
        .onRef('refused.subscription_id', '=', 'held.subscription_id')
        .onRef('refused.period_start', '=', 'held.current_period_end'),
    )
    .selectAll('held')
    .select('refused.reason as refused_reason')
  if (accountId === null) return all
  const ofAccount = all.where('held.account_id', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where(sql<boolean>`false`)
}

/** A subscription within the scope. Undefined if it does not exist or is outside of the scope. */
export const findSubscription = (
  db: SubscriptionQueries,
  scope: Scope,
  subscriptionId: string,
): Promise<SubscriptionView | undefined> =>
  subscriptionsOf(db, scope).where('held.subscription_id', '=', subscriptionId).executeTakeFirst()

const matchingSubscriptions = (
  db: SubscriptionQueries,
  scope: ListScope,
  status: SubscriptionStatus | undefined,
  nowMs: number,
) => {
  let matching = subscriptionsOf(db, scope)
  // The same rules as in `subscriptionStatus`.
  if (status === 'canceled' || status === 'expired') matching = matching.where('held.ended_as', '=', status)
  if (status === 'active')
    matching = matching
      .where('held.ended_as', 'is', null)
      .where((eb) =>
        eb.or([eb('held.current_period_end', '>', isoTime(nowMs)), eb('refused.reason', 'is', null)]),
      )
  if (status === 'past_due')
    matching = matching
      .where('held.ended_as', 'is', null)
      .where('held.current_period_end', '<=', isoTime(nowMs))
      .where('refused.reason', 'is not', null)
  return matching
}

/** A page of the subscriptions within the scope, newest first, and the number of those that match the filter. */
export const listSubscriptions = async (
  db: SubscriptionQueries,
  scope: ListScope,
  filter: {
    readonly limit: number
    readonly offset: number
    readonly status: SubscriptionStatus | undefined
  },
  nowMs: number,
): Promise<{
  subscriptions: readonly (SubscriptionView & Pick<SubscriptionRow, 'account_id'>)[]
  total: number
}> => {
  const matching = matchingSubscriptions(db, scope, filter.status, nowMs)
  const { rows, total } = await countedPage(
    matching.orderBy('held.started_at', 'desc').orderBy('held.subscription_id', 'desc'),
    matching.clearSelect().select((eb) => eb.fn.countAll<number>().as('total')),
    filter,
  )
  return { subscriptions: rows, total }
}

/** Up to `limit` subscriptions within the scope after a given one, newest first; null: from the newest. */
export const subscriptionsAfter = (
  db: SubscriptionQueries,
  scope: Scope,
  page: {
    readonly status: SubscriptionStatus | undefined
    readonly after: { readonly at: string; readonly id: string } | null
    readonly limit: number
  },
  nowMs: number,
): Promise<readonly SubscriptionView[]> => {
  let matching = matchingSubscriptions(db, scope, page.status, nowMs)
  if (page.after !== null) {
    const { at, id } = page.after
    matching = matching
      .where('held.started_at', '<=', at)
      .where(sql<boolean>`(held.started_at, held.subscription_id) < (${at}::timestamptz, ${id}::text)`)
  }
  return matching
    .orderBy('held.started_at', 'desc')
    .orderBy('held.subscription_id', 'desc')
    .limit(page.limit)
    .execute()
}

export const subscriptionStatuses = ['active', 'past_due', 'canceled', 'expired'] as const
export type SubscriptionStatus = (typeof subscriptionStatuses)[number]

/** The data of a subscription for answers: from its row, or from its stream right after a decision. */
export type SubscriptionView = Omit<SubscriptionRow, 'account_id' | 'due_at'> & {
  /** The code of the last rejected payment of the next period; null: none was rejected. */
  readonly refused_reason: string | null
}
