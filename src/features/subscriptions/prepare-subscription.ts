import { parseMeta, productOfOrder, type RateRequest } from '../../domain/catalog/catalog.ts'
import { quantityOf } from '../../domain/catalog/pricing.ts'
import { isDedicated, type Product } from '../../domain/catalog/product.ts'
import { type Interval, intervalDays, type Period } from '../../domain/shared/billing-interval.ts'
import type { OrderId, SubscriptionId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import { requireAccepted } from '../catalog/index.ts'
import { type Payer, type Prepared, type PriceSources, prepareOrder } from '../orders/index.ts'

export type SubscriptionInput = {
  readonly productId: string
  readonly quantity: number
  readonly interval: Interval
  readonly meta: Readonly<Record<string, unknown>> | undefined
  readonly expectedAmountCents: number | undefined
}

const notAvailable = (message: string) => refuse('subscription_not_available', message)

/** @throws ApiError subscription_not_available */
const checkBilling = ({ id, billing }: Product, interval: Interval): void => {
  if (!billing.subscription)
    throw notAvailable(`${id} is not sold by subscription; order it with POST /api/v1/orders`)
  if (!billing.intervals.includes(interval))
    throw notAvailable(
      `${id} is not sold by the ${interval}; accepted intervals: ${billing.intervals.join(', ')}`,
    )
}

/** An order may have any period of the product; a subscription only that of its interval. */
const otherPeriod = (interval: Interval) =>
  refuse(
    'invalid_period',
    `fulfillment_meta.period_days must be ${intervalDays[interval]} in a subscription by the ${interval}`,
  )

/** @throws ApiError as `parseMeta`; an `invalid_period` refusal names the period of the interval */
const rateRequestOf = (
  product: Product,
  interval: Interval,
  meta: SubscriptionInput['meta'],
): RateRequest | null => {
  const parsed = parseMeta(product, meta)
  if (parsed.ok || parsed.refusal.code !== 'invalid_period') return requireAccepted(parsed)
  const days = intervalDays[interval]
  if (meta?.period_days !== days) throw otherPeriod(interval)
  throw refuse(
    'invalid_period',
    `${product.id} is not sold for ${days} days there, so not by the ${interval}`,
  )
}

/**
 * The period of one payment: a calendar month or year for traffic. For products with a period, that period, which must
 * be the interval's.
 * @throws ApiError subscription_not_available, invalid_period
 */
const periodOf = (product: Product, interval: Interval, periodDays: number | null): Period => {
  const days = intervalDays[interval]
  if (product.shape === 'gateway_gb') return { unit: 'month', count: interval === 'month' ? 1 : 12 }
  if (product.shape === 'gateway_time') {
    if (product.periodDays === days) return { unit: 'day', count: days }
    throw notAvailable(`a plan of ${product.id} lasts ${product.periodDays} days, which is no ${interval}`)
  }
  if (periodDays === days) return { unit: 'day', count: days }
  throw otherPeriod(interval)
}

/**
 * Prepares the order of a subscription's first period.
 * @throws ApiError unknown_product, product_unavailable, subscription_not_available, then as `prepareOrder`
 */
export const prepareFirstPeriod = async (
  { catalog, stock, termsOf, refreshTerms }: PriceSources,
  caller: Payer,
  input: SubscriptionInput,
  ids: { readonly subscriptionId: SubscriptionId; readonly orderId: OrderId },
): Promise<Prepared> => {
  const { productId, quantity, interval, meta, expectedAmountCents } = input
  const product = requireAccepted(productOfOrder(catalog.current(), productId))
  checkBilling(product, interval)
  requireAccepted(quantityOf(product, quantity))
  const rateRequest = rateRequestOf(product, interval, meta)
  const period = periodOf(product, interval, isDedicated(product) ? (rateRequest?.periodDays ?? null) : null)
  await refreshTerms(caller)
  const prepared = await prepareOrder(
    {
      orderId: ids.orderId,
      caller,
      customerId: null,
      termsOf: (orderedProduct) => termsOf(caller, orderedProduct),
      method: 'wallet',
      payableBy: ['wallet'],
      expectedAmountCents,
      catalog: catalog.current(),
    },
    { productId, quantity, meta },
    stock,
  )
  const { subscriptionId } = ids
  return { ...prepared, subscription: { subscriptionId, interval, period, periodStart: null } }
}
