import type { OrderEvent } from '../src/market/orders/events.ts'
import type { SubscriptionEvent } from '../src/market/subscriptions/events.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import { type Interval, rentalLeadMs } from '../src/terms/interval.ts'
import type { Target } from '../src/terms/order-details.ts'
import type { ReadModel, Rows, Table } from './engine/read-model.ts'

/** One subscription. Past due is computed at read. */
export type SubscriptionRow = {
  readonly subscription_id: string
  readonly account_id: string
  readonly product_id: string
  readonly quantity: number
  readonly interval: Interval
  readonly target: Target | null
  /** Of the period that was paid last. */
  readonly order_id: string
  readonly plan_id: string | null
  readonly proxy_ids: readonly string[]
  readonly amount_cents: number
  readonly started_at: string
  readonly current_period_start: string
  readonly current_period_end: string
  /** When the next period is to be paid, or the end that was asked for comes. */
  readonly due_at: string
  readonly cancel_at_period_end: boolean
  readonly ended_as: 'canceled' | 'expired' | null
  readonly ended_reason: string | null
  readonly ended_at: string | null
}

/** A period that is paid while its subscription's stream does not say so yet. */
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
  indexes: ['account_id, started_at desc, subscription_id desc', 'due_at where ended_as is null'],
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

/** Addresses are paid a day before their end, see `dueAtMs` in src/market/subscriptions/decide.ts. */
const dueAt = (end: string, target: Target | null): string =>
  target === null ? end : new Date(Date.parse(end) - rentalLeadMs).toISOString()

/** What an order's event does to the open periods. On a log whose items land whole, no row outlives its batch. */
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

/** Subscriptions, and the paid periods that a crash on a log without atomic items left without theirs. */
export const subscriptions: ReadModel = {
  name: 'subscriptions',
  version: 2,
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
