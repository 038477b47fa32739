import type { Kysely } from 'kysely'
import type pg from 'pg'
import { z } from 'zod'
import type { ReadDatabase } from '../../projections/database.ts'
import { type Reads, ReadsBehind } from '../../projections/engine/reads.ts'
import { isoTime } from '../clock.ts'
import type { EventLog } from '../eventstore/port.ts'
import { webhooksStream } from '../eventstore/streams.ts'
import type { Caller } from '../http/auth.ts'
import { refuse } from '../http/errors.ts'
import { pageShape, pagingCodes, pagingQuery } from '../http/paging.ts'
import { wordQuery } from '../http/query.ts'
import { type Route, route } from '../http/route.ts'
import { maxActiveEndpoints, maxEndpoints } from './decide.ts'
import { webhookEvents } from './event-names.ts'
import { eventsField, subscriptionOf, urlField } from './fields.ts'
import { findDelivery, findEndpoint, listDeliveries, listEndpoints } from './queries.ts'
import type { QueueProgress } from './reactor/progress.ts'
import {
  DeliveryRecord,
  deliveryExample,
  deliveryRecord,
  deliveryStatuses,
  NewWebhook,
  Queued,
  queuedExample,
  RotatedSecret,
  secretExample,
  WebhookRecord,
  webhookExample,
  webhookRecord,
} from './record.ts'
import type { Cause, Refused, WebhookResult, Webhooks } from './service.ts'
import { TargetRefused } from './target.ts'
import type { WebhookValues } from './vault.ts'

const params = z.object({ id: z.string() })
const examples = { params: { id: webhookExample.id } }

/** How long a reader of deliveries waits for the reactor. */
const queueWaitMs = 2_000

const notFound = () => refuse('not_found', 'no webhook has this id')

const refusal = ({ refusal }: Refused) =>
  refusal === 'not_found'
    ? notFound()
    : refuse(
        'webhook_limit_reached',
        `an account has at most ${maxActiveEndpoints} active webhook endpoints, and ${maxEndpoints} with disabled ones; remove one first`,
      )

const done = <Made>(result: WebhookResult<Made>) => {
  if (result.outcome === 'refused') throw refusal(result)
  return result
}

const causeOf = ({ caller, requestId }: { caller: Caller; requestId: string }): Cause => ({
  actor: { kind: 'key', accountId: caller.accountId, keyId: caller.keyId },
  correlationId: requestId,
})

/** Webhook endpoints and their deliveries: spec.md "Webhooks", decisions.md "Webhooks and notices". */
export const webhookRoutes = (deps: {
  readonly webhooks: Webhooks
  readonly values: WebhookValues
  /** @throws TargetRefused */
  readonly checkTarget: (url: string) => Promise<URL>
  readonly queue: QueueProgress
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'head' | 'lastOf'>
  readonly db: Kysely<ReadDatabase>
  readonly pool: pg.Pool
}): readonly Route[] => {
  const { webhooks, values, queue, reads, log, db, pool } = deps

  /** What any process wrote of the account's endpoints, and what the client has seen, is readable from here on. */
  const settled = async ({ accountId }: Caller, after: number | null): Promise<void> => {
    const last = await log.lastOf(webhooksStream(accountId))
    await reads.settled(accountId, Math.max(after ?? 0, last?.position ?? 0))
  }

  const checkedUrl = async (url: string): Promise<string> => {
    try {
      return (await deps.checkTarget(url)).href
    } catch (error) {
      if (error instanceof TargetRefused) throw refuse('invalid_url', `url ${error.message}`)
      throw error
    }
  }

  const endpointOf = async (caller: Caller, id: string, after: number | null) => {
    await settled(caller, after)
    const row = await findEndpoint(db, caller.accountId, id)
    if (!row) throw notFound()
    return row
  }

  const recordOf = async (caller: Caller, id: string, after: number | null): Promise<WebhookRecord> => {
    const row = await endpointOf(caller, id, after)
    const url = (await values.read([row.url_id])).get(row.url_id)
    // Erased a moment ago: it is being removed.
    if (url === undefined) throw notFound()
    return webhookRecord(row, url)
  }

  return [
    route({
      method: 'POST',
      path: '/api/v1/webhooks',
      operationId: 'createWebhook',
      summary: 'Register a webhook endpoint',
      description: `Registers an https endpoint for events (left out: all of them). The answer carries the signing secret, this once. At most ${maxActiveEndpoints} active endpoints an account. An endpoint that listens to \`plan.low_traffic\` is told of each plan that is low already.`,
      tag: 'Webhooks',
      access: 'buy',
      writes: true,
      body: z.strictObject({ url: urlField, events: eventsField.optional() }),
      codes: { body: { events: { value: 'invalid_events' } } },
      examples: { body: { url: webhookExample.url, events: webhookExample.events } },
      responses: {
        201: {
          description: 'The endpoint and its signing secret.',
          body: NewWebhook,
          example: { ...webhookExample, secret: secretExample },
        },
      },
      errors: ['invalid_url', 'webhook_limit_reached'],
      handler: async ({ caller, body, requestId }) => {
        const url = await checkedUrl(body.url)
        const events = subscriptionOf(body.events)
        const { accountId } = caller
        const made = done(await webhooks.register({ accountId, url, events }, causeOf({ caller, requestId })))
        return {
          status: 201,
          body: {
            id: made.endpointId,
            url,
            events: events ?? webhookEvents,
            status: 'active' as const,
            disabledReason: null,
            createdAt: isoTime(made.atMs),
            secret: made.secret,
          },
          position: made.position,
        }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/webhooks',
      operationId: 'listWebhooks',
      summary: 'List webhook endpoints',
      description: "The account's endpoints, newest first, without their secrets.",
      tag: 'Webhooks',
      access: 'buy',
      writes: false,
      query: z.object(pagingQuery),
      codes: { query: pagingCodes },
      responses: {
        200: {
          description: 'A page of endpoints.',
          body: z.object({ webhooks: z.array(WebhookRecord), ...pageShape }).meta({ id: 'WebhookList' }),
          example: { webhooks: [webhookExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: [],
      handler: async ({ caller, query: { limit, offset }, after }) => {
        await settled(caller, after)
        const { endpoints, total } = await listEndpoints(db, caller.accountId, { limit, offset })
        const urls = await values.read(endpoints.map(({ url_id }) => url_id))
        const records = endpoints.flatMap((row) => {
          const url = urls.get(row.url_id)
          return url === undefined ? [] : [webhookRecord(row, url)]
        })
        return { status: 200, body: { webhooks: records, total, limit, offset } }
      },
    }),

    route({
      method: 'PATCH',
      path: '/api/v1/webhooks/{id}',
      operationId: 'updateWebhook',
      summary: 'Change a webhook endpoint',
      description:
        'Changes its URL, its events, or whether it is active. Disabling cancels what waits; redeliver what you still want. Adding `plan.low_traffic`, or enabling an endpoint again, counts as a registration.',
      tag: 'Webhooks',
      access: 'buy',
      writes: true,
      params,
      body: z.strictObject({
        url: urlField.optional(),
        events: eventsField.optional(),
        status: z.enum(['active', 'disabled']).optional(),
      }),
      codes: { body: { events: { value: 'invalid_events' } } },
      examples: { ...examples, body: { events: ['order.fulfilled', 'order.refunded'] } },
      responses: {
        200: { description: 'The endpoint.', body: WebhookRecord, example: webhookExample },
      },
      errors: ['not_found', 'invalid_url', 'webhook_limit_reached'],
      handler: async ({ caller, params: { id }, body, requestId, after }) => {
        const url = body.url === undefined ? undefined : await checkedUrl(body.url)
        // A URL of an endpoint that is not there must not be kept.
        await endpointOf(caller, id, after)
        const { position } = done(
          await webhooks.change(
            { accountId: caller.accountId, endpointId: id },
            { url, events: body.events && subscriptionOf(body.events), status: body.status },
            causeOf({ caller, requestId }),
          ),
        )
        return { status: 200, body: await recordOf(caller, id, position), position }
      },
    }),

    route({
      method: 'DELETE',
      path: '/api/v1/webhooks/{id}',
      operationId: 'deleteWebhook',
      summary: 'Remove a webhook endpoint',
      description: 'Removes the endpoint, its secrets, and everything that waits to be sent to it.',
      tag: 'Webhooks',
      access: 'buy',
      writes: true,
      params,
      examples,
      responses: { 204: { description: 'It is gone.' } },
      errors: ['not_found'],
      handler: async ({ caller, params: { id }, requestId }) => {
        const place = { accountId: caller.accountId, endpointId: id }
        const { position } = done(await webhooks.remove(place, causeOf({ caller, requestId })))
        return { status: 204, position }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/webhooks/{id}/test',
      operationId: 'testWebhook',
      summary: 'Send a ping',
      description:
        'Queues a `ping`, whatever the endpoint listens to, through the same signing and sending as every event.',
      tag: 'Webhooks',
      access: 'buy',
      writes: true,
      params,
      examples,
      responses: { 202: { description: 'It is queued.', body: Queued, example: queuedExample } },
      errors: ['not_found'],
      handler: async ({ caller, params: { id }, requestId }) => {
        const place = { accountId: caller.accountId, endpointId: id }
        const { deliveryId, position } = done(await webhooks.ping(place, causeOf({ caller, requestId })))
        return { status: 202, body: { id, deliveryId }, position }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/webhooks/{id}/rotate-secret',
      operationId: 'rotateWebhookSecret',
      summary: 'Rotate the signing secret',
      description:
        'Makes a new secret. For 24 hours deliveries carry the signature of the former one too: in `X-Service-Signature-Previous`, and as a second entry of `webhook-signature`.',
      tag: 'Webhooks',
      access: 'buy',
      writes: true,
      params,
      examples,
      responses: {
        200: {
          description: 'The new secret.',
          body: RotatedSecret,
          example: {
            id: webhookExample.id,
            secret: secretExample,
            previousSecretExpiresAt: '2026-11-22T02:30:00.000Z',
          },
        },
      },
      errors: ['not_found'],
      handler: async ({ caller, params: { id }, requestId, after }) => {
        await endpointOf(caller, id, after)
        const place = { accountId: caller.accountId, endpointId: id }
        const rotated = done(await webhooks.rotateSecret(place, causeOf({ caller, requestId })))
        const { secret, previousUntilMs, position } = rotated
        return {
          status: 200,
          body: { id, secret, previousSecretExpiresAt: isoTime(previousUntilMs) },
          position,
        }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/webhooks/{id}/deliveries',
      operationId: 'listDeliveries',
      summary: 'List deliveries',
      description: 'What was sent or waits to be sent, newest first, with every attempt of the last 30 days.',
      tag: 'Webhooks',
      access: 'buy',
      writes: false,
      params,
      query: z.object({
        ...pagingQuery,
        status: wordQuery(deliveryStatuses, 'Only deliveries in this status.').optional(),
      }),
      codes: { query: pagingCodes },
      examples,
      responses: {
        200: {
          description: 'A page of deliveries.',
          body: z
            .object({ deliveries: z.array(DeliveryRecord), ...pageShape })
            .meta({ id: 'WebhookDeliveryList' }),
          example: { deliveries: [deliveryExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: ['not_found'],
      handler: async ({ caller, params: { id }, query, after }) => {
        await endpointOf(caller, id, after)
        // A delivery stands in the table once the reactor has come past its fact.
        if (!(await queue.reached(await log.head(), queueWaitMs)))
          throw new ReadsBehind('the deliveries that this request must see are not queued yet; try again')
        const { limit, offset, status } = query
        const page = await listDeliveries(pool, id, { limit, offset, status })
        const deliveries = page.deliveries.map(deliveryRecord)
        return { status: 200, body: { deliveries, total: page.total, limit, offset } }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/webhooks/{id}/deliveries/{deliveryId}/redeliver',
      operationId: 'redeliverWebhook',
      summary: 'Send a delivery again',
      description:
        'Queues a finished delivery of the last 30 days once more, under the same `webhook-id`, with ten attempts of its own. One that is still on its way stays as it is.',
      tag: 'Webhooks',
      access: 'buy',
      writes: true,
      params: z.object({ id: z.string(), deliveryId: z.string() }),
      examples: { params: { id: webhookExample.id, deliveryId: queuedExample.deliveryId } },
      responses: { 202: { description: 'It is queued.', body: Queued, example: queuedExample } },
      errors: ['not_found'],
      handler: async ({ caller, params: { id, deliveryId }, requestId, after }) => {
        await endpointOf(caller, id, after)
        const delivery = await findDelivery(pool, id, deliveryId)
        if (!delivery) throw refuse('not_found', 'no delivery of this webhook has this id')
        const place = { accountId: caller.accountId, endpointId: id }
        const { position } = done(await webhooks.redeliver(place, delivery, causeOf({ caller, requestId })))
        return { status: 202, body: { id, deliveryId }, position }
      },
    }),
  ]
}
