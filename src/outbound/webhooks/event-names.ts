/** Every event that an endpoint can subscribe to, in the order of docs/http-api.md, "Webhooks and notices". */
export const webhookEvents = [
  'order.fulfilled',
  'order.failed',
  'order.refunded',
  'subscription.canceled',
  'subscription.expired',
  'plan.low_traffic',
  'announcement.published',
  'ping',
] as const

export type WebhookEventName = (typeof webhookEvents)[number]

/** Null subscribes to every event, also to those that a later version adds. */
export type Subscription = readonly WebhookEventName[] | null

export const isSubscribed = (subscription: Subscription, event: WebhookEventName): boolean =>
  subscription === null || subscription.includes(event)
