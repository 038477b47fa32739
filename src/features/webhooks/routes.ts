import { z } from 'zod'
import { listDeliveries } from '../../../projections/webhooks.ts'
import { causeOf } from '../../platform/http/auth.ts'
import {
  inRange,
  instantQuery,
  pageShape,
  pagingCodes,
  pagingQuery,
  wordQuery,
} from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { allowances } from './allowance.ts'
import { endpointRoutes } from './endpoint-routes.ts'
import { maxRedelivered } from './redeliver.ts'
import { common, endpointOwnerOf, onEndpoint } from './route-fields.ts'
import {
  DeliveryRecord,
  deliveryExample,
  deliveryRecord,
  deliveryStatuses,
  Queued,
  queuedExample,
  RedeliveredMany,
  webhookExample,
} from './webhook-record.ts'
import type { WebhookService } from './webhook-service.ts'

const rateText = ({ endpoint, account }: { readonly endpoint: number; readonly account: number }): string =>
  `At most ${endpoint} a minute for an endpoint and ${account} for an account.`

/** Sent deliveries and manual deliveries: docs/http-api.md, "Webhooks and notices". */
export const deliveryRoutes = ({
  webhookService,
  db,
}: {
  readonly webhookService: WebhookService
  readonly db: Db
}): readonly Route[] => {
  return [
    route({
      ...onEndpoint,
      method: 'POST',
      path: '/api/v1/webhooks/{id}/test',
      operationId: 'testWebhook',
      summary: 'Send a ping',
      description: `Queues a \`ping\`, whatever the endpoint listens to, through the same signing and sending as every event. ${rateText(allowances.test)}`,
      writes: true,
      responses: { 202: { description: 'It is queued.', body: Queued, example: queuedExample } },
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
      path: '/api/v1/webhooks/{id}/deliveries',
      operationId: 'listDeliveries',
      summary: 'List deliveries',
      description: 'What was sent or waits to be sent, newest first, with every attempt of the last 30 days.',
      writes: false,
      query: z.object({
        ...pagingQuery,
        status: wordQuery(deliveryStatuses, 'Only deliveries in this status.').optional(),
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
      description: `Sends a delivery of the last 30 days now, under the same \`webhook-id\`: a finished one once more, with ten attempts of its own; one that waits for its next attempt without the wait. One that is being sent stays as it is. ${rateText(allowances.redelivery)}`,
      writes: true,
      params: z.object({ id: z.string(), deliveryId: z.string() }),
      examples: { params: { id: webhookExample.id, deliveryId: queuedExample.deliveryId } },
      responses: { 202: { description: 'It is queued.', body: Queued, example: queuedExample } },
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
      summary: 'Send again what an endpoint missed',
      description: `After an outage: sends now every delivery of an event since \`since\` (at most 30 days back) that failed, was canceled or waits for its next attempt, in the order of the events. What succeeded or is being sent stays as it is, so calling twice sends nothing twice. A call takes ${maxRedelivered.toLocaleString('en-US')} at most; \`more\` says whether to call again. ${rateText(allowances.outage)}`,
      writes: true,
      query: z.object({ since: instantQuery('Events that happened at or after this instant.') }),
      examples: { ...onEndpoint.examples, query: { since: '2026-11-21T02:30:00Z' } },
      responses: {
        202: {
          description: 'They are sent.',
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
}

/** Webhook endpoints and their deliveries. */
export const webhookRoutes = (deps: {
  readonly webhookService: WebhookService
  readonly db: Db
}): readonly Route[] => [...endpointRoutes(deps), ...deliveryRoutes(deps)]
