import type { DomainEvent, RecordedEvent } from '../../kernel/event.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import type { Audience } from '../notices/audiences.ts'
import type { NoticePublished } from '../notices/events.ts'
import type { OrderCompleted, OrderEvent } from '../orders/events.ts'
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
  data: { accountId, batchId, chargedMicros, canceled, ...data },
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
      chargedUsd: dollarsOfMicros(chargedMicros),
    },
  },
})

/**
 * The log events that trigger webhooks (docs/reference/api.md, "Webhooks and notices"): stored type → recipients and
 * payload. It is a map by type, so that each of the thousands of other events per second costs one look-up.
 *
 * `plan.low_traffic` is not here, because it also goes to endpoints that are registered later: see
 * `projections/plans.ts`. `ping` is enqueued by its request.
 */
export const webhookTriggers: ReadonlyMap<string, (event: RecordedEvent) => WebhookTrigger | null> = new Map(
  Object.entries({
    OrderCompleted: completedCause,
    OrderFulfilled: orderCause('order.fulfilled'),
    OrderFailed: orderCause('order.failed'),
    // A partly refunded order is refunded when nothing of it is left.
    OrderRefunded: orderCause<Extract<OrderEvent, { type: 'OrderRefunded' }>>(
      'order.refunded',
      ({ data }) => data.complete,
    ),
    SubscriptionCanceled: subscriptionCause('subscription.canceled'),
    SubscriptionExpired: subscriptionCause('subscription.expired'),
    NoticePublished: noticeCause,
    ScrapeBatchFinished: batchCause,
  }) as [string, (event: RecordedEvent) => WebhookTrigger | null][],
)
