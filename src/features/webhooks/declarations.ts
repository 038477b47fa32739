import { z } from 'zod'
import { failureReasons, pauseReasons } from '../../domain/deposits/topups.ts'
import { audiences, noticeKinds } from '../../domain/notices/audiences.ts'
import { cancelReasons } from '../../domain/orders/events.ts'
import { orderStatuses } from '../../domain/orders/fold.ts'
import { reversalReasons } from '../../domain/payments/payments.ts'
import { budgetPeriods } from '../../domain/plans/budget-periods.ts'
import { thresholdPct } from '../../domain/plans/fold.ts'
import { budgetScopes } from '../../domain/plans/traffic-budgets.ts'
import type { WebhookEventName } from '../../domain/webhooks/events.ts'
import { capCoverages } from '../../kernel/scopes.ts'
import type { WebhookDeclaration } from '../../platform/api-docs/openapi-webhooks.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { customerField, customerIdField } from '../accounts/index.ts'
import { orderExample } from '../orders/index.ts'
import { signedRequest } from './deliver.ts'
import { secretExample } from './webhook-record.ts'

const instant = z.string().meta({ format: 'date-time' })

const order = {
  orderId: z.string(),
  status: namedEnum('OrderStatus', orderStatuses),
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
  status: namedEnum('SubscriptionEnd', ['canceled', 'expired']),
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

const { planId: budgetPlanId } = subscriptionData('canceled', 'requested')
const budget = {
  budgetId: z.string(),
  scope: namedEnum('TrafficBudgetScope', budgetScopes).meta({ description: 'What the budget limits.' }),
  planId: z.string().nullable().meta({ description: "Null: all plans of the reseller's customer." }),
  lineSet: z.string().nullable(),
  whitelistEntryId: z.string().nullable(),
}
const budgetUse = {
  period: namedEnum('TrafficBudgetPeriod', budgetPeriods),
  percent: z.int().min(80).max(100).meta({ description: '80 or 100.' }),
  usedBytes: z.int().meta({ description: 'The bytes since `countedFrom`, in both directions.' }),
  limitBytes: z.int(),
  countedFrom: instant.meta({ description: 'The start of the period, or the later reset.' }),
  resetsAt: instant.meta({ description: 'The end of the period.' }),
}
const budgetData = {
  budgetId: 'tbg_2a1b9d8e5f60a1b2c3d4e5f607185f3c',
  scope: 'plan',
  planId: budgetPlanId,
  lineSet: null,
  whitelistEntryId: null,
}
const budgetUseData = {
  period: 'day',
  percent: 80,
  usedBytes: 4_000_120_000,
  limitBytes: 5_000_000_000,
  countedFrom: '2026-11-21T00:00:00.000Z',
  resetsAt: '2026-11-22T00:00:00.000Z',
}
const budgetResource = `${budgetData.budgetId}.3`
const budgetPercents =
  'The event is sent once for each percentage in a period, and only for 100 % if one count reaches both. A changed limit or time zone and a reset send it again. An endpoint gets this event only if its `events` name it: without `events`, the event is not included.'

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
    description: 'The order cannot be delivered. Its payment is refunded.',
    data: { ...order, failureReason: z.string() },
    example: {
      resource: orderId,
      data: { ...orderData, status: 'failed', fulfilledAt: null, failureReason: 'out_of_stock' },
    },
  },
  'order.refunded': {
    resource: 'order',
    summary: 'An order was refunded',
    description: 'The full amount of the order was refunded. The event is sent once, after the last refund.',
    data: { ...order, refundedAt: instant, refundCents: z.int() },
    example: {
      resource: orderId,
      data: { ...orderData, status: 'refunded', refundedAt: '2026-11-22T02:30:00.000Z', refundCents: 500 },
    },
  },
  'order.wallet_short': {
    resource: 'order',
    summary: "The customer paid, and the reseller's wallet is short",
    description:
      'The customer paid an order on its pay page, and the balance of your wallet is below your cost. The order waits: it is placed by itself as soon as your wallet has the cost, and fails at `waitsUntil`. The event is sent once for an order. An endpoint gets this event only if its `events` name it: without `events`, the event is not included.',
    data: {
      ...order,
      customerId: customerIdField,
      walletShortfallCents: z.int().nullable().meta({
        description:
          'What your wallet lacked for this order at that moment, in whole cents, with the debt of the wallet. Each order that waits needs its own amount.',
      }),
      waitsUntil: instant
        .nullable()
        .meta({ description: 'When the order fails if the wallet is still short.' }),
    },
    example: {
      resource: orderId,
      data: {
        ...orderData,
        status: 'awaiting_payment',
        fulfilledAt: null,
        customerId: 'cus_0a1b2c3d4e5f60718293a4b5c6d7e8f9',
        walletShortfallCents: 380,
        waitsUntil: '2026-11-22T02:30:00.000Z',
      },
    },
  },
  'order.canceled': {
    resource: 'order',
    summary: 'An order was canceled before it was paid',
    description:
      'The invoice of the order closed, or the order was canceled on request. Nothing is charged. Payments that arrived are in the wallet, or in the credit of the customer. An endpoint gets this event only if its `events` name it: without `events`, the event is not included.',
    data: {
      ...order,
      customerId: customerIdField,
      canceledAt: instant,
      cancelReason: namedEnum('OrderCancelReason', cancelReasons).nullable(),
    },
    example: {
      resource: orderId,
      data: {
        ...orderData,
        status: 'canceled',
        fulfilledAt: null,
        customerId: null,
        canceledAt: '2026-11-22T02:30:00.000Z',
        cancelReason: 'invoice_expired',
      },
    },
  },
  'subscription.canceled': {
    resource: 'subscription',
    summary: 'A subscription was canceled',
    description: 'The subscription ended because it was canceled.',
    data: subscription,
    example: {
      resource: 'sub_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
      data: subscriptionData('canceled', 'requested'),
    },
  },
  'subscription.expired': {
    resource: 'subscription',
    summary: 'A subscription expired',
    description: 'The subscription was not renewed within the grace period.',
    data: subscription,
    example: {
      resource: 'sub_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
      data: subscriptionData('expired', 'insufficient_balance'),
    },
  },
  'plan.low_traffic': {
    resource: 'plan',
    summary: 'A plan is low on traffic',
    description: `A plan with a traffic limit has ${thresholdPct} % or less left. The event is sent once for each plan and endpoint. A top-up does not reset it. A new endpoint gets the event for each plan that is already low.`,
    data: {
      planId: z.string(),
      label: z
        .string()
        .meta({ description: "The account's own label of the plan. An empty text: no label." }),
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
  'wallet.low_balance': {
    resource: 'transaction',
    summary: 'The balance fell below the threshold',
    description:
      'A transaction moved the available balance of the account from the threshold or above to below the threshold. The event is sent once for each fall: the balance must rise to the threshold before the next event. PUT /api/v1/wallet/low-balance sets the threshold.',
    data: {
      transactionId: z.string(),
      thresholdCents: z.int(),
      balanceCents: z.int().meta({
        description: 'The available balance after the transaction, without the amounts of open holds.',
      }),
      currency: z.literal('USD'),
    },
    example: {
      resource: 'txn_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      data: {
        transactionId: 'txn_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
        thresholdCents: 5000,
        balanceCents: 4750,
        currency: 'USD',
      },
    },
  },
  'key.cap_reached': {
    resource: 'key, day and part',
    summary: 'A key has spent 80 % or all of its daily cap',
    description:
      'A key used 80 % or 100 % of its daily cap. 100: the whole cap is spent. A smaller rest can be left that is below every price; then only 80 is sent. The event is sent once for each key, day (UTC) and percentage, and only for 100 % if one payment reaches both. A key and its replacements share one cap and count as one key.',
    data: {
      keyId: z.string().meta({ description: 'The id of the key that placed the order or made the call.' }),
      day: z.string().meta({ format: 'date' }),
      levelPct: z.int().min(80).max(100).meta({ description: '80 or 100.' }),
      capCents: z.int(),
      capCovers: namedEnum('CapCoverage', capCoverages).meta({
        description: 'What the cap limits: the cost of `orders`, or `everything`: also scraper calls.',
      }),
      spentCents: z.int().meta({
        description: 'What counts against the cap in the last 24 hours, in whole cents, rounded up.',
      }),
      currency: z.literal('USD'),
    },
    example: {
      resource: 'key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b.2026-11-21.80',
      data: {
        keyId: 'key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
        day: '2026-11-21',
        levelPct: 80,
        capCents: 5000,
        capCovers: 'everything',
        spentCents: 4250,
        currency: 'USD',
      },
    },
  },
  'announcement.published': {
    resource: 'announcement',
    summary: 'A notice was published',
    description:
      'The service published a notice for an audience of the account, or for the account alone. GET /api/v1/announcements returns the text.',
    data: {
      announcementId: z.string(),
      title: z.string(),
      kind: namedEnum('AnnouncementKind', noticeKinds),
      audience: namedEnum('AnnouncementAudience', audiences),
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
    summary: 'A batch of scrapes is finished',
    description:
      'All calls of a batch are finished. An endpoint gets this event only if its `events` name it: without `events`, the event is not included.',
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
      canceledCalls: z
        .int()
        .meta({ description: 'Calls that were not made because the batch was canceled.' }),
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
        canceledCalls: 0,
        chargedUsd: '0.2970',
      },
    },
  },
  'deposit.reversed': {
    resource: 'movement, as in GET /api/v1/wallet/transactions',
    summary: 'A payment was refunded or charged back at its provider',
    description:
      'A refund or a chargeback at the payment provider reversed a payment, or returned it because the refund failed or the dispute was won. An endpoint gets this event only if its `events` name it: without `events`, the event is not included.',
    data: {
      depositId: z.string(),
      customerId: customerIdField,
      reason: namedEnum('ReversalReason', reversalReasons),
      reference: z.string().meta({
        description: "The name of the provider, and the provider's id of the refund or the dispute.",
      }),
      amountCents: z.int().meta({
        description:
          'The amount in whole cents. Below 0: the amount was taken from the wallet or the credit, and a missing part is a debt. Above 0: the amount was returned. Parts of a cent are left out.',
      }),
      amountMicros: z
        .int()
        .meta({ description: 'The exact amount in micro-dollars (10,000 micro-dollars are one cent).' }),
      owedCents: z.int().min(0).meta({
        description:
          'The debt of the account, or of the customer, after it, in whole cents. The next payments pay it first.',
      }),
    },
    example: {
      resource: 'txn_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      data: {
        depositId: 'dep_0190d0a2c1d27f0e8f6e5c4b3a291807',
        customerId: null,
        reason: 'deposit_refund',
        reference: 'stripe re_3Qx txn_3Qx',
        amountCents: -700,
        amountMicros: -7_000_000,
        owedCents: 0,
      },
    },
  },
  'deposit.late_payment': {
    resource: 'payment of a deposit',
    summary: 'A payment was credited that can place no order',
    description:
      'A payment arrived after its invoice had closed, or its order no longer waited for it: it was paid otherwise, canceled or failed. The payment is in the wallet, or in the credit of the customer. An endpoint gets this event only if its `events` name it: without `events`, the event is not included.',
    data: {
      depositId: z.string(),
      customerId: customerIdField,
      orderId: z.string().nullable().meta({ description: 'The order of the deposit. Null: it has none.' }),
      amountCents: z.int().meta({ description: 'The payment in whole cents. Parts of a cent are left out.' }),
      amountMicros: z
        .int()
        .meta({ description: 'The exact amount in micro-dollars (10,000 micro-dollars are one cent).' }),
      currency: z.literal('USD'),
      creditedAt: instant,
    },
    example: {
      resource: 'dep_0190d0a2c1d27f0e8f6e5c4b3a291807.pay_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
      data: {
        depositId: 'dep_0190d0a2c1d27f0e8f6e5c4b3a291807',
        customerId: null,
        orderId,
        amountCents: 1430,
        amountMicros: 14_300_000,
        currency: 'USD',
        creditedAt: '2026-11-22T02:30:00.000Z',
      },
    },
  },
  'wallet.topup_failed': {
    resource: 'top-up',
    summary: 'An automatic top-up was not paid',
    description:
      'The payment of an automatic top-up by the saved card failed, or its invoice expired unpaid. The event is sent once for each failed top-up. The next attempt is an hour later, then a day later. After three failures in a row automatic top-up is turned off. An endpoint gets this event only if its `events` name it: without `events`, the event is not included.',
    data: {
      topupId: z.string(),
      amountCents: z.int(),
      currency: z.literal('USD'),
      reason: namedEnum('AutoTopupFailureReason', failureReasons),
      failures: z.int().meta({ description: 'The number of failures in a row.' }),
      turnedOff: z.boolean().meta({
        description: 'Whether automatic top-up is now off, because this was the third failure in a row.',
      }),
    },
    example: {
      resource: 'top_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
      data: {
        topupId: 'top_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
        amountCents: 5000,
        currency: 'USD',
        reason: 'card_declined',
        failures: 1,
        turnedOff: false,
      },
    },
  },
  'wallet.topup_paused': {
    resource: 'pause',
    summary: 'Automatic top-up is paused',
    description:
      'After a refund or a dispute of a payment, or a block of the account, no automatic top-up is made until the customer resumes it (`PUT /api/v1/wallet/auto-topup` with `resume`). At the monthly maximum none is made until the next month; this is sent once in a month. An endpoint gets this event only if its `events` name it: without `events`, the event is not included.',
    data: {
      pauseId: z.string(),
      reason: namedEnum('AutoTopupPauseReason', pauseReasons),
      until: z
        .string()
        .nullable()
        .meta({ format: 'date-time', description: 'When the pause ends by itself. Null: it does not.' }),
      owedCents: z.int().meta({
        description: 'The debt of the account. The next payments, also automatic ones, pay it first.',
      }),
      currency: z.literal('USD'),
    },
    example: {
      resource: 'pau_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      data: {
        pauseId: 'pau_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
        reason: 'deposit_refund',
        until: null,
        owedCents: 500,
        currency: 'USD',
      },
    },
  },
  'traffic.budget_reached': {
    resource: 'budget, with the number of the event in its history',
    summary: 'A traffic budget is used to 80 % or completely',
    description: `Traffic of a plan, a line set or a whitelist entry used 80 % or 100 % of a budget. At 100 % the gateway passes no more traffic until \`resetsAt\`. Budgets for customers of a reseller send \`customer.traffic\`. ${budgetPercents}`,
    data: { ...budget, ...budgetUse },
    example: { resource: budgetResource, data: { ...budgetData, ...budgetUseData } },
  },
  'customer.traffic': {
    resource: 'budget, with the number of the event in its history',
    summary: 'A customer of a reseller used 80 % or all of a traffic budget',
    description: `Traffic of a customer used 80 % or 100 % of a budget that the reseller set, for all plans of the customer or for one of them. At 100 % the gateway passes no more traffic until \`resetsAt\`. ${budgetPercents}`,
    data: { ...budget, customerId: customerIdField, ...budgetUse, customer: customerField },
    example: {
      resource: budgetResource,
      data: {
        ...budgetData,
        scope: 'customer',
        planId: null,
        customerId: 'cus_0a1b2c3d4e5f60718293a4b5c6d7e8f9',
        ...budgetUseData,
        customer: 'acme-7',
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
  'X-Service-Event': 'The name of the event.',
  'X-Service-Signature': 'Hex HMAC-SHA256 of the raw body, keyed with the whole secret (`whsec_…`) as UTF-8.',
  'X-Service-Signature-Previous': 'The signature with the former secret, sent for 24 hours after a rotation.',
  'X-Service-Timestamp': 'A copy of `created`. Only the body is protected by the signature.',
  'webhook-id':
    'The id of the delivery. All attempts have the same id. Ignore a request whose id you have processed before.',
  'webhook-timestamp': 'The time of the attempt, in seconds since the Unix epoch.',
  'webhook-signature':
    'The signature of Standard Webhooks 1.0: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`, keyed with the decoded secret. After a rotation, two signatures with a space between them.',
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
          description: 'The time of this attempt. Reject attempts that are older than 5 minutes.',
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
