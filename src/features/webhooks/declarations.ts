import { z } from 'zod'
import { audiences, noticeKinds } from '../../domain/notices/audiences.ts'
import { orderStatuses } from '../../domain/orders/fold.ts'
import { thresholdPct } from '../../domain/plans/fold.ts'
import type { WebhookEventName } from '../../domain/webhooks/events.ts'
import type { WebhookDeclaration } from '../../platform/api-docs/openapi-webhooks.ts'
import { orderExample } from '../orders/index.ts'
import { signedRequest } from './deliver.ts'
import { secretExample } from './webhook-record.ts'

const instant = z.string().meta({ format: 'date-time' })

const order = {
  orderId: z.string(),
  status: z.enum(orderStatuses),
  productId: z.string(),
  quantity: z.int(),
  amountCents: z.int(),
  currency: z.literal('USD'),
  createdAt: instant,
  fulfilledAt: instant.nullable(),
}
const orderData = {
  orderId: orderExample.orderId,
  status: orderExample.status,
  productId: orderExample.productId,
  quantity: orderExample.quantity,
  amountCents: orderExample.amountCents,
  currency: orderExample.currency,
  createdAt: orderExample.createdAt,
  fulfilledAt: orderExample.fulfilledAt,
}

const subscription = {
  subscriptionId: z.string(),
  productId: z.string(),
  planId: z.string().nullable(),
  status: z.enum(['canceled', 'expired']),
  reason: z.string(),
  currentPeriodEnd: instant,
}
const subscriptionData = (status: string, reason: string) => ({
  subscriptionId: 'sub_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
  productId: 'residential-premium',
  planId: 'pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10',
  status,
  reason,
  currentPeriodEnd: '2026-12-21T02:30:00.000Z',
})

type Content = {
  readonly resource: string
  readonly summary: string
  readonly description: string
  readonly data: z.ZodRawShape
  readonly example: { readonly resource: string; readonly data: Readonly<Record<string, unknown>> }
}

const { orderId } = orderExample

/** Every event with its payload (docs/reference/api.md, "Webhooks and notices"). */
const contents: Readonly<Record<WebhookEventName, Content>> = {
  'order.fulfilled': {
    resource: 'order',
    summary: 'An order was fulfilled',
    description: 'The order was paid and delivered.',
    data: order,
    example: { resource: orderId, data: orderData },
  },
  'order.failed': {
    resource: 'order',
    summary: 'An order failed',
    description: 'The order cannot be delivered; what was paid for it comes back.',
    data: { ...order, failureReason: z.string() },
    example: {
      resource: orderId,
      data: { ...orderData, status: 'failed', fulfilledAt: null, failureReason: 'out_of_stock' },
    },
  },
  'order.refunded': {
    resource: 'order',
    summary: 'An order was refunded',
    description: 'All that was paid for the order came back. Sent once, when nothing of it is left.',
    data: { ...order, refundedAt: instant, refundCents: z.int() },
    example: {
      resource: orderId,
      data: { ...orderData, status: 'refunded', refundedAt: '2026-11-22T02:30:00.000Z', refundCents: 500 },
    },
  },
  'subscription.canceled': {
    resource: 'subscription',
    summary: 'A subscription was canceled',
    description: 'The subscription ended after its cancellation.',
    data: subscription,
    example: {
      resource: 'sub_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
      data: subscriptionData('canceled', 'requested'),
    },
  },
  'subscription.expired': {
    resource: 'subscription',
    summary: 'A subscription expired',
    description: 'The subscription could not be renewed within the grace.',
    data: subscription,
    example: {
      resource: 'sub_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
      data: subscriptionData('expired', 'insufficient_balance'),
    },
  },
  'plan.low_traffic': {
    resource: 'plan',
    summary: 'A plan is low on traffic',
    description: `A plan that is sold by traffic has ${thresholdPct} % or less left. Sent once a plan and endpoint: a top-up does not re-arm it. A new endpoint gets it for each plan that is already low.`,
    data: {
      planId: z.string(),
      label: z.string().meta({ description: "The account's own label for its customer; empty when unset." }),
      product: z.string(),
      dataGbTotal: z.number(),
      dataGbRemaining: z.number(),
      thresholdPct: z.number(),
      expiresAt: instant.nullable(),
    },
    example: {
      resource: 'pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10',
      data: {
        planId: 'pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10',
        label: 'acme',
        product: 'Residential Premium',
        dataGbTotal: 10,
        dataGbRemaining: 0.95,
        thresholdPct,
        expiresAt: null,
      },
    },
  },
  'announcement.published': {
    resource: 'announcement',
    summary: 'A notice was published',
    description:
      'The service published a notice to an audience of the account, or to the account alone. Its text is read from GET /api/v1/announcements.',
    data: {
      announcementId: z.string(),
      title: z.string(),
      kind: z.enum(noticeKinds),
      audience: z.enum(audiences),
    },
    example: {
      resource: 'ntc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      data: {
        announcementId: 'ntc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
        title: 'Maintenance on Sunday',
        kind: 'MAINTENANCE',
        audience: 'DEVELOPERS',
      },
    },
  },
  'scrape.batch.finished': {
    resource: 'batch',
    summary: 'A batch of scrapes is over',
    description:
      'All calls of a batch are over. An endpoint gets it only when it names the event: `events` left out does not include it.',
    data: {
      batchId: z.string(),
      status: z.enum(['finished', 'canceled']),
      platform: z.string(),
      operation: z.string(),
      inputs: z.int(),
      found: z.int(),
      empty: z.int(),
      notFound: z.int(),
      restricted: z.int(),
      failed: z.int(),
      chargedUsd: z.string(),
    },
    example: {
      resource: 'scb_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
      data: {
        batchId: 'scb_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
        status: 'finished',
        platform: 'tiktok',
        operation: 'profile',
        inputs: 100,
        found: 96,
        empty: 0,
        notFound: 3,
        restricted: 0,
        failed: 1,
        chargedUsd: '0.2970',
      },
    },
  },
  ping: {
    resource: 'ping',
    summary: 'A test of the endpoint',
    description: 'Requested by POST /api/v1/webhooks/{id}/test.',
    data: { webhookId: z.string(), message: z.string() },
    example: {
      resource: 'ping_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      data: {
        webhookId: 'whs_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
        message: 'This is a test of your webhook endpoint.',
      },
    },
  },
}

const headerTexts = {
  'X-Service-Event': 'The event.',
  'X-Service-Signature': 'Hex HMAC-SHA256 of the raw body, keyed with the whole secret (`whsec_…`) as UTF-8.',
  'X-Service-Signature-Previous': 'For 24 hours after a rotation: the same with the former secret.',
  'X-Service-Timestamp': 'A mirror of `created`; only the body is tamper-proof.',
  'webhook-id': 'Names the delivery; the same for every attempt. De-duplicate on it.',
  'webhook-timestamp': 'Seconds since the epoch of the attempt.',
  'webhook-signature':
    'Standard Webhooks 1.0: `v1,` and base64 HMAC-SHA256 of `id.timestamp.body`, keyed with the decoded secret; after a rotation two, with a space between.',
} as const

/** `order.fulfilled` → `OrderFulfilled`. */
const pascal = (name: string): string =>
  name.replace(/(^|[._])(\w)/g, (_, _dot, letter) => letter.toUpperCase())

const exampleMs = Date.parse('2026-11-21T02:30:01.000Z')

const declaration = (name: WebhookEventName): WebhookDeclaration => {
  const { resource, summary, description, data, example } = contents[name]
  const { body, headers } = signedRequest(
    {
      deliveryId: 'dlv_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
      event: name,
      resource: example.resource,
      data: JSON.stringify(example.data),
    },
    { current: secretExample, previous: secretExample },
    exampleMs,
  )
  return {
    name,
    operationId: `on${pascal(name)}`,
    summary,
    description,
    body: z
      .object({
        event: z.literal(name),
        created: instant.meta({
          description: 'The time of this attempt: refuse what is older than 5 minutes.',
        }),
        resource: z.string().meta({ description: `The id of the ${resource}.` }),
        data: z.object(data),
      })
      .meta({ id: `${pascal(name)}Event` }),
    example: JSON.parse(body.toString()),
    headers: Object.fromEntries(
      Object.entries(headerTexts).map(([header, text]) => [
        header,
        { description: text, example: headers[header] ?? '' },
      ]),
    ),
  }
}

/** The `webhooks` section of the interface description. */
export const webhookDeclarations: readonly WebhookDeclaration[] = (
  Object.keys(contents) as WebhookEventName[]
).map(declaration)
