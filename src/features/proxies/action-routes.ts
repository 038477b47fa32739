import type pg from 'pg'
import { z } from 'zod'
import { replaceReasons } from '../../domain/stock/events.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { equalSecrets } from '../../kernel/digest.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { isStorable, storableText } from '../../kernel/json-text.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { equals, given, when, withRule } from '../../platform/http/field-rules.ts'
import { type Route, replayHeaders, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { ProxyChecks } from './check-proxy.ts'
import { createProxyRecords, rotatePath, type VerifyRentals } from './own-rentals.ts'
import { type GatewayAddress, ProxyRecord, proxyExample } from './proxy-record.ts'
import { maxComment, type ReplaceAddress } from './replace-address.ts'

const CheckRecord = z
  .object({
    success: z.boolean(),
    exitIp: z.string().nullable().meta({
      description: 'The client address that the target received. Null: the target received no address.',
    }),
    elapsedMs: z.int(),
    checkedAt: z.string().meta({ format: 'date-time' }),
    message: z.string(),
  })
  .meta({ id: 'ProxyCheck' })

const checkExample = {
  success: true,
  exitIp: proxyExample.ip,
  elapsedMs: 84,
  checkedAt: '2026-11-21T02:31:00.000Z',
  message: 'The address carries traffic.',
}

/** Checks whether a rented address carries traffic. */
export const proxyCheckRoutes = ({ checks }: { readonly checks: ProxyChecks }): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/v1/proxies/{id}/check',
    operationId: 'checkProxy',
    summary: 'Check a rented address',
    description:
      'Sends one request through the address to a target of the service, with the credentials of the address, and returns the result within ten seconds. `success` is true if the exit address of the request was this address. For a mobile line, any exit address is a success. The limit is five checks a minute.',
    tag: 'Proxies',
    access: 'buy',
    writes: false,
    customer: 'limits',
    params: z.object({ id: z.string() }),
    examples: { params: { id: proxyExample.proxyId } },
    limit: checks.limit,
    responses: { 200: { description: 'The result of the check.', body: CheckRecord, example: checkExample } },
    errors: ['not_found', 'rental_ended', 'check_not_available'],
    handler: async ({ scope, params: { id }, after }) => ({
      status: 200,
      body: await checks.check(scope, id, after),
    }),
  }),
]

const Replacement = withRule(
  z.strictObject({
    reason: z.enum(replaceReasons),
    comment: z.string().min(1).max(maxComment).refine(isStorable, { error: storableText }).optional().meta({
      description: 'A reason for the operator. Required with the reason `custom`.',
    }),
  }),
  when(equals('reason', 'custom'), given('comment', 'string')),
  'must have a comment with the reason custom: what is wrong with the address',
)

/** Replaces the address of a rental. */
export const proxyReplaceRoutes = (dependencies: {
  readonly replace: ReplaceAddress
  readonly pool: pg.Pool
  readonly verifyRentals: VerifyRentals
  readonly credentials: Credentials
  readonly gateway: GatewayAddress
  readonly publicUrl: () => string
  readonly clock: Clock
}): readonly Route[] => {
  const records = createProxyRecords(dependencies)
  return [
    route({
      method: 'POST',
      path: '/api/v1/proxies/{id}/replace',
      operationId: 'replaceProxy',
      summary: 'Replace a rented address',
      description:
        'Gives the rental another free address of the same product, country, carrier and service. The id, the credentials and the end of the rental do not change. The former address stops working at once. `change_network` selects an address outside of the former /24 network (IPv6: /64). A rental can be replaced once in 24 hours and three times in 30 days. With an `Idempotency-Key`, a retry replaces nothing more.',
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
        const result = await dependencies.replace(
          { scope, proxyId: id, reason, comment, idempotencyKey },
          { actor: { kind: 'key', accountId, keyId }, correlationId: requestId },
          after,
        )
        const [record] = await records(accountId, [result.rental])
        return {
          status: 200,
          position: result.position,
          headers: result.replayed ? { 'idempotency-replayed': 'true' } : {},
          body: record!,
        }
      },
    }),
  ]
}

/** The shortest time between two rotations of a rental by its link. */
const rotateEveryMs = 10_000

/** Switches a rental to its next exit, in all gateways within a second. @returns 0, or the milliseconds to wait */
const rotateExit = async (pool: pg.Pool, proxyId: string, nowMs: number): Promise<number> => {
  const { rowCount } = await pool.query({
    name: 'turn-rental',
    text: `insert into work.rental_turns as turned (proxy_id, turns, turned_at) values ($1::text, 1, $2::timestamptz)
           on conflict (proxy_id) do update set turns = turned.turns + 1, turned_at = excluded.turned_at
            where turned.turned_at <= excluded.turned_at - interval '${rotateEveryMs} milliseconds'`,
    values: [proxyId, isoTime(nowMs)],
  })
  if (rowCount === 1) return 0
  const { rows } = await pool.query<{ turned_at: string }>(
    'select turned_at from work.rental_turns where proxy_id = $1::text',
    [proxyId],
  )
  return Math.max(1, Date.parse(rows[0]?.turned_at ?? '') + rotateEveryMs - nowMs || rotateEveryMs)
}

/** The rotation of a rental. `over`: it has ended. */
type RotationState = { readonly rotationMinutes: number | null; readonly over: boolean }

/**
 * Switches a mobile line that rotates by link to another exit.
 * @throws ApiError not_found, rental_ended, rate_limited
 */
export const rotateNow = async (
  pool: pg.Pool,
  proxyId: string,
  row: RotationState | undefined,
  nowMs: number,
): Promise<void> => {
  if (row?.rotationMinutes !== 0) throw refuse('not_found', 'no line rotates by this link')
  if (row.over) throw refuse('rental_ended', `the rental of ${proxyId} has ended: it cannot rotate`)
  const waitMs = await rotateExit(pool, proxyId, nowMs)
  if (waitMs > 0)
    throw refuseWithRetryAfter('rate_limited', `${proxyId} rotated a moment ago`, waitMs / 1_000)
}

const instant = z.string().meta({ format: 'date-time' })

/** The link that changes the exit of a mobile rental. */
export const proxyRotateRoutes = (dependencies: {
  readonly pool: pg.Pool
  readonly db: Db
  readonly credentials: Credentials
  readonly clock: Clock
}): readonly Route[] => {
  const { pool, db, credentials, clock } = dependencies

  const isTokenOf = (id: string, token: string): boolean => {
    const expectedToken = Buffer.from(credentials.rotationToken(id as ProxyId))
    const givenToken = Buffer.from(token)
    return equalSecrets(expectedToken, givenToken)
  }

  return [
    route({
      method: 'GET',
      path: rotatePath,
      operationId: 'rotateProxy',
      summary: 'Change the exit of a mobile line',
      description:
        'The `rotateUrl` of a rented mobile line with rotation by link. New connections use the next live exit of its carrier within a second. Open connections do not change. The limit is one request in ten seconds.',
      tag: 'Proxies',
      access: 'public',
      writes: false,
      // Hidden from the interface description: only the owner of the link can use it.
      hidden: true,
      params: z.object({ id: z.string(), token: z.string() }),
      examples: { params: { id: proxyExample.proxyId, token: 'k3Vq9ZtR1bXw7LmC0dYs5NfGh2JpA8eT' } },
      responses: {
        200: {
          description: 'The line uses another exit.',
          body: z
            .object({ proxyId: z.string(), rotatedAt: instant, nextAt: instant })
            .meta({ id: 'ProxyRotation' }),
          example: {
            proxyId: proxyExample.proxyId,
            rotatedAt: '2026-11-21T02:31:00.000Z',
            nextAt: '2026-11-21T02:31:10.000Z',
          },
        },
      },
      errors: ['not_found', 'rental_ended', 'rate_limited'],
      handler: async ({ params: { id, token } }) => {
        const nowMs = clock()
        const row = isTokenOf(id, token)
          ? await db
              .selectFrom('read.proxies')
              .where('proxyId', '=', id)
              .select(({ eb, or }) => [
                'rotationMinutes',
                or([eb('releasedAt', 'is not', null), eb('expiresAt', '<=', isoTime(nowMs))]).as('over'),
              ])
              .executeTakeFirst()
          : undefined
        await rotateNow(pool, id, row as RotationState | undefined, nowMs)
        return {
          status: 200,
          body: { proxyId: id, rotatedAt: isoTime(nowMs), nextAt: isoTime(nowMs + rotateEveryMs) },
        }
      },
    }),
  ]
}
