import type { Kysely } from 'kysely'
import { z } from 'zod'
import type { ReadDatabase } from '../../../projections/database.ts'
import { isoTime } from '../../kernel/clock.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/paging.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { TargetRefused } from '../../platform/outgoing/target.ts'
import { allowances, type TakeAllowance } from './allowance.ts'
import { maxActiveEndpoints, maxEndpoints } from './decide.ts'
import type { EndpointReads } from './endpoint-reads.ts'
import { usualEvents } from './event-names.ts'
import { eventsField, subscriptionOf, urlField } from './fields.ts'
import { listEndpoints } from './queries.ts'
import {
  NewWebhook,
  RotatedSecret,
  secretExample,
  WebhookRecord,
  webhookExample,
  webhookRecord,
} from './record.ts'
import { causeOf, common, done, onEndpoint, placeOf } from './route-parts.ts'
import type { Webhooks } from './service.ts'
import type { WebhookValues } from './vault.ts'

/** Webhook endpoints: docs/http-api.md, "Webhooks and notices". */
export const endpointRoutes = (deps: {
  readonly webhooks: Webhooks
  readonly values: WebhookValues
  /** @throws TargetRefused */
  readonly checkTarget: (url: string) => Promise<URL>
  readonly endpoints: EndpointReads
  readonly takeAllowance: TakeAllowance
  readonly db: Kysely<ReadDatabase>
}): readonly Route[] => {
  const { webhooks, values, db } = deps
  const { settled, endpointOf, recordOf } = deps.endpoints

  const checkedUrl = async (url: string): Promise<string> => {
    try {
      return (await deps.checkTarget(url)).href
    } catch (error) {
      if (error instanceof TargetRefused) throw refuse('invalid_url', `url ${error.message}`)
      throw error
    }
  }

  return [
    route({
      ...common,
      method: 'POST',
      path: '/api/v1/webhooks',
      operationId: 'createWebhook',
      summary: 'Register a webhook endpoint',
      description: `Registers an https endpoint for events (left out: all of them). The answer carries the signing secret, this once. At most ${maxActiveEndpoints} active endpoints an account, and ${maxEndpoints} with disabled ones; ${allowances.registration.account} registrations a minute. An endpoint that listens to \`plan.low_traffic\` is told of each plan that is low already.`,
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
        const { accountId } = caller
        await deps.takeAllowance('registration', accountId, null)
        const url = await checkedUrl(body.url)
        const events = subscriptionOf(body.events)
        const made = done(await webhooks.register({ accountId, url, events }, causeOf({ caller, requestId })))
        return {
          status: 201,
          body: {
            id: made.endpointId,
            url,
            events: events ?? usualEvents,
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
      ...common,
      method: 'GET',
      path: '/api/v1/webhooks',
      operationId: 'listWebhooks',
      summary: 'List webhook endpoints',
      description: "The account's endpoints, newest first, without their secrets.",
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
      ...onEndpoint,
      method: 'GET',
      path: '/api/v1/webhooks/{id}',
      operationId: 'getWebhook',
      summary: 'Read a webhook endpoint',
      description: 'One endpoint, without its secret.',
      writes: false,
      responses: {
        200: { description: 'The endpoint.', body: WebhookRecord, example: webhookExample },
      },
      errors: ['not_found'],
      handler: async ({ caller, params: { id }, after }) => ({
        status: 200,
        body: await recordOf(caller, id, after),
      }),
    }),

    route({
      ...onEndpoint,
      method: 'PATCH',
      path: '/api/v1/webhooks/{id}',
      operationId: 'updateWebhook',
      summary: 'Change a webhook endpoint',
      description:
        'Changes its URL, its events, or whether it is active. Disabling cancels what waits; redeliver what you still want. Adding `plan.low_traffic`, or enabling an endpoint again, counts as a registration.',
      writes: true,
      body: z.strictObject({
        url: urlField.optional(),
        events: eventsField.optional(),
        status: z.enum(['active', 'disabled']).optional(),
      }),
      codes: { body: { events: { value: 'invalid_events' } } },
      examples: { ...onEndpoint.examples, body: { events: ['order.fulfilled', 'order.refunded'] } },
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
            placeOf(caller, id),
            { url, events: body.events && subscriptionOf(body.events), status: body.status },
            causeOf({ caller, requestId }),
          ),
        )
        return { status: 200, body: await recordOf(caller, id, position), position }
      },
    }),

    route({
      ...onEndpoint,
      method: 'DELETE',
      path: '/api/v1/webhooks/{id}',
      operationId: 'deleteWebhook',
      summary: 'Remove a webhook endpoint',
      description: 'Removes the endpoint, its secrets, and everything that waits to be sent to it.',
      writes: true,
      responses: { 204: { description: 'It is gone.' } },
      errors: ['not_found'],
      handler: async ({ caller, params: { id }, requestId }) => {
        const place = placeOf(caller, id)
        const { position } = done(await webhooks.remove(place, causeOf({ caller, requestId })))
        return { status: 204, position }
      },
    }),

    route({
      ...onEndpoint,
      method: 'POST',
      path: '/api/v1/webhooks/{id}/rotate-secret',
      operationId: 'rotateWebhookSecret',
      summary: 'Rotate the signing secret',
      description:
        'Makes a new secret. For 24 hours deliveries carry the signature of the former one too: in `X-Service-Signature-Previous`, and as a second entry of `webhook-signature`.',
      writes: true,
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
        const place = placeOf(caller, id)
        const rotated = done(await webhooks.rotateSecret(place, causeOf({ caller, requestId })))
        const { secret, previousUntilMs, position } = rotated
        return {
          status: 200,
          body: { id, secret, previousSecretExpiresAt: isoTime(previousUntilMs) },
          position,
        }
      },
    }),
  ]
}
