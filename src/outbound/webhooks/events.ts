import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { Subscription, WebhookEventName } from './event-names.ts'

/**
 * `webhooks-{accountId}`: the endpoints of one account. URLs and secrets stand in the vault under
 * ids of their own; a new one gets a new id, so that a fact never changes what it names.
 */
export type EndpointRegistered = DomainEvent<
  'EndpointRegistered',
  {
    readonly endpointId: string
    readonly accountId: string
    readonly events: Subscription
    readonly urlId: string
    readonly secretId: string
  }
>
/** What was changed; what is left out stays. */
export type EndpointChanged = DomainEvent<
  'EndpointChanged',
  {
    readonly endpointId: string
    readonly accountId: string
    readonly events?: Subscription
    readonly urlId?: string
    /** The former URL, where there is a new one: it is erased soon. */
    readonly previousUrlId?: string
    readonly status?: 'active' | 'disabled'
  }
>
/** The service stopped sending: the receiver answered 410 Gone, or every attempt of days failed. */
export type EndpointDisabled = DomainEvent<
  'EndpointDisabled',
  {
    readonly endpointId: string
    readonly accountId: string
    readonly reason: 'gone' | 'failing'
    /** When the first of the attempts failed, ISO 8601; with `failing` only. An older release left it out. */
    readonly failingSince?: string
  }
>
/** Why an endpoint is disabled. */
export type Disabling =
  | { readonly reason: 'gone' }
  | { readonly reason: 'failing'; readonly failingSince: string }
export type EndpointRemoved = DomainEvent<
  'EndpointRemoved',
  { readonly endpointId: string; readonly accountId: string }
>
/** The former secret signs beside the new one until `previousUntil` (ISO 8601). */
export type SecretRotated = DomainEvent<
  'SecretRotated',
  {
    readonly endpointId: string
    readonly accountId: string
    readonly secretId: string
    readonly previousSecretId: string
    readonly previousUntil: string
  }
>

export type EndpointEvent =
  | EndpointRegistered
  | EndpointChanged
  | EndpointDisabled
  | EndpointRemoved
  | SecretRotated

/**
 * `delivery-{endpointId}.{event}.{resourceId}`, made with `noStream`: one event per endpoint per event per resource for
 * ever. `data` is the payload as of the transition, less what only the vault may hold (a plan's label).
 */
export type WebhookEnqueued = DomainEvent<
  'WebhookEnqueued',
  {
    readonly deliveryId: string
    readonly endpointId: string
    readonly accountId: string
    readonly event: WebhookEventName
    readonly resource: string
    readonly data: Readonly<Record<string, unknown>>
  }
>
/** Somebody asked for the same event once more: it is sent under the same id, with attempts of its own. */
export type WebhookRequeued = DomainEvent<
  'WebhookRequeued',
  WebhookEnqueued['data'] & {
    /** 2 for the first redelivery, and so on. */
    readonly round: number
  }
>
type Outcome = { readonly deliveryId: string; readonly endpointId: string; readonly attempts: number }
export type DeliverySucceeded = DomainEvent<'DeliverySucceeded', Outcome & { readonly status: number }>
/** Ten attempts failed, or the receiver answered 410 Gone, or the target is refused for good. */
export type DeliveryAbandoned = DomainEvent<
  'DeliveryAbandoned',
  Outcome & { readonly reason: 'attempts_exhausted' | 'gone' }
>
export type DeliveryCanceled = DomainEvent<
  'DeliveryCanceled',
  Outcome & { readonly reason: 'endpoint_removed' | 'endpoint_disabled' }
>

export type DeliveryOutcome = DeliverySucceeded | DeliveryAbandoned | DeliveryCanceled
export type DeliveryEvent = WebhookEnqueued | WebhookRequeued | DeliveryOutcome
