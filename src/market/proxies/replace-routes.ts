import type pg from 'pg'
import { z } from 'zod'
import type { Clock } from '../../kernel/clock.ts'
import { isStorable, storableText } from '../../kernel/storable.ts'
import { replayHeaders } from '../../platform/http/idempotency.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { replaceReasons } from '../stock/events.ts'
import { createProxyRecords } from './own-proxy.ts'
import { type GatewayPlace, ProxyRecord, proxyExample } from './record.ts'
import { maxComment, type ReplaceAddress } from './replace.ts'

const Replacement = z.strictObject({
  reason: z.enum(replaceReasons),
  comment: z.string().min(1).max(maxComment).refine(isStorable, { error: storableText }).optional().meta({
    description: 'For the operator; required with the reason `custom`.',
  }),
})

/** Swapping the address of a rental. */
export const proxyReplaceRoutes = (deps: {
  readonly replace: ReplaceAddress
  readonly pool: pg.Pool
  readonly credentials: Credentials
  readonly gateway: GatewayPlace
  readonly publicUrl: () => string
  readonly clock: Clock
}): readonly Route[] => {
  const records = createProxyRecords(deps)
  return [
    route({
      method: 'POST',
      path: '/api/v1/proxies/{id}/replace',
      operationId: 'replaceProxy',
      summary: 'Replace a rented address',
      description:
        'Gives the rental another free address of the same product and country, and of the same carrier and service. Its id, credentials and end stay; the former address stops at once. `change_network` takes one outside of the /24 (IPv6: /64) of the former. A rental is replaced once in 24 hours and three times in 30 days. With an `Idempotency-Key` a request that is sent again replaces nothing more.',
      tag: 'Proxies',
      access: 'buy',
      writes: true,
      idempotencyKey: 'optional',
      customer: 'limits',
      params: z.object({ id: z.string() }),
      body: Replacement,
      examples: { params: { id: proxyExample.proxyId }, body: { reason: 'not_working' } },
      responses: {
        200: {
          description: 'The rental with its new address.',
          body: ProxyRecord,
          example: proxyExample,
          headers: replayHeaders,
        },
      },
      errors: [
        'not_found',
        'rental_ended',
        'out_of_stock',
        'replacement_limit_reached',
        'idempotency_conflict',
      ],
      handler: async ({ caller, scope, params: { id }, body, idempotencyKey, requestId, after }) => {
        const { accountId, keyId } = caller
        const { reason, comment } = body
        const made = await deps.replace(
          { scope, proxyId: id, reason, comment, idempotencyKey },
          { actor: { kind: 'key', accountId, keyId }, correlationId: requestId },
          after,
        )
        const [record] = await records(accountId, [made.rental])
        return {
          status: 200,
          position: made.position,
          headers: made.replayed ? { 'idempotency-replayed': 'true' } : {},
          body: record!,
        }
      },
    }),
  ]
}
