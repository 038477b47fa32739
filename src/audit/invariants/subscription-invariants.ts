import type { LedgerEvent } from '../../domain/ledger/events.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import {
  decideCancellation,
  decidePaid,
  decideRefused,
  decideScheduledEnd,
  type PaidOrder,
} from '../../domain/subscriptions/decide.ts'
import type { SubscriptionEvent } from '../../domain/subscriptions/events.ts'
import {
  maxOrdersOfPeriod,
  orderIdOfPeriod,
  type Subscription,
  type SubscriptionState,
  subscriptionFold,
} from '../../domain/subscriptions/fold.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { SubscriptionId } from '../../kernel/ids.ts'
import type { ReadModel, RowKey, Rows, Table } from '../../platform/projections/read-model.ts'
import { staleMs } from './priced-catalog.ts'
import { describeDifferences, isSameJson, recordViolation } from './violation.ts'

/** An order that pays a period, from its debit until its subscription names it. `paid`: JSON of `PaidOrder`. */
type PeriodRow = {
  order_id: string
  paid: string
  fulfilled: boolean
  /** The full amount was refunded. */
  refunded: boolean
  last_position: number
}
/** A subscription that has not ended. `state`: JSON of its fold. */
type SubscriptionRow = {
  subscription_id: string
  state: string
  period_ends_ms: number
  last_position: number
}

export const paidPeriodsTable: Table<PeriodRow> = {
  name: 'audit_paid_periods',
  columns: {
    order_id: { type: 'text' },
    paid: { type: 'text' },
    fulfilled: { type: 'boolean' },
    refunded: { type: 'boolean' },
    last_position: { type: 'bigint' },
  },
  key: ['order_id'],
  indexes: [],
}
export const subscriptionsTable: Table<SubscriptionRow> = {
  name: 'audit_subscriptions',
  columns: {
    subscription_id: { type: 'text' },
    state: { type: 'text' },
    period_ends_ms: { type: 'bigint' },
    last_position: { type: 'bigint' },
  },
  key: ['subscription_id'],
  indexes: [],
}

type PayingEvent = Extract<
  RecordedEvent<LedgerEvent | OrderEvent>,
  { readonly type: 'WalletDebited' | 'OrderCompleted' | 'OrderFulfilled' | 'OrderRefunded' }
>

const prefix = 'subscription-'
const isSubscription = (event: RecordedEvent): event is RecordedEvent<SubscriptionEvent> =>
  event.stream.startsWith(prefix)
const isPaying = (event: RecordedEvent): event is PayingEvent =>
  event.type === 'WalletDebited' ||
  event.type === 'OrderCompleted' ||
  event.type === 'OrderFulfilled' ||
  event.type === 'OrderRefunded'

const orderIdOf = (event: PayingEvent): string =>
  'order' in event.data ? event.data.order.orderId : event.data.orderId

/** The order of a subscription, or of an event that only has an order id; null for any other order. */
const periodOrderId = (event: PayingEvent): string | null =>
  'order' in event.data && event.data.order.subscription === undefined ? null : orderIdOf(event)

const applyPaying = (event: PayingEvent, rows: Rows): void => {
  const orderId = periodOrderId(event)
  if (orderId === null) return
  if (event.type === 'WalletDebited') {
    const { order: details } = event.data
    const paid: PaidOrder = { details, planId: details.planId, proxyIds: [], fulfilledAt: null }
    rows.put(paidPeriodsTable, {
      order_id: orderId,
      paid: JSON.stringify(paid),
      fulfilled: false,
      refunded: false,
      last_position: event.position,
    })
    return
  }
  const row = rows.get(paidPeriodsTable, [orderId])
  if (row === undefined) return
  if (event.type === 'OrderRefunded') {
    if (!event.data.complete) return
    // A subscription may still name a fulfilled order.
    if (row.fulfilled) rows.put(paidPeriodsTable, { ...row, refunded: true })
    else rows.remove(paidPeriodsTable, [orderId])
    return
  }
  const { proxyIds, fulfilledAt } = event.data
  const paid: PaidOrder = { ...JSON.parse(row.paid), proxyIds, fulfilledAt }
  rows.put(paidPeriodsTable, {
    ...row,
    paid: JSON.stringify(paid),
    fulfilled: true,
    last_position: event.position,
  })
}

/** The events that the subscription would decide at that time, or the reason why there are none. */
const expectedEvents = (
  event: RecordedEvent<SubscriptionEvent>,
  state: SubscriptionState,
  rows: Rows,
): readonly SubscriptionEvent[] | string => {
  if (event.type === 'SubscriptionStarted' || event.type === 'SubscriptionRenewed') {
    const { orderId } = event.data
    const row = rows.get(paidPeriodsTable, [orderId])
    if (row === undefined || !row.fulfilled) return `no order ${orderId} that was paid waits to be named`
    return decidePaid(state, JSON.parse(row.paid)) ?? []
  }
  if (state === null) return `there is no subscription ${event.data.subscriptionId} that goes on`
  switch (event.type) {
    case 'SubscriptionCancelScheduled':
      // The decision is slightly older than its recording.
      return decideCancellation(state, Date.parse(event.metadata.recordedAt) - staleMs)
    case 'SubscriptionCanceled': {
      const atMs = Date.parse(event.data.canceledAt)
      const endEvents = decideScheduledEnd(state, atMs)
      return endEvents.length > 0 ? endEvents : decideCancellation(state, atMs)
    }
    case 'SubscriptionExpired': {
      const { reason, expiredAt } = event.data
      const refusal = { periodStart: state.currentPeriodEnd, reason, orderExists: false }
      return decideRefused(state, refusal, Date.parse(expiredAt))
    }
    default:
      return event satisfies never
  }
}

/** The time of the event according to its data; null when the data has none. */
const statedTime = ({ type, data }: SubscriptionEvent): string | null => {
  if (type === 'SubscriptionCanceled') return data.canceledAt
  return type === 'SubscriptionExpired' ? data.expiredAt : null
}

/** The problem of the order of a period; null without one. Other invariants check its fulfilment and its price. */
const orderProblem = (state: Subscription | null, { details }: PaidOrder): string | null => {
  const { orderId, accountId, keyId, quantity, subscription } = details
  if (subscription === undefined) return `${orderId} pays no subscription`
  const { subscriptionId, periodStart, interval, period } = subscription
  const ids = Array.from({ length: maxOrdersOfPeriod }, (_, failedBefore) =>
    orderIdOfPeriod(subscriptionId as SubscriptionId, periodStart, failedBefore),
  )
  if (!ids.includes(orderId)) return `no order of the period from ${periodStart ?? 'its start'} is ${orderId}`
  if (state === null) return null
  const { terms } = state
  const ordered = { accountId, keyId, interval, period }
  const subscribed = {
    accountId: terms.accountId,
    keyId: terms.keyId,
    interval: terms.interval,
    period: terms.period,
  }
  if (!isSameJson(ordered, subscribed))
    return `its order is not what was subscribed to: ${describeDifferences(ordered, subscribed)}`
  return quantity > terms.quantity ? `its order is of ${quantity}, above the ${terms.quantity} of it` : null
}

const checkSubscription = (event: RecordedEvent<SubscriptionEvent>, rows: Rows): void => {
  const report = (problem: string, rule = 'subscription'): void => recordViolation(rows, event, rule, problem)
  const subscriptionId = event.stream.slice(prefix.length)
  const row = rows.get(subscriptionsTable, [subscriptionId])
  const state: SubscriptionState = row === undefined ? null : JSON.parse(row.state)
  const expected = expectedEvents(event, state, rows)
  if (typeof expected === 'string') report(expected)
  else {
    const [expectedEvent] = expected
    if (expectedEvent?.type !== event.type)
      report(`it would say ${expectedEvent?.type ?? 'nothing'} then, not ${event.type}`)
    else if (!isSameJson(expectedEvent.data, event.data))
      report(`it is not what was paid or due: ${describeDifferences(event.data, expectedEvent.data)}`)
  }
  if (event.data.subscriptionId !== subscriptionId)
    report(`it is about ${event.data.subscriptionId}`, 'subscription-elsewhere')
  const statedAt = statedTime(event)
  if (statedAt !== null && Math.abs(Date.parse(statedAt) - Date.parse(event.metadata.recordedAt)) > staleMs)
    report(`it says ${statedAt} and was recorded at ${event.metadata.recordedAt}`, 'subscription-time')
  if ('orderId' in event.data) {
    const paid = rows.get(paidPeriodsTable, [event.data.orderId])
    const problem = paid === undefined ? null : orderProblem(state, JSON.parse(paid.paid))
    if (problem !== null) report(problem, 'subscription-order')
    rows.remove(paidPeriodsTable, [event.data.orderId])
  }
  if (state === null && event.type !== 'SubscriptionStarted') return
  const { type, data, revision, metadata } = event
  const next = subscriptionFold.evolve(state, {
    ...({ type, data } as SubscriptionEvent),
    revision,
    recordedAtMs: Date.parse(metadata.recordedAt),
  })
  if (next === null || next.ended) rows.remove(subscriptionsTable, [subscriptionId])
  else
    rows.put(subscriptionsTable, {
      subscription_id: subscriptionId,
      state: JSON.stringify(next),
      period_ends_ms: Date.parse(next.currentPeriodEnd),
      last_position: event.position,
    })
}

/**
 * A period of a subscription names the order that paid it, once: with its amount, its plan and rentals, and the end of
 * the period. A subscription ends on request or after its grace, and has no events after that.
 */
export const subscriptionRules: ReadModel = {
  name: 'audit-subscriptions',
  version: 1,
  tables: [paidPeriodsTable, subscriptionsTable],
  takes: {
    types: new Set(['WalletDebited', 'OrderCompleted', 'OrderFulfilled', 'OrderRefunded']),
    streams: new Set([prefix]),
  },
  reads: (event): RowKey[] => {
    if (isSubscription(event)) {
      const keys = [{ table: subscriptionsTable.name, key: [event.stream.slice(prefix.length)] }]
      return 'orderId' in event.data
        ? [...keys, { table: paidPeriodsTable.name, key: [event.data.orderId] }]
        : keys
    }
    if (!isPaying(event)) return []
    const orderId = periodOrderId(event)
    return orderId === null ? [] : [{ table: paidPeriodsTable.name, key: [orderId] }]
  },
  apply: (event, rows) => {
    if (isSubscription(event)) checkSubscription(event, rows)
    else if (isPaying(event)) applyPaying(event, rows)
  },
}
