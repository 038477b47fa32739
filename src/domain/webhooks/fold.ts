import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../../kernel/decider.ts'
import type { DeliveryEvent, EndpointEvent, Subscription, WebhookEnqueued } from './events.ts'

export type EndpointStatus = 'active' | 'disabled'

export type Endpoint = {
  readonly status: EndpointStatus
  readonly events: Subscription
  readonly urlId: string
  readonly secretId: string
  /** The previous secret, and until when it signs too, ISO 8601; null: there was none. */
  readonly previous: { readonly secretId: string; readonly until: string } | null
}

/** The endpoints of one account by id, without removed ones. */
export type EndpointsState = ImmutableMap<string, Endpoint>

const evolveEndpoints: Fold<EndpointsState, EndpointEvent>['evolve'] = (state, event) => {
  const { endpointId } = event.data
  if (event.type === 'EndpointRegistered') {
    const { events, urlId, secretId } = event.data
    return state.set(endpointId, { status: 'active', events, urlId, secretId, previous: null })
  }
  const endpoint = state.get(endpointId)
  if (!endpoint) throw new Error(`${event.type} on the endpoint ${endpointId}, which is not there`)
  switch (event.type) {
    case 'EndpointChanged': {
      const { events = endpoint.events, urlId = endpoint.urlId, status = endpoint.status } = event.data
      return state.set(endpointId, { ...endpoint, events, urlId, status })
    }
    case 'EndpointDisabled':
      return state.set(endpointId, { ...endpoint, status: 'disabled' })
    case 'EndpointRemoved':
      return state.delete(endpointId)
    case 'SecretRotated': {
      const { secretId, previousSecretId, previousUntil } = event.data
      const previous = { secretId: previousSecretId, until: previousUntil }
      return state.set(endpointId, { ...endpoint, secretId, previous })
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown endpoint event ${JSON.stringify(unknown)}`)
    }
  }
}

/** Whether a cached state agrees with the data of its last event. */
const endpointsAgree = (state: EndpointsState, { type, data }: EndpointEvent): boolean => {
  const endpoint = state.get(data.endpointId)
  if (type === 'EndpointRemoved') return endpoint === undefined
  if (!endpoint) return false
  switch (type) {
    case 'EndpointRegistered':
      return endpoint.urlId === data.urlId && endpoint.secretId === data.secretId
    case 'EndpointChanged':
      return (
        (data.urlId ?? endpoint.urlId) === endpoint.urlId &&
        (data.status ?? endpoint.status) === endpoint.status
      )
    case 'EndpointDisabled':
      return endpoint.status === 'disabled'
    case 'SecretRotated':
      return (
        endpoint.secretId === data.secretId &&
        endpoint.previous?.secretId === data.previousSecretId &&
        endpoint.previous.until === data.previousUntil
      )
    default:
      return type satisfies never
  }
}

/** The state of `webhooks-{accountId}`: at most 100 endpoints, and any number of events. */
export const endpointsFold: Fold<EndpointsState, EndpointEvent> = {
  name: 'webhooks',
  version: 2,
  initial: ImmutableMap(),
  evolve: evolveEndpoints,
  snapshot: {
    toText: (state) => JSON.stringify([...state]),
    fromText: (text) => ImmutableMap(JSON.parse(text) as [string, Endpoint][]),
    agrees: (state, event) => endpointsAgree(state, event as EndpointEvent),
    entries: (state) => state.size,
  },
}

/** One delivery: its last round, and whether the outcome is open. Null before it is enqueued. */
export type DeliveryState = {
  readonly enqueued: WebhookEnqueued['data']
  readonly round: number
  readonly open: boolean
} | null

const evolveDelivery: Fold<DeliveryState, DeliveryEvent>['evolve'] = (state, event) => {
  if (event.type === 'WebhookEnqueued') return { enqueued: event.data, round: 1, open: true }
  if (!state) throw new Error(`${event.type} of a delivery that was never enqueued`)
  switch (event.type) {
    case 'WebhookRequeued':
      return { ...state, round: event.data.round, open: true }
    case 'DeliverySucceeded':
    case 'DeliveryAbandoned':
    case 'DeliveryCanceled':
      return { ...state, open: false }
    default: {
      const unknown: never = event
      throw new Error(`unknown delivery event ${JSON.stringify(unknown)}`)
    }
  }
}

export const deliveryFold: Fold<DeliveryState, DeliveryEvent> = {
  name: 'delivery',
  version: 1,
  initial: null,
  evolve: evolveDelivery,
}
