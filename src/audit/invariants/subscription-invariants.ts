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
import type { SubscriptionId } from '../../kernel/ids.ts'
import { column, type Rows, readTable } from '../../platform/projections/read-model.ts'
import {
  type Context,
  describeDifferences,
  differenceFromDecision,
  eventRules,
  isSameJson,
  type Recorded,
  recordedMs,
  rowKey,
  staleMs,
  subjectOf,
} from './invariant.ts'

/** An order that pays a period, from its debit until its subscription names it. */
export const paidPeriodsTable = readTable({
  name: 'audit_paid_periods',
  columns: {
    orderId: column.text(),
    paid: column.jsonb<PaidOrder>(),
    fulfilled: column.boolean(),
    /** The full amount was refunded. */
    refunded: column.boolean(),
    lastPosition: column.bigint(),
  },
  key: ['orderId'],
})
/** A subscription that has not ended. `state`: its fold. */
export const subscriptionsTable = readTable({
  name: 'audit_subscriptions',
  columns: {
    subscriptionId: column.text(),
    state: column.jsonb<Subscription>(),
    periodEndsMs: column.bigint(),
    lastPosition: column.bigint(),
  },
  key: ['subscriptionId'],
})

type SubscriptionRecord = Recorded<SubscriptionEvent['type']>
type PayingEvent = Recorded<'WalletDebited' | 'OrderCompleted' | 'OrderFulfilled' | 'OrderRefunded'>

/** The order of a subscription, or of an event that only has an order id; null for any other order. */
const periodOrderId = ({ data }: PayingEvent): string | null => {
  if (!('order' in data)) return data.orderId
  return data.order.subscription === undefined ? null : data.order.orderId
}

const checkFulfilled = (
  event: Recorded<'OrderCompleted' | 'OrderFulfilled'>,
  { rows }: Pick<Context, 'rows'>,
): void => {
  const orderId = periodOrderId(event)
  const row = orderId === null ? undefined : rows.get(paidPeriodsTable, [orderId])
  if (row === undefined) return
  const { proxyIds, fulfilledAt } = event.data
  const paid = { ...row.paid, proxyIds, fulfilledAt }
  rows.put(paidPeriodsTable, { ...row, paid, fulfilled: true, lastPosition: event.position })
}

/** The events that the subscription would decide at that time, or the reason why there are none. */
const decidedEvents = (
  event: SubscriptionRecord,
  state: SubscriptionState,
  rows: Rows,
): readonly SubscriptionEvent[] | string => {
  if (event.type === 'SubscriptionStarted' || event.type === 'SubscriptionRenewed') {
    const { orderId } = event.data
    const row = rows.get(paidPeriodsTable, [orderId])
    if (!row?.fulfilled) return `no order ${orderId} that was paid waits to be named`
    return decidePaid(state, row.paid) ?? []
  }
  if (state === null) return `there is no subscription ${event.data.subscriptionId} that goes on`
  switch (event.type) {
    case 'SubscriptionCancelScheduled':
      // The decision is slightly older than its recording.
      return decideCancellation(state, recordedMs(event) - staleMs)
    case 'SubscriptionCanceled': {
      const atMs = Date.parse(event.data.canceledAt)
      const endEvents = decideScheduledEnd(state, atMs)
      return endEvents.length > 0 ? endEvents : decideCancellation(state, atMs)
    }
    default: {
      const { reason, expiredAt } = event.data
      const refusal = { periodStart: state.currentPeriodEnd, reason, orderExists: false }
      return decideRefused(state, refusal, Date.parse(expiredAt))
    }
  }
}

/** The time of the event according to its data; null when the data has none. */
const statedTime = ({ type, data }: SubscriptionRecord): string | null => {
  if (type === 'SubscriptionCanceled') return data.canceledAt
  return type === 'SubscriptionExpired' ? data.expiredAt : null
}

/** The problem of the order of a period; null without one. Other invariants check its fulfilment and its price. */
const orderProblem = (state: SubscriptionState, { details }: PaidOrder): string | null => {
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

const checkSubscription = (event: SubscriptionRecord, { rows, report }: Context): void => {
  const subscriptionId = subjectOf(event)
  const state = rows.get(subscriptionsTable, [subscriptionId])?.state ?? null
  const decided = decidedEvents(event, state, rows)
  if (typeof decided === 'string') report('subscription', decided)
  else {
    const difference = differenceFromDecision(event, decided[0] ?? null)
    if (difference === 'another')
      report('subscription', `it would say ${decided[0]?.type ?? 'nothing'} then, not ${event.type}`)
    else if (difference !== null)
      report('subscription', `it is not what was paid or due: ${difference.fields}`)
  }
  if (event.data.subscriptionId !== subscriptionId)
    report('subscription-elsewhere', `it is about ${event.data.subscriptionId}`)
  const statedAt = statedTime(event)
  if (statedAt !== null && Math.abs(Date.parse(statedAt) - recordedMs(event)) > staleMs)
    report('subscription-time', `it says ${statedAt} and was recorded at ${event.metadata.recordedAt}`)
  if ('orderId' in event.data) {
    const row = rows.get(paidPeriodsTable, [event.data.orderId])
    const problem = row === undefined ? null : orderProblem(state, row.paid)
    if (problem !== null) report('subscription-order', problem)
    rows.remove(paidPeriodsTable, [event.data.orderId])
  }
  if (state === null && event.type !== 'SubscriptionStarted') return
  const { type, data, revision } = event
  const folded = { ...({ type, data } as SubscriptionEvent), revision, recordedAtMs: recordedMs(event) }
  const next = subscriptionFold.evolve(state, folded)
  if (next === null || next.ended) rows.remove(subscriptionsTable, [subscriptionId])
  else
    rows.put(subscriptionsTable, {
      subscriptionId,
      state: next,
      periodEndsMs: Date.parse(next.currentPeriodEnd),
      lastPosition: event.position,
    })
}

/**
 * A period of a subscription names the order that paid it, once: with its amount, its plan and rentals, and the end of
 * the period. A subscription ends on request or after its grace, and has no events after that.
 */
export const subscriptionRules = eventRules({
  name: 'audit-subscriptions',
  version: 2,
  tables: [paidPeriodsTable, subscriptionsTable],
  reads: (event) => {
    switch (event.type) {
      case 'WalletDebited':
      case 'OrderCompleted':
      case 'OrderFulfilled':
      case 'OrderRefunded': {
        const orderId = periodOrderId(event)
        return orderId === null ? [] : [rowKey(paidPeriodsTable, orderId)]
      }
      default: {
        const subject = rowKey(subscriptionsTable, subjectOf(event))
        return 'orderId' in event.data ? [subject, rowKey(paidPeriodsTable, event.data.orderId)] : [subject]
      }
    }
  },
  on: {
    WalletDebited: ({ data: { order: details }, position }, { rows }) => {
      if (details.subscription === undefined) return
      rows.put(paidPeriodsTable, {
        orderId: details.orderId,
        paid: { details, planId: details.planId, proxyIds: [], fulfilledAt: null },
        fulfilled: false,
        refunded: false,
        lastPosition: position,
      })
    },
    OrderCompleted: checkFulfilled,
    OrderFulfilled: checkFulfilled,
    OrderRefunded: ({ data: { orderId, complete } }, { rows }) => {
      const row = rows.get(paidPeriodsTable, [orderId])
      if (row === undefined || !complete) return
      // A subscription may still name a fulfilled order.
      if (row.fulfilled) rows.put(paidPeriodsTable, { ...row, refunded: true })
      else rows.remove(paidPeriodsTable, [orderId])
    },
    SubscriptionStarted: checkSubscription,
    SubscriptionRenewed: checkSubscription,
    SubscriptionCancelScheduled: checkSubscription,
    SubscriptionCanceled: checkSubscription,
    SubscriptionExpired: checkSubscription,
  },
})
