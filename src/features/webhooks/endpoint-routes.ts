import { z } from 'zod'
import { maxActiveEndpoints, maxEndpoints } from '../../domain/webhooks/decide.ts'
import { defaultEvents } from '../../domain/webhooks/events.ts'
import { isoTime } from '../../kernel/clock.ts'
import { causeOf } from '../../platform/http/auth.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { allowances } from './allowance.ts'
import { common, endpointOwnerOf, eventsField, onEndpoint, subscriptionOf, urlField } from './route-fields.ts'
import { NewWebhook, RotatedSecret, secretExample, WebhookRecord, webhookExample } from './webhook-record.ts'
import type { WebhookService } from './webhook-service.ts'

/** Webhook endpoints: docs/http-api.md, "Webhooks and notices". */
export const endpointRoutes = ({
  webhookService,
}: {
  readonly webhookService: WebhookService
}): readonly Route[] => {
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
        const events = subscriptionOf(body.events)
        const cause = causeOf({ caller, requestId })
        const registered = await webhookService.register(caller.accountId, { url: body.url, events }, cause)
        return {
          status: 201,
          body: {
            id: registered.endpointId,
            url: registered.url,
            events: events ?? defaultEvents,
            status: 'active' as const,
            disabledReason: null,
            createdAt: isoTime(registered.atMs),
            secret: registered.secret,
          },
          position: registered.position,
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
        const page = await webhookService.list(caller.accountId, { limit, offset }, after)
        return { status: 200, body: { webhooks: [...page.webhooks], total: page.total, limit, offset } }
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
        body: await webhookService.find(endpointOwnerOf(caller, id), after),
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
        const { url, events, status } = body
        const owner = endpointOwnerOf(caller, id)
        const { position } = await webhookService.change(
          owner,
          { url, events: events && subscriptionOf(events), status },
          causeOf({ caller, requestId }),
          after,
        )
        return { status: 200, body: await webhookService.find(owner, position), position }
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
        const owner = endpointOwnerOf(caller, id)
        const { position } = await webhookService.remove(owner, causeOf({ caller, requestId }))
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
        const rotated = await webhookService.rotateSecret(
          endpointOwnerOf(caller, id),
          causeOf({ caller, requestId }),
          after,
        )
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
