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
import { countedPage, type Db, sql, type TimePage, timePage } from '../src/platform/postgres/kysely.ts'
import {
  column,
  nullable,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'
import type { StoredDetails } from './orders.ts'

/** One subscription. Past due is computed on read. */
const subscriptionsTable = readTable({
  name: 'subscriptions',
  columns: {
    subscriptionId: column.text(),
    accountId: column.text(),
    productId: column.text(),
    quantity: column.bigint(),
    interval: column.text<Interval>(),
    target: nullable(column.jsonb<Target>()),
    /** The order of the last paid period. */
    orderId: column.text(),
    planId: nullable(column.text()),
    proxyIds: column.textArray(),
    amountCents: column.bigint(),
    startedAt: column.timestamptz(),
    currentPeriodStart: column.timestamptz(),
    currentPeriodEnd: column.timestamptz(),
    /** When the next period must be paid, or when the requested cancellation takes effect. */
    dueAt: column.timestamptz(),
    cancelAtPeriodEnd: column.boolean(),
    endedAs: nullable(column.text<'canceled' | 'expired'>()),
    endedReason: nullable(column.text()),
    endedAt: nullable(column.timestamptz()),
  },
  key: ['subscriptionId'],
  indexes: [
    'account_id, started_at desc, subscription_id desc',
    // The subscriptions of all accounts, for operators.
    'started_at desc',
    'due_at where ended_as is null',
  ],
})

export type SubscriptionRow = RowOf<typeof subscriptionsTable>

/** A paid period that is not yet in its subscription's stream. */
const openPeriodsTable = readTable({
  name: 'open_periods',
  columns: {
    orderId: column.text(),
    subscriptionId: column.text(),
    openedAt: column.timestamptz(),
  },
  key: ['orderId'],
  indexes: ['opened_at'],
})

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
          orderId,
          subscriptionId: subscription.subscriptionId,
          openedAt: event.metadata.recordedAt,
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
      subscriptionId: started.subscriptionId,
      accountId: started.accountId,
      productId: started.productId,
      quantity: started.quantity,
      interval: started.interval,
      target: started.target,
      orderId: started.orderId,
      planId: started.planId,
      proxyIds: started.proxyIds,
      amountCents: started.amountCents,
      startedAt: started.startedAt,
      currentPeriodStart: started.startedAt,
      currentPeriodEnd: started.currentPeriodEnd,
      dueAt: dueAt(started.currentPeriodEnd, started.target),
      cancelAtPeriodEnd: false,
      endedAs: null,
      endedReason: null,
      endedAt: null,
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
        orderId,
        planId,
        proxyIds,
        amountCents,
        currentPeriodStart: periodStart,
        currentPeriodEnd,
        dueAt: dueAt(currentPeriodEnd, row.target),
      })
    }
    case 'SubscriptionCancelScheduled':
      return change({ cancelAtPeriodEnd: true, dueAt: row.currentPeriodEnd })
    case 'SubscriptionCanceled':
      return change({
        endedAs: 'canceled',
        endedReason: event.data.reason,
        endedAt: event.data.canceledAt,
      })
    case 'SubscriptionExpired':
      return change({ endedAs: 'expired', endedReason: event.data.reason, endedAt: event.data.expiredAt })
  }
}

/**
 * Subscriptions, and paid periods without a subscription event after a crash on a log without atomic multi-stream
 * appends.
 */
export const subscriptions = readModel({
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
})

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
  db: Db,
  account: AccountId,
  subscriptionId: string,
): Promise<readonly OrderId[]> => {
  const row = await db
    .selectFrom('read.subscriptions as held')
    .innerJoin('read.orders as o', 'o.orderId', 'held.orderId')
    .where('held.accountId', '=', account)
    .where('held.subscriptionId', '=', subscriptionId)
    .select(['held.startedAt', 'held.currentPeriodEnd', 'o.details'])
    .executeTakeFirst()
  const paid = row && (JSON.parse(row.details) as StoredDetails).subscription
  const schedule = paid && {
    startedAt: row.startedAt,
    period: paid.period,
    currentPeriodEnd: row.currentPeriodEnd,
  }
  return orderIdsOfSchedule(subscriptionId as SubscriptionId, schedule ?? null)
}

/** Why the last attempt to pay the period from `periodStart` was rejected; null: it was not rejected. */
export const refusedReasonOf = async (
  db: Db,
  subscriptionId: string,
  periodStart: string,
): Promise<string | null> => {
  const row = await db
    .selectFrom('work.renewals')
    .select('reason')
    .where('subscriptionId', '=', subscriptionId)
    .where('periodStart', '=', periodStart)
    .executeTakeFirst()
  return row?.reason ?? null
}

/** The account's subscriptions, each with the reason of its rejected next payment. A customer has none. */
const subscriptionsOf = (db: Db, { accountId, customerId }: ListScope) => {
  const all = db
    .selectFrom('read.subscriptions as held')
    .leftJoin('work.renewals as refused', (join) =>
      join
        .onRef('refused.subscriptionId', '=', 'held.subscriptionId')
        .onRef('refused.periodStart', '=', 'held.currentPeriodEnd'),
    )
    .selectAll('held')
    .select('refused.reason as refusedReason')
  if (accountId === null) return all
  const ofAccount = all.where('held.accountId', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where(sql<boolean>`false`)
}

/** A subscription within the scope. Undefined if it does not exist or is outside of the scope. */
export const findSubscription = (
  db: Db,
  scope: Scope,
  subscriptionId: string,
): Promise<SubscriptionView | undefined> =>
  subscriptionsOf(db, scope).where('held.subscriptionId', '=', subscriptionId).executeTakeFirst()

const matchingSubscriptions = (
  db: Db,
  scope: ListScope,
  status: SubscriptionStatus | undefined,
  nowMs: number,
) => {
  let matching = subscriptionsOf(db, scope)
  // The same rules as in `subscriptionStatus`.
  if (status === 'canceled' || status === 'expired') matching = matching.where('held.endedAs', '=', status)
  if (status === 'active')
    matching = matching
      .where('held.endedAs', 'is', null)
      .where((eb) =>
        eb.or([eb('held.currentPeriodEnd', '>', isoTime(nowMs)), eb('refused.reason', 'is', null)]),
      )
  if (status === 'past_due')
    matching = matching
      .where('held.endedAs', 'is', null)
      .where('held.currentPeriodEnd', '<=', isoTime(nowMs))
      .where('refused.reason', 'is not', null)
  return matching
}

/** A page of the subscriptions within the scope, newest first, and the number of those that match the filter. */
export const listSubscriptions = async (
  db: Db,
  scope: ListScope,
  filter: {
    readonly limit: number
    readonly offset: number
    readonly status: SubscriptionStatus | undefined
  },
  nowMs: number,
): Promise<{
  subscriptions: readonly (SubscriptionView & Pick<SubscriptionRow, 'accountId'>)[]
  total: number
}> => {
  const matching = matchingSubscriptions(db, scope, filter.status, nowMs)
  const { rows, total } = await countedPage(
    matching.orderBy('held.startedAt', 'desc').orderBy('held.subscriptionId', 'desc'),
    matching.clearSelect().select((eb) => eb.fn.countAll<number>().as('total')),
    filter,
  )
  return { subscriptions: rows, total }
}

/** Up to `limit` subscriptions within the scope after a given one, newest first; null: from the newest. */
export const subscriptionsAfter = (
  db: Db,
  scope: Scope,
  page: TimePage & { readonly status: SubscriptionStatus | undefined },
  nowMs: number,
): Promise<readonly SubscriptionView[]> => {
  const columns = { time: 'held.startedAt', id: 'held.subscriptionId' }
  return timePage(matchingSubscriptions(db, scope, page.status, nowMs), columns, page).execute()
}

export const subscriptionStatuses = ['active', 'past_due', 'canceled', 'expired'] as const
export type SubscriptionStatus = (typeof subscriptionStatuses)[number]

/** The data of a subscription for answers: from its row, or from its stream right after a decision. */
export type SubscriptionView = Omit<SubscriptionRow, 'accountId' | 'dueAt'> & {
  /** The code of the last rejected payment of the next period; null: none was rejected. */
  readonly refusedReason: string | null
}
