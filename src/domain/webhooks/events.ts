import { defineEvent, type EventOf, type RecordedEvent } from '../../kernel/event.ts'
import {
  anyId,
  commitment,
  id,
  integer,
  list,
  objectOf,
  oneOf,
  orAbsent,
  orNull,
  text,
  time,
} from '../../kernel/event-fields.ts'

/** Every event that an endpoint can subscribe to, in the order of docs/reference/api.md, "Webhooks and notices". */
export const webhookEvents = [
  'order.fulfilled',
  'order.failed',
  'order.refunded',
  'order.wallet_short',
  'order.canceled',
  'subscription.canceled',
  'subscription.expired',
  'plan.low_traffic',
  'wallet.low_balance',
  'key.cap_reached',
  'announcement.published',
  'scrape.batch.finished',
  'deposit.reversed',
  'deposit.late_payment',
  'wallet.topup_failed',
  'wallet.topup_paused',
  'traffic.budget_reached',
  'customer.traffic',
  'ping',
] as const

export type WebhookEventName = (typeof webhookEvents)[number]

/**
 * The events that only endpoints which name them receive. They were added when there were receivers of "all" events
 * already.
 */
const onlyWhenNamed: ReadonlySet<WebhookEventName> = new Set<WebhookEventName>([
  'order.wallet_short',
  'order.canceled',
  'scrape.batch.finished',
  'deposit.reversed',
  'deposit.late_payment',
  'wallet.topup_failed',
  'wallet.topup_paused',
  'traffic.budget_reached',
  'customer.traffic',
])

/** The events of an endpoint that names none. */
export const defaultEvents: readonly WebhookEventName[] = webhookEvents.filter(
  (name) => !onlyWhenNamed.has(name),
)

/** Null subscribes to the default events, including those that a later version adds. */
export type Subscription = readonly WebhookEventName[] | null

export const isSubscribed = (subscription: Subscription, event: WebhookEventName): boolean =>
  subscription === null ? !onlyWhenNamed.has(event) : subscription.includes(event)

/**
 * `webhooks-{accountId}`: the endpoints of one account. URLs and secrets are in the vault under ids of their own. A new
 * URL or secret gets a new id, so the value behind an event's id never changes.
 */
const ofEndpoints = 'webhooks-{account}'

const endpointId = anyId('the endpoint')
const idFields = { endpointId, accountId: id('acc', 'the account of the endpoint') }
const events = orNull(
  list(
    oneOf(webhookEvents, 'an event'),
    'its events; null: the default events, including those of later versions',
  ),
)
const urlId = text('names the URL in the vault')
const secretId = text('names the secret in the vault')
const urlCommitment = commitment('the sealed URL')
const secretCommitment = commitment('the sealed secret')

export const endpointRegistered = defineEvent('EndpointRegistered', {
  stream: ofEndpoints,
  means: 'A receiver was registered for events.',
  fields: { ...idFields, events, urlId, secretId, urlCommitment, secretCommitment },
})
export type EndpointRegistered = EventOf<typeof endpointRegistered>

export const endpointChanged = defineEvent('EndpointChanged', {
  stream: ofEndpoints,
  means: 'The changed fields; omitted ones stay.',
  fields: {
    ...idFields,
    events: orAbsent(events),
    urlId: orAbsent(urlId),
    urlCommitment,
    previousUrlId: orAbsent(text('the former URL, if there is a new one: it is erased soon')),
    status: orAbsent(oneOf(['active', 'disabled'], 'whether it is active')),
  },
})
export type EndpointChanged = EventOf<typeof endpointChanged>

export const endpointDisabled = defineEvent('EndpointDisabled', {
  stream: ofEndpoints,
  means:
    'The service disabled the endpoint: the receiver answered 410 Gone, or every attempt of some days failed.',
  fields: {
    ...idFields,
    reason: oneOf(['gone', 'failing'], 'why'),
    failingSince: orAbsent(
      time('when the first of the attempts failed; with `failing` only, and not from an older release'),
    ),
  },
})
export type EndpointDisabled = EventOf<typeof endpointDisabled>

export type DisablingReason =
  | { readonly reason: 'gone' }
  | { readonly reason: 'failing'; readonly failingSince: string }

export const endpointRemoved = defineEvent('EndpointRemoved', {
  stream: ofEndpoints,
  means: 'The endpoint was removed.',
  fields: idFields,
})
export type EndpointRemoved = EventOf<typeof endpointRemoved>

export const secretRotated = defineEvent('SecretRotated', {
  stream: ofEndpoints,
  means: 'The signing secret was replaced.',
  fields: {
    ...idFields,
    secretId,
    secretCommitment,
    previousSecretId: text('the former secret'),
    previousUntil: time("the end of the former secret's signatures"),
  },
})
export type SecretRotated = EventOf<typeof secretRotated>

export const endpointEventDefinitions = [
  endpointRegistered,
  endpointChanged,
  endpointDisabled,
  endpointRemoved,
  secretRotated,
] as const
export type EndpointEvent = EventOf<(typeof endpointEventDefinitions)[number]>

/**
 * `delivery-{endpointId}.{event}.{resourceId}`. It is created with `noStream`, so there is one delivery per endpoint,
 * event and resource.
 */
const ofDelivery = 'delivery-{endpoint}.{event}.{resource}'

const deliveryId = anyId('the delivery')
const enqueued = {
  deliveryId,
  ...idFields,
  event: oneOf(webhookEvents, 'the event'),
  resource: text('the id of the order, plan or other resource'),
  data: objectOf<Readonly<Record<string, unknown>>>(
    "the payload as of the transition, less what only the vault may hold (a plan's label); docs/guides/webhooks.md",
  ),
}

export const webhookEnqueued = defineEvent('WebhookEnqueued', {
  stream: ofDelivery,
  means: 'A delivery is due: once per endpoint, event and resource.',
  fields: enqueued,
})
export type WebhookEnqueued = EventOf<typeof webhookEnqueued>

export const webhookRequeued = defineEvent('WebhookRequeued', {
  stream: ofDelivery,
  means: 'A redelivery was requested: it has the same id and its own attempts.',
  fields: { ...enqueued, round: integer('rounds', 'above 0', '2 for the first redelivery, and so on') },
})
export type WebhookRequeued = EventOf<typeof webhookRequeued>

const outcome = {
  deliveryId,
  endpointId,
  attempts: integer('attempts', '0 or more', 'the number of attempts'),
}

export const deliverySucceeded = defineEvent('DeliverySucceeded', {
  stream: ofDelivery,
  means: 'The receiver accepted the delivery.',
  fields: { ...outcome, status: integer('HTTP status', 'above 0', 'the status of the response') },
})
export type DeliverySucceeded = EventOf<typeof deliverySucceeded>

export const deliveryAbandoned = defineEvent('DeliveryAbandoned', {
  stream: ofDelivery,
  means: 'Ten attempts failed, or the receiver answered 410 Gone, or the target is permanently refused.',
  fields: { ...outcome, reason: oneOf(['attempts_exhausted', 'gone'], 'why') },
})
export type DeliveryAbandoned = EventOf<typeof deliveryAbandoned>

export const deliveryCanceled = defineEvent('DeliveryCanceled', {
  stream: ofDelivery,
  means: 'Its endpoint receives no more deliveries.',
  fields: { ...outcome, reason: oneOf(['endpoint_removed', 'endpoint_disabled'], 'why') },
})
export type DeliveryCanceled = EventOf<typeof deliveryCanceled>

export const outcomeEventDefinitions = [deliverySucceeded, deliveryAbandoned, deliveryCanceled] as const
export type DeliveryOutcome = EventOf<(typeof outcomeEventDefinitions)[number]>

export const deliveryEventDefinitions = [
  webhookEnqueued,
  webhookRequeued,
  ...outcomeEventDefinitions,
] as const
export type DeliveryEvent = EventOf<(typeof deliveryEventDefinitions)[number]>

export type FinishedStatus = 'succeeded' | 'abandoned' | 'canceled'
export type DeliveryStatus = 'pending' | FinishedStatus

const statusOf: Readonly<Record<DeliveryOutcome['type'], FinishedStatus>> = {
  DeliverySucceeded: 'succeeded',
  DeliveryAbandoned: 'abandoned',
  DeliveryCanceled: 'canceled',
}

export const outcomeTypes: readonly string[] = Object.keys(statusOf)

export const isOutcome = (event: RecordedEvent): event is RecordedEvent<DeliveryOutcome> =>
  Object.hasOwn(statusOf, event.type)

export const finishedStatus = (type: DeliveryOutcome['type']): FinishedStatus => statusOf[type]
