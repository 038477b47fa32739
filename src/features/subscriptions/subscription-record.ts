import { z } from 'zod'
import {
  type SubscriptionStatus,
  type SubscriptionView,
  subscriptionStatuses,
} from '../../../projections/subscriptions.ts'
import { metaOf } from '../../domain/catalog/catalog.ts'
import { graceMs, intervals } from '../../domain/shared/billing-interval.ts'
import type { Subscription } from '../../domain/subscriptions/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { fulfillmentMeta } from '../orders/index.ts'

const instant = z.string().meta({ format: 'date-time' })

/** A subscription (docs/guides/subscriptions.md). */
export const SubscriptionRecord = z
  .object({
    subscriptionId: z.string(),
    status: namedEnum('SubscriptionStatus', subscriptionStatuses).meta({
      description:
        'The status of the subscription. `past_due`: the period has ended, and the payment of the next period was rejected. The payment is tried again after each credit to the wallet, until `graceEndsAt`. If the period has just ended and the payment was not tried yet, the status is `active`.',
    }),
    productId: z.string(),
    quantity: z.int().meta({
      description:
        'The requested quantity. Later periods of addresses renew those in `proxyIds`: a returned address is not renewed.',
    }),
    interval: namedEnum('BillingInterval', intervals),
    fulfillmentMeta,
    orderId: z.string().meta({ description: 'The id of the order that paid the current period.' }),
    planId: z.string().nullable(),
    proxyIds: z.array(z.string()),
    amountCents: z.int().meta({
      description:
        'The price of the current period, in whole cents. The next period costs the price of the product at that time.',
    }),
    currency: z.literal('USD'),
    startedAt: instant,
    currentPeriodStart: instant,
    currentPeriodEnd: instant,
    cancelAtPeriodEnd: z.boolean(),
    graceEndsAt: instant
      .nullable()
      .meta({ description: 'The end of the grace period. Null: the subscription is not past due.' }),
    endedAt: instant.nullable(),
    reason: z.string().nullable().meta({
      description:
        'The reason of the end: `requested`, or the code that rejected the last renewal, usually `insufficient_balance`. While the subscription is past due: the code of the latest rejection. Null: the subscription has not ended and is not past due.',
    }),
  })
  .meta({ id: 'Subscription' })
export type SubscriptionRecord = z.infer<typeof SubscriptionRecord>

/** Whether its paid period is over and it has not ended. No event marks this change. */
export const isPeriodOver = (
  row: Pick<SubscriptionView, 'endedAs' | 'currentPeriodEnd'>,
  nowMs: number,
): boolean => row.endedAs === null && row.currentPeriodEnd <= isoTime(nowMs)

/** The status. Past due: the paid period is over, and the payment of the next one was refused. */
export const subscriptionStatus = (
  row: Pick<SubscriptionView, 'endedAs' | 'currentPeriodEnd' | 'refusedReason'>,
  nowMs: number,
): SubscriptionStatus => {
  if (row.endedAs !== null) return row.endedAs
  return isPeriodOver(row, nowMs) && row.refusedReason !== null ? 'past_due' : 'active'
}

/** A subscription from its stream, so that an answer with a new decision need not wait for the read table. */
export const viewOf = (state: Subscription, refusedReason: string | null): SubscriptionView => ({
  subscriptionId: state.terms.subscriptionId,
  productId: state.terms.productId,
  quantity: state.terms.quantity,
  interval: state.terms.interval,
  target: state.terms.target,
  orderId: state.orderId,
  planId: state.planId,
  proxyIds: state.proxyIds,
  amountCents: state.amountCents,
  startedAt: state.terms.startedAt,
  currentPeriodStart: state.currentPeriodStart,
  currentPeriodEnd: state.currentPeriodEnd,
  cancelAtPeriodEnd: state.cancelScheduled,
  endedAs: state.ended?.status ?? null,
  endedReason: state.ended?.reason ?? null,
  endedAt: state.ended?.at ?? null,
  refusedReason,
})

export const subscriptionRecord = (row: SubscriptionView, nowMs: number): SubscriptionRecord => {
  const status = subscriptionStatus(row, nowMs)
  return {
    subscriptionId: row.subscriptionId,
    status,
    productId: row.productId,
    quantity: row.quantity,
    interval: row.interval,
    fulfillmentMeta: row.target === null ? null : metaOf(row.target),
    orderId: row.orderId,
    planId: row.planId,
    proxyIds: [...row.proxyIds],
    amountCents: row.amountCents,
    currency: 'USD',
    startedAt: row.startedAt,
    currentPeriodStart: row.currentPeriodStart,
    currentPeriodEnd: row.currentPeriodEnd,
    cancelAtPeriodEnd: row.cancelAtPeriodEnd,
    graceEndsAt: status === 'past_due' ? isoTime(Date.parse(row.currentPeriodEnd) + graceMs) : null,
    endedAt: row.endedAt,
    reason: status === 'past_due' ? row.refusedReason : row.endedReason,
  }
}

export const subscriptionExample: SubscriptionRecord = {
  subscriptionId: 'sub_3b9d8e5f60a15c2fb1c2d3e4f5061728',
  status: 'active',
  productId: 'residential-premium',
  quantity: 5,
  interval: 'month',
  fulfillmentMeta: null,
  orderId: 'ord_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
  planId: 'pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10',
  proxyIds: [],
  amountCents: 2750,
  currency: 'USD',
  startedAt: '2026-11-21T02:30:00.000Z',
  currentPeriodStart: '2026-11-21T02:30:00.000Z',
  currentPeriodEnd: '2026-12-21T02:30:00.000Z',
  cancelAtPeriodEnd: false,
  graceEndsAt: null,
  endedAt: null,
  reason: null,
}
