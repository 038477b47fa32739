import type { DomainEvent, RecordedEvent } from '../../kernel/event.ts'
import { deriveId } from '../../kernel/ids.ts'
import { dollarsOfMicros, microsPerCent, microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
import { ownerOf } from '../../kernel/streams.ts'
import type { DepositPaymentCredited } from '../deposits/events.ts'
import { maxFailures, nextMonth, pauseIdOf, type TopupFailed, type TopupPaused } from '../deposits/topups.ts'
import { isAtGateway } from '../ledger/adjustment-reasons.ts'
import type { CustomerAdjusted, LedgerEvent, WalletAdjusted } from '../ledger/events.ts'
import { capKeyOf } from '../ledger/fold.ts'
import { type CapLevel, fallsBelow, reachedCapLevel, transactionIdOf } from '../ledger/movements.ts'
import type { Audience } from '../notices/audiences.ts'
import type { NoticePublished } from '../notices/events.ts'
import type { OrderCompleted, OrderEvent } from '../orders/events.ts'
import { reachedIdOf, type TrafficBudgetReached } from '../plans/traffic-budgets.ts'
import type { ScrapeBatchFinished } from '../scrapers/batches.ts'
import type { SubscriptionCanceled, SubscriptionExpired } from '../subscriptions/events.ts'
import type { WebhookEventName } from './events.ts'

/** The endpoints of one account, or of every account of an audience (docs/reference/api.md). */
export type Recipients = { readonly accountId: string } | { readonly audience: Audience }

/**
 * The payload of a delivery: known from the event itself, or read from the order's stream up to the event's revision.
 */
export type PayloadSource =
  | { readonly kind: 'ready'; readonly data: Readonly<Record<string, unknown>> }
  | { readonly kind: 'order'; readonly orderId: string; readonly throughRevision: number }

export type WebhookTrigger = {
  readonly event: WebhookEventName
  /** Identifies the delivery together with the event and the endpoint. There is only one such delivery. */
  readonly resource: string
  readonly to: Recipients
  readonly data: PayloadSource
}

type SubscriptionEnded = SubscriptionCanceled | SubscriptionExpired

type CauseOf<Event extends DomainEvent> = (event: RecordedEvent<Event>) => WebhookTrigger | null

type OrderReference = { readonly orderId: string; readonly accountId: string }

const orderTrigger = (
  event: WebhookEventName,
  { orderId, accountId }: OrderReference,
  throughRevision: number,
): WebhookTrigger => ({
  event,
  resource: orderId,
  to: { accountId },
  data: { kind: 'order', orderId, throughRevision },
})

const orderCause =
  <Event extends Extract<OrderEvent, { data: OrderReference }>>(
    name: WebhookEventName,
    shouldTrigger: (event: RecordedEvent<Event>) => boolean = () => true,
  ): CauseOf<Event> =>
  (event) =>
    shouldTrigger(event) ? orderTrigger(name, event.data, event.revision) : null

const completedCause: CauseOf<OrderCompleted> = ({ data, revision }) =>
  orderTrigger('order.fulfilled', data.order, revision)

const subscriptionCause =
  (name: WebhookEventName): CauseOf<SubscriptionEnded> =>
  ({ data: { accountId, ...data } }) => ({
    event: name,
    resource: data.subscriptionId,
    to: { accountId },
    data: {
      kind: 'ready',
      data: {
        subscriptionId: data.subscriptionId,
        productId: data.productId,
        planId: data.planId,
        status: data.status,
        reason: data.reason,
        currentPeriodEnd: data.currentPeriodEnd,
      },
    },
  })

const noticeCause: CauseOf<NoticePublished> = ({ data: { noticeId, title, kind, audience, accountId } }) => ({
  event: 'announcement.published',
  resource: noticeId,
  to: accountId === undefined ? { audience } : { accountId },
  data: { kind: 'ready', data: { announcementId: noticeId, title, kind, audience } },
})

const batchCause: CauseOf<ScrapeBatchFinished> = ({
  data: { accountId, batchId, chargedMicros, canceled, canceledCalls = 0, ...data },
}) => ({
  event: 'scrape.batch.finished',
  resource: batchId,
  to: { accountId },
  data: {
    kind: 'ready',
    data: {
      batchId,
      status: canceled ? 'canceled' : 'finished',
      ...data,
      canceledCalls,
      chargedUsd: dollarsOfMicros(chargedMicros),
    },
  },
})

/** A manual chargeback or refund names no deposit, and sends no webhook. */
const reversalCause: CauseOf<WalletAdjusted | CustomerAdjusted> = ({ id, stream, data }) => {
  const { reason, depositId, reference, amountMicros, owedAfterMicros = 0 } = data
  return depositId !== undefined && isAtGateway(reason)
    ? {
        event: 'deposit.reversed',
        resource: transactionIdOf(id),
        to: { accountId: ownerOf(stream) },
        data: {
          kind: 'ready',
          data: {
            depositId,
            customerId: 'customerId' in data ? data.customerId : null,
            reason,
            reference,
            amountCents: Math.trunc(amountMicros / microsPerCent),
            amountMicros,
            owedCents: microsToCentsCeil(owedAfterMicros),
          },
        },
      }
    : null
}

const latePaymentCause: CauseOf<DepositPaymentCredited> = ({ data, metadata }) => {
  const { accountId, depositId, paymentId, amountMicros, late } = data
  return late === undefined
    ? null
    : {
        event: 'deposit.late_payment',
        resource: `${depositId}.${deriveId('pay', [paymentId])}`,
        to: { accountId },
        data: {
          kind: 'ready',
          data: {
            depositId,
            ...late,
            amountCents: Math.trunc(amountMicros / microsPerCent),
            amountMicros,
            currency: 'USD',
            creditedAt: metadata.recordedAt,
          },
        },
      }
}

const topupCause: CauseOf<TopupFailed> = ({
  data: { accountId, topupId, amountCents, reason, failures },
}) => ({
  event: 'wallet.topup_failed',
  resource: topupId,
  to: { accountId },
  data: {
    kind: 'ready',
    data: { topupId, amountCents, currency: 'USD', reason, failures, turnedOff: failures >= maxFailures },
  },
})

const pauseCause: CauseOf<TopupPaused> = ({ id, data: { accountId, reason, owedCents }, metadata }) => ({
  event: 'wallet.topup_paused',
  resource: pauseIdOf(id),
  to: { accountId },
  data: {
    kind: 'ready',
    data: {
      pauseId: pauseIdOf(id),
      reason,
      until: reason === 'monthly_maximum' ? nextMonth(Date.parse(metadata.recordedAt)) : null,
      owedCents,
      currency: 'USD',
    },
  },
})

/** The customer's own id at the reseller is in no event. It is added when the delivery is queued. */
const budgetCause: CauseOf<TrafficBudgetReached> = (event) => {
  const { accountId, budgetId, scope, planId, lineSet, whitelistEntryId, customerId } = event.data
  const { period, percent, usedBytes, limitBytes, countedFrom, countedUntil } = event.data
  return {
    event: customerId === null ? 'traffic.budget_reached' : 'customer.traffic',
    resource: reachedIdOf(event),
    to: { accountId },
    data: {
      kind: 'ready',
      data: {
        budgetId,
        scope,
        planId,
        lineSet,
        whitelistEntryId,
        ...(customerId !== null && { customerId }),
        period,
        percent,
        usedBytes,
        limitBytes,
        countedFrom,
        resetsAt: countedUntil,
      },
    },
  }
}

/**
 * The trigger of `wallet.low_balance`; null if the event does not take the available balance below the threshold. The
 * resource is the transaction, so each fall is one delivery.
 */
export const lowBalanceTrigger = (
  event: RecordedEvent<LedgerEvent>,
  thresholdMicros: number,
): WebhookTrigger | null => {
  if (!fallsBelow(event, thresholdMicros)) return null
  const transactionId = transactionIdOf(event.id)
  return {
    event: 'wallet.low_balance',
    resource: transactionId,
    to: { accountId: ownerOf(event.stream) },
    data: {
      kind: 'ready',
      data: {
        transactionId,
        thresholdCents: microsToCentsFloor(thresholdMicros),
        balanceCents: microsToCentsFloor(event.data.availableAfterMicros),
        currency: 'USD',
      },
    },
  }
}

type CapSpending = Extract<LedgerEvent, { type: 'WalletDebited' | 'CustomerCharged' | 'FundsHeld' }>

const capSpending: ReadonlySet<string> = new Set<CapSpending['type']>([
  'WalletDebited',
  'CustomerCharged',
  'FundsHeld',
])

/** A trigger of `key.cap_reached` and the part of the cap that was reached. */
export type CapTrigger = {
  readonly capKeyId: string
  /** In UTC: `2026-11-21`. */
  readonly day: string
  readonly level: CapLevel
  readonly trigger: WebhookTrigger
}

/**
 * The trigger of `key.cap_reached` for the highest part of the cap that is spent after this debit or hold; null: none. The
 * receiver gets the first of each key, day and part. Rolled keys spend under one cap, so they count as one key.
 */
export const capTriggerOf = (event: RecordedEvent): CapTrigger | null => {
  if (!capSpending.has(event.type)) return null
  const { data } = event as RecordedEvent<CapSpending>
  const { keyCap } = data
  const key = 'order' in data ? data.order : data
  const capKeyId = capKeyOf(key)
  if (keyCap === undefined || capKeyId === null) return null
  const day = event.metadata.recordedAt.slice(0, 10)
  const level = reachedCapLevel(keyCap)
  if (level === null) return null
  return {
    capKeyId,
    day,
    level,
    trigger: {
      event: 'key.cap_reached',
      resource: `${capKeyId}.${day}.${level}`,
      to: { accountId: ownerOf(event.stream) },
      data: {
        kind: 'ready',
        data: {
          keyId: key.keyId,
          day,
          levelPct: level,
          capCents: keyCap.capCents,
          capCovers: keyCap.covers,
          spentCents: microsToCentsCeil(keyCap.spentMicros),
          currency: 'USD',
        },
      },
    },
  }
}

/**
 * The log events that trigger webhooks (docs/reference/api.md, "Webhooks and notices"): stored type → recipients and
 * payload. It is a map by type, so that each of the thousands of other events per second costs one look-up.
 *
 * Not in it: `plan.low_traffic`, which also goes to endpoints that are registered later (`projections/plans.ts`);
 * `wallet.low_balance` and `key.cap_reached`, which depend on earlier events; `ping`, which its request enqueues.
 */
export const webhookTriggers: ReadonlyMap<string, (event: RecordedEvent) => WebhookTrigger | null> = new Map(
  Object.entries({
    OrderCompleted: completedCause,
    OrderFulfilled: orderCause('order.fulfilled'),
    OrderFailed: orderCause('order.failed'),
    OrderHeld: orderCause('order.wallet_short'),
    OrderCanceled: orderCause('order.canceled'),
    DepositPaymentCredited: latePaymentCause,
    // A partly refunded order is refunded when nothing of it is left.
    OrderRefunded: orderCause<Extract<OrderEvent, { type: 'OrderRefunded' }>>(
      'order.refunded',
      ({ data }) => data.complete,
    ),
    SubscriptionCanceled: subscriptionCause('subscription.canceled'),
    SubscriptionExpired: subscriptionCause('subscription.expired'),
    NoticePublished: noticeCause,
    ScrapeBatchFinished: batchCause,
    WalletAdjusted: reversalCause,
    CustomerAdjusted: reversalCause,
    TopupFailed: topupCause,
    TopupPaused: pauseCause,
    TrafficBudgetReached: budgetCause,
  }) as [string, (event: RecordedEvent) => WebhookTrigger | null][],
)
