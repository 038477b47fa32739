import { z } from 'zod'
import { listDeliveries } from '../../../projections/webhooks.ts'
import { maxActiveEndpoints, maxEndpoints } from '../../domain/webhooks/decide.ts'
import {
  defaultEvents,
  type Subscription,
  type WebhookEventName,
  webhookEvents,
} from '../../domain/webhooks/events.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Caller, causeOf } from '../../platform/http/auth.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import {
  inRange,
  instantQuery,
  pageShape,
  pagingCodes,
  pagingQuery,
  wordQuery,
} from '../../platform/http/query.ts'
import { accountOnly, type Route, route } from '../../platform/http/route.ts'
import { maxUrlLength } from '../../platform/outgoing/target.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { maxRedelivered } from './redeliver.ts'
import {
  DeliveryRecord,
  deliveryExample,
  deliveryRecord,
  deliveryStatuses,
  Queued,
  queuedExample,
  RedeliveredMany,
  RotatedSecret,
  secretExample,
  WebhookRecord,
  WebhookWithSecret,
  webhookExample,
} from './webhook-record.ts'
import { allowances, type WebhookService } from './webhook-service.ts'

type RouteDependencies = { readonly webhookService: WebhookService; readonly db: Db }

const urlField = z.string().meta({
  description: `An https URL of at most ${maxUrlLength} characters whose host is public.`,
  override: { type: 'string', format: 'uri', pattern: '^https://', maxLength: maxUrlLength },
})

const knownEvents: ReadonlySet<string> = new Set(webhookEvents)
const quoteAll = (names: readonly string[]): string =>
  [...new Set(names)]
    .slice(0, 20)
    .map((name) => JSON.stringify(name.slice(0, 100)))
    .join(', ')

const namedOnlyText = new Intl.ListFormat('en').format(
  webhookEvents.filter((name) => !defaultEvents.includes(name)).map((name) => `\`${name}\``),
)

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
    description: `The names of the events, all different, at least one. Left out: all events except ${namedOnlyText}, which must be named.`,
    override: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      items: { id: 'WebhookEvent', type: 'string', enum: [...webhookEvents] },
    },
  })

/** In the order of `webhookEvents`, so that the same names in another order give the same subscription. */
export const subscriptionOf = (names: readonly string[] | undefined): Subscription =>
  names === undefined ? null : (webhookEvents.filter((name) => names.includes(name)) as WebhookEventName[])

/** Declarations of all webhook operations. An endpoint receives the events of all customers of a reseller. */
const common = { tag: 'Webhooks', access: 'buy', customer: accountOnly('webhooks are') } as const

/** Declarations of all operations on one endpoint. */
const onEndpoint = {
  ...common,
  params: z.object({ id: z.string() }),
  examples: { params: { id: webhookExample.id } },
} as const

const endpointOwnerOf = ({ accountId }: Caller, endpointId: string) => ({ accountId, endpointId })

/** Webhook endpoints: docs/reference/api.md, "Webhooks and notices". */
const endpointRoutes = ({ webhookService }: RouteDependencies): readonly Route[] => [
  route({
    ...common,
    method: 'POST',
    path: '/api/v1/webhooks',
    operationId: 'createWebhook',
    summary: 'Register a webhook endpoint',
    description: `Registers an https endpoint for events. Without \`events\`: for all events except those that must be named. The answer has the signing secret, which is shown only once. An account can have at most ${maxActiveEndpoints} active endpoints, and ${maxEndpoints} endpoints including the disabled ones. ${allowances.registration.account} registrations a minute are allowed. An endpoint with \`plan.low_traffic\` gets this event for each plan that is already low.`,
    writes: true,
    body: z.strictObject({ url: urlField, events: eventsField.optional() }),
    codes: { body: { events: { value: 'invalid_events' } } },
    examples: { body: { url: webhookExample.url, events: webhookExample.events } },
    responses: {
      201: {
        description: 'The endpoint and its signing secret.',
        body: WebhookWithSecret,
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
          failingSince: null,
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
    access: 'any-key',
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
    access: 'any-key',
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
      'Changes the URL, the events or the status of an endpoint. Disabling an endpoint cancels its waiting deliveries; you can redeliver them later. Adding `plan.low_traffic`, or enabling an endpoint again, counts as a registration.',
    writes: true,
    body: z.strictObject({
      url: urlField.optional(),
      events: eventsField.optional(),
      status: namedEnum('WebhookStatus', ['active', 'disabled']).optional(),
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
    description: 'Removes the endpoint, its secrets, and its waiting deliveries.',
    writes: true,
    responses: { 204: { description: 'The endpoint was removed.' } },
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
      'Creates a new secret. For 24 hours, deliveries also have the signature of the former secret: in `X-Service-Signature-Previous`, and as a second entry of `webhook-signature`.',
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

const rateText = ({ endpoint, account }: { readonly endpoint: number; readonly account: number }): string =>
  `At most ${endpoint} a minute for an endpoint and ${account} for an account.`

/** Sent deliveries and manual deliveries: docs/reference/api.md, "Webhooks and notices". */
const deliveryRoutes = ({ webhookService, db }: RouteDependencies): readonly Route[] => [
  route({
    ...onEndpoint,
    method: 'POST',
    path: '/api/v1/webhooks/{id}/test',
    operationId: 'testWebhook',
    summary: 'Send a ping',
    description: `Queues a \`ping\`, for any \`events\` of the endpoint. The ping is signed and sent in the same way as every event. ${rateText(allowances.test)}`,
    writes: true,
    responses: { 202: { description: 'The ping is queued.', body: Queued, example: queuedExample } },
    errors: ['not_found'],
    handler: async ({ caller, params: { id }, requestId }) => {
      const { deliveryId, position } = await webhookService.ping(
        endpointOwnerOf(caller, id),
        causeOf({ caller, requestId }),
      )
      return { status: 202, body: { id, deliveryId }, position }
    },
  }),

  route({
    ...onEndpoint,
    method: 'GET',
    access: 'any-key',
    path: '/api/v1/webhooks/{id}/deliveries',
    operationId: 'listDeliveries',
    summary: 'List deliveries',
    description:
      'The deliveries of an endpoint, sent or waiting, newest first, with every attempt of the last 30 days.',
    writes: false,
    query: z.object({
      ...pagingQuery,
      status: wordQuery(
        deliveryStatuses,
        'Only deliveries in this status.',
        'WebhookDeliveryStatus',
      ).optional(),
    }),
    codes: { query: pagingCodes },
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
      await webhookService.deliveriesReady(endpointOwnerOf(caller, id), after)
      const { limit, offset, status } = query
      const page = await listDeliveries(db, id, { limit, offset, status })
      const deliveries = page.deliveries.map(deliveryRecord)
      return { status: 200, body: { deliveries, total: page.total, limit, offset } }
    },
  }),

  route({
    ...common,
    method: 'POST',
    path: '/api/v1/webhooks/{id}/deliveries/{deliveryId}/redeliver',
    operationId: 'redeliverWebhook',
    summary: 'Send a delivery again',
    description: `Sends a delivery of the last 30 days now, with the same \`webhook-id\`. A finished delivery is sent again, with up to ten new attempts. A delivery that waits for its next attempt is sent without the wait. A delivery that is being sent does not change. ${rateText(allowances.redelivery)}`,
    writes: true,
    params: z.object({ id: z.string(), deliveryId: z.string() }),
    examples: { params: { id: webhookExample.id, deliveryId: queuedExample.deliveryId } },
    responses: { 202: { description: 'The delivery is queued.', body: Queued, example: queuedExample } },
    errors: ['not_found'],
    handler: async ({ caller, params: { id, deliveryId }, requestId, after }) => {
      const cause = causeOf({ caller, requestId })
      const position = await webhookService.redeliver(endpointOwnerOf(caller, id), deliveryId, cause, after)
      return { status: 202, body: { id, deliveryId }, position }
    },
  }),

  route({
    ...onEndpoint,
    method: 'POST',
    path: '/api/v1/webhooks/{id}/redeliver',
    operationId: 'redeliverWebhooks',
    summary: 'Resend missed deliveries',
    description: `Sends missed deliveries after an outage: every delivery of an event since \`since\` (at most 30 days ago) that failed, was canceled or waits for its next attempt, in the order of the events. Successful deliveries and deliveries that are being sent do not change, so a second call sends no duplicates. One call sends at most ${maxRedelivered.toLocaleString('en-US')} deliveries. If \`more\` is true, call again. ${rateText(allowances.outage)}`,
    writes: true,
    query: z.object({ since: instantQuery('Only deliveries of events at or after this instant.') }),
    examples: { ...onEndpoint.examples, query: { since: '2026-11-21T02:30:00Z' } },
    responses: {
      202: {
        description: 'The deliveries are queued.',
        body: RedeliveredMany,
        example: { id: webhookExample.id, count: 12, more: false },
      },
    },
    errors: ['not_found'],
    handler: async ({ caller, params: { id }, query: { since }, requestId, after }) => {
      const cause = causeOf({ caller, requestId })
      const sent = await webhookService.redeliverSince(
        endpointOwnerOf(caller, id),
        inRange(since),
        cause,
        after,
      )
      return { status: 202, body: { id, ...sent } }
    },
  }),
]

/** Webhook endpoints and their deliveries. */
export const webhookRoutes = (dependencies: RouteDependencies): readonly Route[] => [
  ...endpointRoutes(dependencies),
  ...deliveryRoutes(dependencies),
]
