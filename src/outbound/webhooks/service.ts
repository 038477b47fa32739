import { type AccountId, newId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { deliveryStream, webhooksStream } from '../../terms/streams.ts'
import {
  decideChange,
  decideDisabling,
  decideEnqueue,
  decideRedelivery,
  decideRegistration,
  decideRemoval,
  decideRotation,
  type EndpointDecision,
  type EndpointRefusal,
  previousSecretMs,
} from './decide.ts'
import type { Subscription } from './event-names.ts'
import type { Disabling } from './events.ts'
import { deliveryFold, type EndpointStatus, type EndpointsState, endpointsFold } from './fold.ts'
import { deliveryIdOf } from './reactor/enqueue.ts'
import { newSecret } from './signature.ts'
import type { WebhookValues } from './vault.ts'

export type Refused = { readonly outcome: 'refused'; readonly refusal: EndpointRefusal }
export type Done<Made = object> = {
  readonly outcome: 'done'
  /** Of the last event that was written; null when nothing was. */
  readonly position: number | null
} & Made
export type WebhookResult<Made = object> = Done<Made> | Refused

type Place = { readonly accountId: AccountId; readonly endpointId: string }

/**
 * Endpoints and what is asked for by hand. Values of the vault are kept first and make nothing exist; the account's
 * stream decides, so that ten is ten under any race. Rejects as the command runner does.
 */
export type Webhooks = {
  /** The secret is shown this once. Refusal: `webhook_limit_reached`. */
  register(
    endpoint: { readonly accountId: AccountId; readonly url: string; readonly events: Subscription },
    cause: Cause,
  ): Promise<WebhookResult<{ readonly endpointId: string; readonly secret: string; readonly atMs: number }>>
  /** Refusals: `not_found`, `webhook_limit_reached`. */
  change(
    place: Place,
    change: {
      readonly url?: string | undefined
      readonly events?: Subscription | undefined
      readonly status?: EndpointStatus | undefined
    },
    cause: Cause,
  ): Promise<WebhookResult>
  /** Nothing is sent to it any more once this resolved, but for what is on the wire. Refusal: `not_found`. */
  remove(place: Place, cause: Cause): Promise<WebhookResult>
  /** The former secret signs beside the new one for 24 hours. Refusal: `not_found`. */
  rotateSecret(
    place: Place,
    cause: Cause,
  ): Promise<WebhookResult<{ readonly secret: string; readonly previousUntilMs: number }>>
  /** Queues a `ping`, whatever the subscription. Refusal: `not_found`. */
  ping(place: Place, cause: Cause): Promise<WebhookResult<{ readonly deliveryId: string }>>
  /** Sends a finished delivery again; one on its way stays as it is. Refusal: `not_found`. */
  redeliver(
    place: Place,
    delivery: { readonly event: string; readonly resource: string },
    cause: Cause,
  ): Promise<WebhookResult>
  /** The receiver is gone, or answers nothing but errors. Does nothing for an endpoint that is not active. */
  disable(place: Place, why: Disabling, cause: Cause): Promise<void>
}

export const createWebhooks = (deps: {
  readonly runner: CommandRunner
  readonly values: WebhookValues
}): Webhooks => {
  const { runner, values } = deps

  const decideOn = async (
    name: string,
    { accountId }: Pick<Place, 'accountId'>,
    cause: Cause,
    decide: (state: EndpointsState, nowMs: number) => EndpointDecision,
  ): Promise<WebhookResult<{ readonly atMs: number }>> => {
    const stream = webhooksStream(accountId)
    const { answer, position } = await runner.run({
      name,
      streams: { endpoints: { stream, fold: endpointsFold } },
      decide: ({ endpoints }, { nowMs }) => {
        const decision = decide(endpoints, nowMs)
        const events = decision.outcome === 'decided' ? decision.events : []
        return { appends: events.length === 0 ? [] : [{ stream, events }], answer: { decision, nowMs } }
      },
      ...cause,
      account: accountId,
    })
    if (answer.decision.outcome === 'refused') return answer.decision
    return { outcome: 'done', position, atMs: answer.nowMs }
  }

  /** Decides with values that were kept for it, and drops them when it was refused. */
  const withValues = async <Made>(
    endpointId: string,
    texts: readonly string[],
    use: (valueIds: readonly string[]) => Promise<WebhookResult<Made>>,
  ): Promise<WebhookResult<Made>> => {
    const valueIds = texts.length === 0 ? [] : await values.keep(endpointId, texts)
    const result = await use(valueIds)
    if (result.outcome === 'refused' && valueIds.length > 0) await values.drop(valueIds)
    return result
  }

  const onDelivery = async (
    name: string,
    place: Place,
    delivery: { readonly event: string; readonly resource: string },
    cause: Cause,
    decide: (state: Parameters<typeof decideRedelivery>[0]) => ReturnType<typeof decideRedelivery>,
    fresh: boolean,
  ): Promise<WebhookResult> => {
    const stream = deliveryStream(place.endpointId, delivery.event, delivery.resource)
    const { answer, position } = await runner.run({
      name,
      streams: {
        endpoints: { stream: webhooksStream(place.accountId), fold: endpointsFold },
        delivery: { stream, fold: deliveryFold, ...(fresh && { assume: 'absent' as const }) },
      },
      decide: (states) => {
        if (!states.endpoints.has(place.endpointId)) return { appends: [], answer: false }
        const events = decide(states.delivery)
        return { appends: events.length === 0 ? [] : [{ stream, events }], answer: true }
      },
      ...cause,
      account: place.accountId,
    })
    return answer ? { outcome: 'done', position } : { outcome: 'refused', refusal: 'not_found' }
  }

  return {
    register: async ({ accountId, url, events }, cause) => {
      const endpointId = newId<string>('whs', accountId)
      const secret = newSecret()
      const result = await withValues(endpointId, [url, secret], ([urlId, secretId]) =>
        decideOn('register-webhook', { accountId }, cause, (state) =>
          decideRegistration(state, { endpointId, accountId, events, urlId: urlId!, secretId: secretId! }),
        ),
      )
      return result.outcome === 'done' ? { ...result, endpointId, secret } : result
    },

    change: (place, { url, events, status }, cause) =>
      withValues(place.endpointId, url === undefined ? [] : [url], ([urlId]) =>
        decideOn('change-webhook', place, cause, (state) =>
          decideChange(state, place, { events, status, urlId }),
        ),
      ),

    remove: async (place, cause) => {
      const result = await decideOn('remove-webhook', place, cause, (state) => decideRemoval(state, place))
      if (result.outcome === 'done') await values.erase(place.endpointId)
      return result
    },

    rotateSecret: async (place, cause) => {
      const secret = newSecret()
      const result = await withValues(place.endpointId, [secret], ([secretId]) =>
        decideOn('rotate-webhook-secret', place, cause, (state, nowMs) =>
          decideRotation(state, { ...place, secretId: secretId! }, nowMs),
        ),
      )
      if (result.outcome === 'refused') return result
      return { ...result, secret, previousUntilMs: result.atMs + previousSecretMs }
    },

    ping: async (place, cause) => {
      const { endpointId, accountId } = place
      const resource = newId<string>('ping')
      const deliveryId = deliveryIdOf(endpointId, 'ping', resource)
      const data = { webhookId: endpointId, message: 'This is a test of your webhook endpoint.' }
      const enqueued = { deliveryId, endpointId, accountId, event: 'ping', resource, data } as const
      const result = await onDelivery(
        'test-webhook',
        place,
        enqueued,
        cause,
        (state) => decideEnqueue(state, enqueued),
        true,
      )
      return result.outcome === 'done' ? { ...result, deliveryId } : result
    },

    redeliver: (place, delivery, cause) =>
      onDelivery('redeliver-webhook', place, delivery, cause, decideRedelivery, false),

    disable: async (place, why, cause) => {
      await decideOn('disable-webhook', place, cause, (state) => decideDisabling(state, place, why))
    },
  }
}
