import { z } from 'zod'
import { type EndpointRefusal, maxActiveEndpoints, maxEndpoints } from '../../domain/webhooks/decide.ts'
import { type Subscription, type WebhookEventName, webhookEvents } from '../../domain/webhooks/events.ts'
import type { Refused } from '../../kernel/decider.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { refuse } from '../../platform/http/errors.ts'
import { accountOnly } from '../../platform/http/route.ts'
import { maxUrlLength } from '../../platform/outgoing/target.ts'
import type { WebhookResult } from './endpoint-service.ts'
import { webhookExample } from './webhook-record.ts'

export const urlField = z.string().meta({
  description: `An https URL of at most ${maxUrlLength} characters whose host is public.`,
  override: { type: 'string', format: 'uri', maxLength: maxUrlLength },
})

const knownEvents: ReadonlySet<string> = new Set(webhookEvents)
const quoteAll = (names: readonly string[]): string =>
  [...new Set(names)]
    .slice(0, 20)
    .map((name) => JSON.stringify(name.slice(0, 100)))
    .join(', ')

/** Strings instead of an enum, so that the refusal can list all unknown names at once. */
export const eventsField = z
  .array(z.string())
  .superRefine((names, context) => {
    const acceptedText = `accepted are ${webhookEvents.join(', ')}`
    const unknown = names.filter((name) => !knownEvents.has(name))
    const duplicates = names.filter((name, index) => names.indexOf(name) !== index)
    if (names.length === 0) context.addIssue(`must name at least one event; ${acceptedText}`)
    else if (unknown.length > 0) context.addIssue(`has unknown names: ${quoteAll(unknown)}; ${acceptedText}`)
    else if (duplicates.length > 0) context.addIssue(`names an event twice: ${quoteAll(duplicates)}`)
  })
  .meta({
    description:
      'Distinct names of events, at least one; left out: all but `scrape.batch.finished`, which has to be named.',
    override: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      items: { type: 'string', enum: [...webhookEvents] },
    },
  })

/** In the order of `webhookEvents`, so that the same names in another order give the same subscription. */
export const subscriptionOf = (names: readonly string[] | undefined): Subscription =>
  names === undefined ? null : (webhookEvents.filter((name) => names.includes(name)) as WebhookEventName[])

/** Declarations of all webhook operations. An endpoint receives the events of all customers of a reseller. */
export const common = { tag: 'Webhooks', access: 'buy', customer: accountOnly('webhooks are') } as const

/** Declarations of all operations on one endpoint. */
export const onEndpoint = {
  ...common,
  params: z.object({ id: z.string() }),
  examples: { params: { id: webhookExample.id } },
} as const

export const notFound = () => refuse('not_found', 'no webhook has this id')

const refusal = ({ refusal }: Refused<EndpointRefusal>) =>
  refusal === 'not_found'
    ? notFound()
    : refuse(
        'webhook_limit_reached',
        `an account has at most ${maxActiveEndpoints} active webhook endpoints, and ${maxEndpoints} with disabled ones; remove one first`,
      )

/** The result; a refusal is thrown as its API error. */
export const done = <Made>(result: WebhookResult<Made>) => {
  if (result.outcome === 'refused') throw refusal(result)
  return result
}

export const endpointOwnerOf = ({ accountId }: Caller, endpointId: string) => ({ accountId, endpointId })
