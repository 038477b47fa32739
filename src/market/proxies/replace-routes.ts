import type pg from 'pg'
import { z } from 'zod'
import type { Reads } from '../../../projections/engine/reads.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { replacementIdOf } from '../../kernel/ids.ts'
import { isStorable, storableText } from '../../kernel/storable.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { handle } from '../../platform/eventstore/commands/handle.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'
import { replayHeaders } from '../../platform/http/idempotency.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { stockStream } from '../../terms/streams.ts'
import { replaceReasons } from '../stock/events.ts'
import { stockFold } from '../stock/fold.ts'
import { decideReplacement, type ReplacementRefusal } from '../stock/replace.ts'
import { createOwnProxy, createProxyRecords } from './own-proxy.ts'
import type { ProxyQueries } from './queries.ts'
import { type GatewayPlace, ProxyRecord, proxyExample } from './record.ts'

const maxComment = 500

const Replacement = z.strictObject({
  reason: z.enum(replaceReasons),
  comment: z.string().min(1).max(maxComment).refine(isStorable, { error: storableText }).optional().meta({
    description: 'For the operator; required with the reason `custom`.',
  }),
})

const apiError = (id: string, refusal: ReplacementRefusal): ApiError => {
  switch (refusal.code) {
    case 'rental_ended':
      return refuse('rental_ended', `the rental of ${id} has ended: there is nothing to replace`)
    case 'out_of_stock':
      return refuse('out_of_stock', `no other address is free that could replace the one of ${id}`)
    case 'another_request':
      return refuse('idempotency_conflict', 'this Idempotency-Key replaced the address for another reason')
    case 'too_often':
      return refuse(
        'replacement_limit_reached',
        `the address of ${id} was replaced before; it can be again from ${isoTime(refusal.retryAtMs)} on`,
      )
    default:
      return refusal satisfies never
  }
}

/** Swapping the address of a rental. */
export const proxyReplaceRoutes = (deps: {
  readonly runner: CommandRunner
  readonly reads: Pick<Reads, 'settled'>
  readonly db: ProxyQueries
  readonly pool: pg.Pool
  readonly credentials: Credentials
  readonly gateway: GatewayPlace
  readonly publicUrl: () => string
  readonly clock: Clock
}): readonly Route[] => {
  const { runner, pool } = deps
  const records = createProxyRecords(deps)
  const proxyOf = createOwnProxy(deps)
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
        if (reason === 'custom' && comment === undefined)
          throw refuse(
            'invalid_body',
            'send a comment with the reason custom: what is wrong with the address',
          )
        const row = await proxyOf(scope, id, after)
        const made = await handle(
          runner,
          {
            name: 'replace-address',
            account: accountId,
            actor: { kind: 'key', accountId, keyId },
            correlationId: requestId,
          },
          { stream: stockStream(row.product_id, row.country), fold: stockFold },
          (stock, { nowMs }) =>
            decideReplacement(
              stock,
              {
                proxyId: row.proxy_id,
                accountId,
                reason,
                requestId: idempotencyKey === null ? null : replacementIdOf(accountId, idempotencyKey),
              },
              nowMs,
            ),
        )
        if (made.outcome === 'refused') throw apiError(id, made.refusal)
        if (comment !== undefined && made.replacedAt !== null)
          await pool.query(
            `insert into vault.replacement_comments (proxy_id, account_id, comment, replaced_at)
             values ($1::text, $2::text, $3::text, $4::timestamptz)`,
            [row.proxy_id, accountId, comment, made.replacedAt],
          )
        const { ip, city, asn, asnOrg, endpoint = null } = made.address
        const [record] = await records(accountId, [{ ...row, ip, city, asn, asn_org: asnOrg, endpoint }])
        return {
          status: 200,
          position: made.position,
          headers: made.replacedAt === null ? { 'idempotency-replayed': 'true' } : {},
          body: record!,
        }
      },
    }),
  ]
}
