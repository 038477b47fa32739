import { z } from 'zod'
import {
  findSubscription,
  listSubscriptions,
  refusedReasonOf,
  type SubscriptionView,
  subscriptionStatuses,
} from '../../../projections/subscriptions.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { intervals } from '../../domain/shared/billing-interval.ts'
import type { Clock } from '../../kernel/clock.ts'
import { requestFingerprint } from '../../kernel/digest.ts'
import type { SubscriptionId } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { subscriptionStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { idempotentAnswer } from '../../platform/http/answer.ts'
import { refuse } from '../../platform/http/errors.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { pageShape, pagingCodes, pagingQuery, wordQuery } from '../../platform/http/query.ts'
import { idempotentResponses, type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { chargeErrors, guardField, metaField, quantityField } from '../orders/index.ts'
import { SubscriptionRecord, subscriptionExample, subscriptionRecord, viewOf } from './subscription-record.ts'
import type { Subscriptions } from './subscription-service.ts'

const params = z.object({ id: z.string() })
const examples = { params: { id: subscriptionExample.subscriptionId } }

const Body = z.strictObject({
  product_id: z.string().meta({ description: 'The id of a product whose `billing.subscription` is true.' }),
  quantity: quantityField,
  interval: namedEnum('BillingInterval', intervals).meta({
    description: 'The period of the subscription: one of the `billing.intervals` of the product.',
  }),
  fulfillment_meta: metaField(
    'The target of dedicated IPs, as in an order. `period_days` is 30 for a monthly subscription, 365 for a yearly subscription.',
  ),
  expected_amount_cents: guardField,
})

const notFound = () => refuse('not_found', 'no subscription has this id')

/** Subscriptions: docs/guides/subscriptions.md. */
export const subscriptionRoutes = (dependencies: {
  readonly subscriptions: Subscriptions
  readonly catalog: { current(): Catalog }
  readonly log: Pick<EventLog, 'lastOf'>
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly clock: Clock
}): readonly Route[] => {
  const { subscriptions, catalog, log, reads, db, clock } = dependencies

  /** The position to wait for, so that a cancellation by another process is included. */
  const writtenOf = async (id: string, after: number | null): Promise<number> => {
    const last = await log.lastOf(subscriptionStream(id as SubscriptionId))
    return Math.max(after ?? 0, last?.position ?? 0)
  }
  const rowOf = async (scope: Scope, id: string): Promise<SubscriptionView> => {
    const row = await findSubscription(db, scope, id)
    if (!row) throw notFound()
    return row
  }

  return [
    route({
      method: 'POST',
      path: '/api/v1/subscriptions',
      operationId: 'createSubscription',
      summary: 'Start a subscription',
      description:
        'Orders the product now and at the start of every later period. The wallet pays the price of that day. The first period is charged at once. Traffic renews by the calendar, in UTC: a subscription that starts on the 31st renews on the last day of a shorter month. Plans and addresses renew after 30 days (monthly) or 365 days (yearly). The addresses stay the same and are renewed up to a day before their end. If the balance of the wallet is too low, the renewal is tried again for three days after each credit to the wallet; then the subscription expires. A retry with the same `Idempotency-Key` returns the same subscription. Subscriptions are for the account itself: a request with `X-Reseller-Customer-Id` is rejected (`subscription_not_available`). For a customer, order each period.',
      tag: 'Subscriptions',
      access: 'buy',
      writes: true,
      idempotencyKey: 'required-for-resellers',
      customer: {
        refused: 'subscription_not_available',
        message:
          'the wallet of the account pays a subscription, so it takes no X-Reseller-Customer-Id; order for the customer with POST /api/v1/orders, or leave the header out',
      },
      body: Body,
      codes: {
        body: { product_id: { missing: 'missing_product' }, quantity: 'invalid_quantity' },
      },
      examples: { body: { product_id: 'residential-premium', quantity: 5, interval: 'month' } },
      responses: idempotentResponses(SubscriptionRecord, subscriptionExample, {
        created: 'The subscription, its first period paid.',
        existing: 'The earlier subscription with this Idempotency-Key, in its current state.',
      }),
      errors: [
        'unknown_product',
        'subscription_not_available',
        'invalid_quantity',
        'invalid_country',
        'invalid_period',
        'invalid_targeting',
        'out_of_stock',
        ...chargeErrors,
      ],
      knownKey: (caller, key) => subscriptions.known(caller.accountId, key),
      handler: async ({ caller, body, idempotencyKey: clientKey, requestId }) => {
        const started = await subscriptions.start({
          caller,
          requestId,
          idempotencyKey: clientKey,
          fingerprint: requestFingerprint({
            method: 'POST',
            path: '/api/v1/subscriptions',
            productId: catalog.current().resolve(body.product_id)?.id ?? body.product_id,
            body,
            customerId: null,
          }),
          input: {
            productId: body.product_id,
            quantity: body.quantity,
            interval: body.interval,
            meta: body.fulfillment_meta,
            expectedAmountCents: body.expected_amount_cents,
          },
        })
        const { subscription, replayed } = started
        const refused = replayed
          ? await refusedReasonOf(db, subscription.terms.subscriptionId, subscription.currentPeriodEnd)
          : null
        const record = subscriptionRecord(viewOf(subscription, refused), clock())
        return idempotentAnswer(started, record)
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/subscriptions',
      operationId: 'listSubscriptions',
      summary: 'List subscriptions',
      description: "The account's subscriptions, newest first.",
      tag: 'Subscriptions',
      access: 'buy',
      writes: false,
      customer: 'limits',
      query: z.object({
        ...pagingQuery,
        status: wordQuery(
          subscriptionStatuses,
          'Only subscriptions in this status.',
          'SubscriptionStatus',
        ).optional(),
      }),
      codes: { query: pagingCodes },
      responses: {
        200: {
          description: 'A page of subscriptions.',
          body: z
            .object({ subscriptions: z.array(SubscriptionRecord), ...pageShape })
            .meta({ id: 'SubscriptionList' }),
          example: { subscriptions: [subscriptionExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: [],
      handler: async ({ scope, query: { limit, offset, status }, after }) => {
        await reads.settled(scope.accountId, after ?? 0)
        const nowMs = clock()
        const page = await listSubscriptions(db, scope, { limit, offset, status }, nowMs)
        const subscriptions = page.subscriptions.map((row) => subscriptionRecord(row, nowMs))
        return { status: 200, body: { subscriptions, total: page.total, limit, offset } }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/subscriptions/{id}',
      operationId: 'getSubscription',
      summary: 'Read a subscription',
      description:
        'The status of a subscription, its current period, and the orders, plan and addresses of the period.',
      tag: 'Subscriptions',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params,
      examples,
      responses: {
        200: { description: 'The subscription.', body: SubscriptionRecord, example: subscriptionExample },
      },
      errors: ['not_found'],
      handler: async ({ scope, params: { id }, after }) => {
        await reads.settled(scope.accountId, await writtenOf(id, after))
        return { status: 200, body: subscriptionRecord(await rowOf(scope, id), clock()) }
      },
    }),

    route({
      method: 'DELETE',
      path: '/api/v1/subscriptions/{id}',
      operationId: 'cancelSubscription',
      summary: 'Cancel a subscription',
      description:
        'Stops the renewal, so nothing more is charged. The paid period continues to its end, and then the status becomes `canceled`. If the subscription is past due, it becomes `canceled` at once. A subscription that has ended does not change.',
      tag: 'Subscriptions',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      examples,
      responses: {
        200: {
          description: 'The subscription.',
          body: SubscriptionRecord,
          example: { ...subscriptionExample, cancelAtPeriodEnd: true },
        },
      },
      errors: ['not_found'],
      handler: async ({ caller, scope, params: { id }, requestId }) => {
        const { accountId, keyId } = caller
        if (scope.customerId !== null) throw notFound()
        const canceled = await subscriptions.cancel({
          accountId,
          subscriptionId: id as SubscriptionId,
          actor: { kind: 'key', accountId, keyId },
          correlationId: requestId,
        })
        if (!canceled) throw notFound()
        const { subscription, position } = canceled
        const refused = await refusedReasonOf(db, id, subscription.currentPeriodEnd)
        return { status: 200, body: subscriptionRecord(viewOf(subscription, refused), clock()), position }
      },
    }),
  ]
}
