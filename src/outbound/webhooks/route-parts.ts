import { z } from 'zod'
import type { Refused } from '../../platform/eventstore/decision.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { refuse } from '../../platform/http/errors.ts'
import { ownToAccount } from '../../platform/http/route.ts'
import { type EndpointRefusal, maxActiveEndpoints, maxEndpoints } from './decide.ts'
import { webhookExample } from './record.ts'
import type { WebhookResult } from './service.ts'

/** What every operation of webhooks declares. An endpoint is told of all customers of a reseller. */
export const common = { tag: 'Webhooks', access: 'buy', customer: ownToAccount('webhooks are') } as const

/** What every operation on one endpoint declares. */
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

/** What was done; a refusal is thrown as the error that answers it. */
export const done = <Made>(result: WebhookResult<Made>) => {
  if (result.outcome === 'refused') throw refusal(result)
  return result
}

export const causeOf = ({ caller, requestId }: { caller: Caller; requestId: string }): Cause => ({
  actor: { kind: 'key', accountId: caller.accountId, keyId: caller.keyId },
  correlationId: requestId,
})

export const placeOf = ({ accountId }: Caller, endpointId: string) => ({ accountId, endpointId })
