import { isoTime } from '../../kernel/clock.ts'
import { type Decision, decided, refused } from '../../kernel/decider.ts'
import type {
  DeliveryEvent,
  DisablingReason,
  EndpointEvent,
  Subscription,
  WebhookEnqueued,
} from './events.ts'
import type { DeliveryState, EndpointStatus, EndpointsState } from './fold.ts'

/** The most active endpoints of one account (docs/reference/api.md, "Webhooks and notices"). */
export const maxActiveEndpoints = 10

/** Disabled endpoints count too, so that an account cannot collect any number of them. */
export const maxEndpoints = 100

/** How long the former secret also signs after a rotation, milliseconds (docs/reference/api.md, "Webhooks and notices"). */
export const previousSecretMs = 24 * 60 * 60 * 1000

export type EndpointRefusal = 'webhook_limit_reached' | 'not_found'

export type EndpointDecision = Decision<EndpointEvent, EndpointRefusal>

const isFull = (state: EndpointsState): boolean =>
  state.count(({ status }) => status === 'active') >= maxActiveEndpoints

export type EndpointRef = { readonly endpointId: string; readonly accountId: string }

/** Refusal: `webhook_limit_reached`. */
export const decideRegistration = (
  state: EndpointsState,
  endpoint: EndpointRef & {
    readonly events: Subscription
    readonly urlId: string
    readonly secretId: string
    readonly urlCommitment?: string
    readonly secretCommitment?: string
  },
): EndpointDecision =>
  isFull(state) || state.size >= maxEndpoints
    ? refused('webhook_limit_reached')
    : decided({ type: 'EndpointRegistered', data: { ...endpoint } })

export type EndpointChange = {
  readonly events?: Subscription | undefined
  readonly urlId?: string | undefined
  /** Belongs to the new URL. */
  readonly urlCommitment?: string
  readonly status?: EndpointStatus | undefined
}

const sameEvents = (a: Subscription, b: Subscription): boolean => JSON.stringify(a) === JSON.stringify(b)

/**
 * Refusals: `not_found`, and `webhook_limit_reached` if there are ten active endpoints and a disabled one is enabled.
 */
export const decideChange = (
  state: EndpointsState,
  { endpointId, accountId }: EndpointRef,
  { events, urlId, urlCommitment, status }: EndpointChange,
): EndpointDecision => {
  const endpoint = state.get(endpointId)
  if (!endpoint) return refused('not_found')
  const enabled = status === 'active' && endpoint.status === 'disabled'
  if (enabled && isFull(state)) return refused('webhook_limit_reached')
  const change = {
    ...(events !== undefined && !sameEvents(events, endpoint.events) && { events }),
    ...(urlId !== undefined && {
      urlId,
      previousUrlId: endpoint.urlId,
      ...(urlCommitment !== undefined && { urlCommitment }),
    }),
    ...(status !== undefined && status !== endpoint.status && { status }),
  }
  if (Object.keys(change).length === 0) return decided()
  return decided({ type: 'EndpointChanged', data: { endpointId, accountId, ...change } })
}

/** Refusal: `not_found`. */
export const decideRemoval = (state: EndpointsState, ref: EndpointRef): EndpointDecision =>
  state.has(ref.endpointId) ? decided({ type: 'EndpointRemoved', data: { ...ref } }) : refused('not_found')

/** Disables an endpoint, so that nothing more is sent. A disabled or removed endpoint does not change. */
export const decideDisabling = (
  state: EndpointsState,
  ref: EndpointRef,
  disabling: DisablingReason,
): EndpointDecision =>
  state.get(ref.endpointId)?.status === 'active'
    ? decided({ type: 'EndpointDisabled', data: { ...ref, ...disabling } })
    : decided()

/** Refusal: `not_found`. */
export const decideRotation = (
  state: EndpointsState,
  { secretId, ...ref }: EndpointRef & { readonly secretId: string; readonly secretCommitment?: string },
  nowMs: number,
): EndpointDecision => {
  const endpoint = state.get(ref.endpointId)
  if (!endpoint) return refused('not_found')
  return decided({
    type: 'SecretRotated',
    data: {
      ...ref,
      secretId,
      previousSecretId: endpoint.secretId,
      previousUntil: isoTime(nowMs + previousSecretMs),
    },
  })
}

/** One event per endpoint, event and resource. A delivery that was enqueued before is not enqueued again. */
export const decideEnqueue = (
  state: DeliveryState,
  enqueue: WebhookEnqueued['data'],
): readonly DeliveryEvent[] => (state ? [] : [{ type: 'WebhookEnqueued', data: { ...enqueue } }])

/**
 * Sends a finished delivery again. A delivery in progress does not change.
 * @throws if the delivery was never enqueued
 */
export const decideRedelivery = (state: DeliveryState): readonly DeliveryEvent[] => {
  if (!state) throw new Error('a delivery that was never enqueued cannot be sent again')
  if (state.open) return []
  return [{ type: 'WebhookRequeued', data: { ...state.enqueued, round: state.round + 1 } }]
}
