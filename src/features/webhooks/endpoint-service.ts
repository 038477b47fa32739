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
} from '../../domain/webhooks/decide.ts'
import type { DeliveryEvent, DisablingReason, Subscription } from '../../domain/webhooks/events.ts'
import {
  type DeliveryState,
  deliveryFold,
  type EndpointStatus,
  type EndpointsState,
  endpointsFold,
} from '../../domain/webhooks/fold.ts'
import { decided, refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import { deliveryStream, webhooksStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, type Result } from '../../platform/commands/command.ts'
import { newSecret } from './deliver.ts'
import { deliveryIdOf } from './enqueue.ts'
import type { StoredValue, WebhookValues } from './webhook-vault.ts'

export type WebhookResult<Made = object> = Result<EndpointRefusal, Made>

export type EndpointOwner = { readonly accountId: AccountId; readonly endpointId: string }

/** Missing fields do not change. */
export type EndpointUpdate = {
  readonly url?: string | undefined
  readonly events?: Subscription | undefined
  readonly status?: EndpointStatus | undefined
}

/**
 * Endpoints and manual requests. URLs and secrets are stored in the vault first, where they have no effect. The
 * account's stream decides, so that no race exceeds the limit of ten. Rejects as the command runner does.
 */
export type Webhooks = {
  /** The secret is returned only here. Refusal: `webhook_limit_reached`. */
  register(
    endpoint: { readonly accountId: AccountId; readonly url: string; readonly events: Subscription },
    cause: Cause,
  ): Promise<WebhookResult<{ readonly endpointId: string; readonly secret: string }>>
  /** Refusals: `not_found`, `webhook_limit_reached`. */
  change(endpointOwner: EndpointOwner, change: EndpointUpdate, cause: Cause): Promise<WebhookResult>
  /** After it resolves nothing more is sent, except for requests in flight. Refusal: `not_found`. */
  remove(endpointOwner: EndpointOwner, cause: Cause): Promise<WebhookResult>
  /** The former secret signs together with the new one for 24 hours. Refusal: `not_found`. */
  rotateSecret(
    endpointOwner: EndpointOwner,
    cause: Cause,
  ): Promise<WebhookResult<{ readonly secret: string; readonly previousUntilMs: number }>>
  /** Queues a `ping`, whatever the subscription. Refusal: `not_found`. */
  ping(endpointOwner: EndpointOwner, cause: Cause): Promise<WebhookResult<{ readonly deliveryId: string }>>
  /** Queues a finished delivery again. A pending delivery does not change. Refusal: `not_found`. */
  redeliver(
    endpointOwner: EndpointOwner,
    delivery: { readonly event: string; readonly resource: string },
    cause: Cause,
  ): Promise<WebhookResult>
  /** For a receiver that answered 410 or only errors. Does nothing if the endpoint is not active. */
  disable(endpointOwner: EndpointOwner, reason: DisablingReason, cause: Cause): Promise<void>
}

const urlIn = ({ valueId, commitment }: StoredValue) => ({ urlId: valueId, urlCommitment: commitment })
const secretIn = ({ valueId, commitment }: StoredValue) => ({
  secretId: valueId,
  secretCommitment: commitment,
})

export const createWebhooks = (dependencies: {
  readonly runner: CommandRunner
  readonly values: WebhookValues
}): Webhooks => {
  const { runner, values } = dependencies

  const decideOn = (
    name: string,
    { accountId }: Pick<EndpointOwner, 'accountId'>,
    cause: Cause,
    decide: (state: EndpointsState, nowMs: number) => EndpointDecision,
  ): Promise<WebhookResult> => {
    const endpoints = { stream: webhooksStream(accountId), fold: endpointsFold }
    return handle(runner, { ...cause, name, account: accountId }, endpoints, (state, { nowMs }) =>
      decide(state, nowMs),
    )
  }

  /** Runs a decision with stored values, and deletes the values when it is refused. */
  const withValues = async <Made>(
    endpointId: string,
    texts: readonly string[],
    use: (storedValues: readonly StoredValue[]) => Promise<WebhookResult<Made>>,
  ): Promise<WebhookResult<Made>> => {
    const storedValues = texts.length === 0 ? [] : await values.store(endpointId, texts)
    const result = await use(storedValues)
    if (result.outcome === 'refused' && storedValues.length > 0)
      await values.drop(storedValues.map(({ valueId }) => valueId))
    return result
  }

  const onDelivery = (
    name: string,
    { accountId, endpointId }: EndpointOwner,
    { event, resource }: { readonly event: string; readonly resource: string },
    cause: Cause,
    decide: (state: DeliveryState) => readonly DeliveryEvent[],
    isNew: boolean,
  ): Promise<WebhookResult> => {
    const delivery = {
      stream: deliveryStream(endpointId, event, resource),
      fold: deliveryFold,
      ...(isNew && { assume: 'absent' as const }),
      others: { endpoints: { stream: webhooksStream(accountId), fold: endpointsFold } },
    }
    return handle(runner, { ...cause, name, account: accountId }, delivery, (state, { others }) =>
      others.endpoints.has(endpointId) ? decided(...decide(state)) : refused<EndpointRefusal>('not_found'),
    )
  }

  return {
    register: async ({ accountId, url, events }, cause) => {
      const endpointId = newId<string>('whs', accountId)
      const secret = newSecret()
      const result = await withValues(endpointId, [url, secret], ([storedUrl, storedSecret]) =>
        decideOn('register-webhook', { accountId }, cause, (state) =>
          decideRegistration(state, {
            endpointId,
            accountId,
            events,
            ...urlIn(storedUrl!),
            ...secretIn(storedSecret!),
          }),
        ),
      )
      return result.outcome === 'done' ? { ...result, endpointId, secret } : result
    },

    change: (endpointOwner, { url, events, status }, cause) =>
      withValues(endpointOwner.endpointId, url === undefined ? [] : [url], ([storedValues]) =>
        decideOn('change-webhook', endpointOwner, cause, (state) =>
          decideChange(state, endpointOwner, { events, status, ...(storedValues && urlIn(storedValues)) }),
        ),
      ),

    remove: async (endpointOwner, cause) => {
      const result = await decideOn('remove-webhook', endpointOwner, cause, (state) =>
        decideRemoval(state, endpointOwner),
      )
      if (result.outcome === 'done') await values.erase(endpointOwner.endpointId)
      return result
    },

    rotateSecret: async (endpointOwner, cause) => {
      const secret = newSecret()
      const result = await withValues(endpointOwner.endpointId, [secret], ([storedValues]) =>
        decideOn('rotate-webhook-secret', endpointOwner, cause, (state, nowMs) =>
          decideRotation(state, { ...endpointOwner, ...secretIn(storedValues!) }, nowMs),
        ),
      )
      if (result.outcome === 'refused') return result
      return { ...result, secret, previousUntilMs: result.atMs + previousSecretMs }
    },

    ping: async (endpointOwner, cause) => {
      const { endpointId, accountId } = endpointOwner
      const resource = newId<string>('ping')
      const deliveryId = deliveryIdOf(endpointId, 'ping', resource)
      const data = { webhookId: endpointId, message: 'This is a test of your webhook endpoint.' }
      const enqueued = { deliveryId, endpointId, accountId, event: 'ping', resource, data } as const
      const result = await onDelivery(
        'test-webhook',
        endpointOwner,
        enqueued,
        cause,
        (state) => decideEnqueue(state, enqueued),
        true,
      )
      return result.outcome === 'done' ? { ...result, deliveryId } : result
    },

    redeliver: (endpointOwner, delivery, cause) =>
      onDelivery('redeliver-webhook', endpointOwner, delivery, cause, decideRedelivery, false),

    disable: async (endpointOwner, reason, cause) => {
      await decideOn('disable-webhook', endpointOwner, cause, (state) =>
        decideDisabling(state, endpointOwner, reason),
      )
    },
  }
}
