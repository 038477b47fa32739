import { z } from 'zod'
import type { DeliveryRow, WebhookEndpointRow } from '../../../projections/webhooks.ts'
import { defaultEvents, webhookEvents } from '../../domain/webhooks/events.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'

const instant = z.string().meta({ format: 'date-time' })

const endpointShape = {
  id: z.string(),
  url: z.string(),
  events: z
    .array(namedEnum('WebhookEvent', webhookEvents))
    .meta({ description: 'The events of the endpoint.' }),
  status: namedEnum('WebhookStatus', ['active', 'disabled']),
  disabledReason: namedEnum('WebhookDisabledReason', ['gone', 'failing']).nullable().meta({
    description:
      'The reason why the endpoint is disabled. `gone`: the receiver answered with status 410. `failing`: every attempt failed for five days. Null: the endpoint is active, or you disabled it.',
  }),
  failingSince: instant.nullable().meta({
    description:
      'The first of the failed attempts since the last successful one. Deliveries are tried again with growing pauses. Null: the last attempt succeeded, or there was none.',
  }),
  createdAt: instant,
}

/** A webhook endpoint without its secret (docs/reference/api.md, "Webhooks and notices"). */
export const WebhookRecord = z.object(endpointShape).meta({ id: 'Webhook' })
export type WebhookRecord = z.infer<typeof WebhookRecord>

const secret = z.string().meta({
  description: 'The signing secret: `whsec_` and the base64 text of 32 bytes. It is shown only once.',
})

/** The answer that creates an endpoint. In Go a `NewWebhook` would be the function that makes a `Webhook`. */
export const WebhookWithSecret = z.object({ ...endpointShape, secret }).meta({ id: 'WebhookWithSecret' })

export const RotatedSecret = z
  .object({
    id: z.string(),
    secret,
    previousSecretExpiresAt: instant.meta({
      description: 'The time until which deliveries also have a signature with the former secret.',
    }),
  })
  .meta({ id: 'RotatedSecret' })

export const Queued = z.object({ id: z.string(), deliveryId: z.string() }).meta({ id: 'QueuedDelivery' })

export const RedeliveredMany = z
  .object({
    id: z.string(),
    count: z.int().meta({ description: 'The number of deliveries that this call sends.' }),
    more: z.boolean().meta({ description: 'True: more deliveries are waiting. Call again.' }),
  })
  .meta({ id: 'RedeliveredMany' })

export const deliveryStatuses = ['pending', 'succeeded', 'abandoned', 'canceled'] as const

const Attempt = z
  .object({
    round: z.int().meta({
      description: 'The number of the round: 1 for the first delivery, and one more for each redelivery.',
    }),
    attempt: z.int().meta({ description: 'The number of the attempt in its round, starting at 1.' }),
    at: instant,
    status: z.int().nullable().meta({ description: 'The HTTP status of the answer. Null: no answer.' }),
    latencyMs: z.int(),
    error: z
      .string()
      .nullable()
      .meta({ description: 'The reason for a missing answer. Null: the receiver answered.' }),
    answer: z.string().meta({ description: 'The first kilobyte of the answer.' }),
  })
  .meta({ id: 'WebhookAttempt' })

/** A delivery and its attempts. */
export const DeliveryRecord = z
  .object({
    id: z
      .string()
      .meta({ description: 'The id of the delivery. Every attempt has it in the header `webhook-id`.' }),
    event: namedEnum('WebhookEvent', webhookEvents),
    resource: z.string(),
    status: namedEnum('WebhookDeliveryStatus', deliveryStatuses),
    attempts: z.array(Attempt),
    nextAttemptAt: instant.nullable(),
    createdAt: instant,
    finishedAt: instant.nullable(),
  })
  .meta({ id: 'WebhookDelivery' })
export type DeliveryRecord = z.infer<typeof DeliveryRecord>

export const webhookRecord = (row: WebhookEndpointRow, url: string): WebhookRecord => ({
  id: row.endpointId,
  url,
  events: [...(row.events ?? defaultEvents)],
  status: row.status,
  disabledReason: row.disabledReason,
  failingSince: row.failingSince,
  createdAt: row.createdAt,
})

export const deliveryRecord = (row: DeliveryRow): DeliveryRecord => ({
  id: row.deliveryId,
  event: row.event,
  resource: row.resource,
  status: row.status,
  attempts: row.log.map(({ latencyMs, round, attempt, at, status, error, answer }) => ({
    round,
    attempt,
    at,
    status,
    latencyMs,
    error,
    answer,
  })),
  nextAttemptAt: row.status === 'pending' ? row.dueAt : null,
  createdAt: row.queuedAt,
  finishedAt: row.finishedAt,
})

export const webhookExample: WebhookRecord = {
  id: 'whs_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  url: 'https://example.com/hooks/farebox',
  events: ['order.fulfilled', 'plan.low_traffic'],
  status: 'active',
  disabledReason: null,
  failingSince: null,
  createdAt: '2026-11-21T02:30:00.000Z',
}

export const secretExample = `whsec_${Buffer.from('an example of thirty-two bytes..').toString('base64')}`

export const queuedExample = { id: webhookExample.id, deliveryId: 'dlv_5f3c2a1b9d8e5f60a1b2c3d4e5f60718' }

export const deliveryExample: DeliveryRecord = {
  id: queuedExample.deliveryId,
  event: 'order.fulfilled',
  resource: 'ord_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
  status: 'succeeded',
  attempts: [
    {
      round: 1,
      attempt: 1,
      at: '2026-11-21T02:30:01.000Z',
      status: 200,
      latencyMs: 41,
      error: null,
      answer: 'ok',
    },
  ],
  nextAttemptAt: null,
  createdAt: '2026-11-21T02:30:00.000Z',
  finishedAt: '2026-11-21T02:30:01.041Z',
}
