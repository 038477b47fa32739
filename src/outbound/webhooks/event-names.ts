/** Every event that an endpoint can subscribe to, in the order of docs/http-api.md, "Webhooks and notices". */
export const webhookEvents = [
  'order.fulfilled',
  'order.failed',
  'order.refunded',
  'subscription.canceled',
  'subscription.expired',
  'plan.low_traffic',
  'announcement.published',
  'scrape.batch.finished',
  'ping',
] as const

export type WebhookEventName = (typeof webhookEvents)[number]

/**
 * What only those get who name it: it came after receivers of "all" were written, and tells of work that is asked for
 * by who waits for it.
 */
const onlyWhenNamed: ReadonlySet<WebhookEventName> = new Set<WebhookEventName>(['scrape.batch.finished'])

/** What an endpoint is told of that names no events. */
export const usualEvents: readonly WebhookEventName[] = webhookEvents.filter(
  (name) => !onlyWhenNamed.has(name),
)

/** Null subscribes to the usual events, also to those that a later version adds. */
export type Subscription = readonly WebhookEventName[] | null

export const isSubscribed = (subscription: Subscription, event: WebhookEventName): boolean =>
  subscription === null ? !onlyWhenNamed.has(event) : subscription.includes(event)
