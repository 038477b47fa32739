import type pg from 'pg'
import { z } from 'zod'
import type { Progress } from '../../../projections/engine/progress.ts'
import { ReadsBehind } from '../../../projections/engine/reads.ts'
import { webhookDeliveries } from '../../../projections/groups.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/paging.ts'
import { inRange, instantQuery, wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { allowances, type TakeAllowance } from './allowance.ts'
import type { EndpointReads } from './endpoint-reads.ts'
import { hasten } from './hasten.ts'
import { findDelivery, listDeliveries } from './queries.ts'
import {
  DeliveryRecord,
  deliveryExample,
  deliveryRecord,
  deliveryStatuses,
  Queued,
  queuedExample,
  RedeliveredMany,
  webhookExample,
} from './record.ts'
import { maxRedelivered, type RedeliverSince } from './redeliver-since.ts'
import { causeOf, common, done, onEndpoint, placeOf } from './route-parts.ts'
import type { Webhooks } from './service.ts'

/** How long a reader of deliveries waits for their queue. */
const queueWaitMs = 2_000

const often = ({ endpoint, account }: { readonly endpoint: number; readonly account: number }): string =>
  `At most ${endpoint} a minute for an endpoint and ${account} for an account.`

/** What was sent to an endpoint and what is sent by hand: docs/http-api.md, "Webhooks and notices". */
export const deliveryRoutes = (deps: {
  readonly webhooks: Pick<Webhooks, 'ping' | 'redeliver'>
  readonly progress: Pick<Progress, 'reached'>
  readonly log: Pick<EventLog, 'head'>
  readonly endpoints: Pick<EndpointReads, 'endpointOf' | 'settled'>
  readonly redeliverSince: RedeliverSince
  readonly takeAllowance: TakeAllowance
  readonly pool: pg.Pool
  readonly clock: Clock
}): readonly Route[] => {
  const { webhooks, progress, log, pool, clock, takeAllowance } = deps
  const { endpointOf, settled } = deps.endpoints

  /** A delivery stands in the table once the queue was filled past its fact. */
  const queued = async (position?: number): Promise<void> => {
    if (!(await progress.reached(webhookDeliveries.name, position ?? (await log.head()), queueWaitMs)))
      throw new ReadsBehind('the deliveries that this request must see are not queued yet; try again')
  }

  return [
    route({
      ...onEndpoint,
      method: 'POST',
      path: '/api/v1/webhooks/{id}/test',
      operationId: 'testWebhook',
      summary: 'Send a ping',
      description: `Queues a \`ping\`, whatever the endpoint listens to, through the same signing and sending as every event. ${often(allowances.test)}`,
      writes: true,
      responses: { 202: { description: 'It is queued.', body: Queued, example: queuedExample } },
      errors: ['not_found'],
      handler: async ({ caller, params: { id }, requestId }) => {
        await takeAllowance('test', caller.accountId, id)
        const place = placeOf(caller, id)
        const { deliveryId, position } = done(await webhooks.ping(place, causeOf({ caller, requestId })))
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
        await endpointOf(caller, id, after)
        await queued()
        const { limit, offset, status } = query
        const page = await listDeliveries(pool, id, { limit, offset, status })
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
      description: `Sends a delivery of the last 30 days now, under the same \`webhook-id\`: a finished one once more, with ten attempts of its own; one that waits for its next attempt without the wait. One that is being sent stays as it is. ${often(allowances.redelivery)}`,
      writes: true,
      params: z.object({ id: z.string(), deliveryId: z.string() }),
      examples: { params: { id: webhookExample.id, deliveryId: queuedExample.deliveryId } },
      responses: { 202: { description: 'It is queued.', body: Queued, example: queuedExample } },
      errors: ['not_found'],
      handler: async ({ caller, params: { id, deliveryId }, requestId, after }) => {
        await endpointOf(caller, id, after)
        const delivery = await findDelivery(pool, id, deliveryId)
        if (!delivery) throw refuse('not_found', 'no delivery of this webhook has this id')
        await takeAllowance('redelivery', caller.accountId, id)
        const place = placeOf(caller, id)
        const { position } = done(await webhooks.redeliver(place, delivery, causeOf({ caller, requestId })))
        // Nothing was written: it is on its way, and may wait for its next attempt.
        if (position === null) await hasten(pool, id, [deliveryId], clock())
        return { status: 202, body: { id, deliveryId }, position }
      },
    }),

    route({
      ...onEndpoint,
      method: 'POST',
      path: '/api/v1/webhooks/{id}/redeliver',
      operationId: 'redeliverWebhooks',
      summary: 'Send again what an endpoint missed',
      description: `After an outage: sends now every delivery of an event since \`since\` (at most 30 days back) that failed, was canceled or waits for its next attempt, in the order of the events. What succeeded or is being sent stays as it is, so calling twice sends nothing twice. A call takes ${maxRedelivered.toLocaleString('en-US')} at most; \`more\` says whether to call again. ${often(allowances.outage)}`,
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
        await endpointOf(caller, id, after)
        await takeAllowance('outage', caller.accountId, id)
        await queued()
        const cause = causeOf({ caller, requestId })
        const sent = await deps.redeliverSince(id, inRange(since), cause, async (position) => {
          await settled(caller, position)
          await queued(position)
        })
        return { status: 202, body: { id, ...sent } }
      },
    }),
  ]
}
