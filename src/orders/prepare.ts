import { accepted } from '../catalog/api-error.ts'
import type { LiveStock } from '../catalog/availability.ts'
import { lineInStock } from '../catalog/availability.ts'
import { type Catalog, orderable, productOfOrder } from '../catalog/catalog.ts'
import { type Quote, quantityOf, quote, type ResellerTerms } from '../catalog/pricing.ts'
import { deliveryOf, isDedicated, type Product } from '../catalog/product.ts'
import type { Wanted } from '../catalog/rates.ts'
import { parseMeta } from '../catalog/targeting.ts'
import type { Caller } from '../http/auth.ts'
import { refuse } from '../http/errors.ts'
import { type CustomerId, type OrderId, type PlanId, type ProxyId, planIdOfOrder } from '../ids.ts'
import type { OrderDetails, Target } from './details.ts'
import type { OrderMethod } from './methods.ts'
import type { OrderDraft } from './place.ts'

/** Everything of an order but what names the request. */
export type Prepared = Omit<OrderDraft, 'fingerprint'>

const bytesPerGb = 1_000_000_000

/** What every kind of order says besides its product. */
type Buyer = {
  readonly orderId: OrderId
  readonly caller: Caller
  readonly customerId: CustomerId | null
  readonly terms: ResellerTerms | null
  readonly method: OrderMethod
  readonly expectedAmountCents: number | undefined
  readonly catalog: Catalog
}

/** The figure that the payer is charged: a reseller's cost for itself, the customer's price for its customer. */
const chargedCents = (figures: Quote, customerId: CustomerId | null): number =>
  figures.reseller === null || customerId !== null ? figures.amountCents : figures.reseller.yourCostCents

/**
 * The last checks before the log is asked (decisions.md, order of checks): a rail without a live gateway, then the
 * price guard.
 */
const draftOf = (
  buyer: Buyer,
  product: Product,
  figures: Quote,
  rest: Pick<OrderDetails, 'kind' | 'planId' | 'proxyIds'>,
): Prepared => {
  const { orderId, caller, customerId, method, expectedAmountCents, catalog } = buyer
  if (method !== 'wallet')
    throw refuse(
      'deposits_not_available',
      `no gateway for ${method} is live; pay from the wallet (leave method out)`,
    )
  const amountCents = chargedCents(figures, customerId)
  const { quantity, target, listCents } = figures
  const unitPriceCents = Math.floor((2 * amountCents + quantity) / (2 * quantity))
  if (expectedAmountCents !== undefined && expectedAmountCents !== amountCents)
    throw refuse('price_changed', `the price is ${amountCents} cents, not ${expectedAmountCents}`, {
      amountCents,
      unitPriceCents,
      quantity,
    })
  return {
    orderId,
    accountId: caller.accountId,
    keyId: caller.keyId,
    customerId,
    ...rest,
    productId: product.id,
    family: product.family,
    shape: product.shape,
    delivery: deliveryOf(product.shape),
    renewal: product.renewal,
    unit: product.unit,
    quantity,
    target,
    bytes: product.shape === 'gateway_gb' ? quantity * bytesPerGb : null,
    periodDays: product.shape === 'gateway_time' ? product.periodDays : null,
    unitPriceCents,
    amountCents,
    listCents,
    currency: 'USD',
    billingType: 'PAYG',
    method,
    catalogDigest: catalog.digest ?? '',
  }
}

/** @throws ApiError unknown_product, product_unavailable, invalid_quantity, invalid_country, invalid_period,
 * invalid_targeting, deposits_not_available, price_changed */
export const prepareOrder = async (
  buyer: Buyer,
  asked: {
    readonly productId: string
    readonly quantity: number
    readonly meta: Readonly<Record<string, unknown>> | undefined
  },
  stock: LiveStock,
): Promise<Prepared> => {
  const product = accepted(productOfOrder(buyer.catalog, asked.productId))
  const { quantity } = asked
  // The quantity is checked before the targeting (decisions.md, order of checks).
  accepted(quantityOf(product, quantity))
  const wanted = accepted(parseMeta(product, asked.meta))
  const open = product.shape === 'addresses_mobile' && wanted !== null && isOpen(wanted)
  const inStock = open ? lineInStock(await stock.of(product.id), quantity) : undefined
  const figures = accepted(
    quote(product, { quantity, wanted, terms: buyer.terms, ...(inStock && { inStock }) }),
  )
  // A top-up product's plan is named by the service, which knows which of them is held.
  const planId = isDedicated(product) ? null : planIdOfOrder(buyer.orderId)
  return draftOf(buyer, product, figures, { kind: 'order', planId, proxyIds: [] })
}

const isOpen = (wanted: Wanted): boolean =>
  wanted.carrierId === null || wanted.service === null || wanted.rotationMinutes === null

/** A top-up of a plan that the caller holds. @throws ApiError as `prepareOrder`; invalid_body for a plan that is bought anew */
export const prepareTopUp = (
  buyer: Buyer,
  plan: { readonly planId: PlanId; readonly productId: string },
  quantity: number,
): Prepared => {
  const product = accepted(productOfOrder(buyer.catalog, plan.productId))
  if (product.renewal !== 'topup')
    throw refuse(
      'invalid_body',
      `a plan of ${product.id} is not topped up; buy a fresh one with POST /api/v1/orders`,
    )
  const figures = accepted(quote(product, { quantity, wanted: null, terms: buyer.terms }))
  return draftOf(buyer, product, figures, { kind: 'topup', planId: plan.planId, proxyIds: [] })
}

/** Rentals that are alike: of one product, in one country, on one mobile line. */
export type RentalsToExtend = {
  readonly productId: string
  readonly proxyIds: readonly ProxyId[]
  readonly line: Omit<Target, 'periodDays'>
}

/** Another period for rentals, from their own end. @throws ApiError as `prepareOrder` */
export const prepareExtension = (buyer: Buyer, rentals: RentalsToExtend, periodDays: number): Prepared => {
  const product = buyer.catalog.resolve(rentals.productId)
  if (!product) throw new Error(`rentals of ${rentals.productId}, which the catalogue does not know`)
  accepted(orderable(product))
  const { country, carrierId, service, rotationMinutes } = rentals.line
  const meta = {
    country,
    period_days: periodDays,
    ...(carrierId !== null && { carrier_id: carrierId, service, rotation_minutes: rotationMinutes }),
  }
  const wanted = accepted(parseMeta(product, meta))
  const quantity = rentals.proxyIds.length
  const figures = accepted(quote(product, { quantity, wanted, terms: buyer.terms, minQuantity: 1 }))
  return draftOf(buyer, product, figures, {
    kind: 'extension',
    planId: null,
    proxyIds: rentals.proxyIds,
  })
}
