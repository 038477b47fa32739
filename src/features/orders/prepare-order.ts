import { type LiveStock, lineInStock } from '../../domain/catalog/availability.ts'
import {
  type Catalog,
  orderable,
  parseMeta,
  parseTargeting,
  productOfOrder,
  type RateRequest,
} from '../../domain/catalog/catalog.ts'
import {
  type Quote,
  quantityOf,
  quote,
  type RefreshTerms,
  type ResellerTerms,
  saleOf,
  type TermsOf,
} from '../../domain/catalog/pricing.ts'
import { isDedicated, type Product } from '../../domain/catalog/product.ts'
import type { OrderDraft } from '../../domain/orders/decide-placement.ts'
import type { OrderDetails, OrderMethod, Target } from '../../domain/shared/order-terms.ts'
import type { Actor } from '../../kernel/event.ts'
import {
  type AccountId,
  type CustomerId,
  type KeyId,
  type OrderId,
  type PlanId,
  type ProxyId,
  planIdOfOrder,
} from '../../kernel/ids.ts'
import type { KeyCap } from '../../kernel/scopes.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import type { AccountVisit } from '../../platform/ui/page.ts'
import { requireHolderNamed } from '../accounts/index.ts'
import { requireAccepted } from '../catalog/index.ts'

/** An order without the parts of its request. */
export type Prepared = Omit<OrderDraft, 'fingerprint'>

/** The sources of prices and stock. */
export type PriceSources = {
  readonly catalog: { current(): Catalog }
  readonly stock: LiveStock
  readonly termsOf: TermsOf
  readonly refreshTerms: RefreshTerms
}

/** The item of an order. */
export type OrderItem =
  | ({ readonly kind: 'order' } & ProductSelection)
  | { readonly kind: 'topup'; readonly plan: PlanToTopUp; readonly quantity: number }
  | { readonly kind: 'extension'; readonly rentals: RentalsToExtend | ApiError; readonly periodDays: number }
  /** Already quoted, such as the period of a subscription; or its refusal. */
  | { readonly kind: 'quoted'; readonly order: Prepared | ApiError }

type ProductSelection = {
  /** A current or a former product id. */
  readonly productId: string
  readonly quantity: number
  /** Targeting of dedicated addresses. */
  readonly meta: Readonly<Record<string, unknown>> | undefined
}

type PlanToTopUp = {
  readonly planId: PlanId
  readonly productId: string
  /** Null: the account's own plan. */
  readonly customerId: CustomerId | null
}

/** The value of a promise, or the refusal that it rejects with. */
export const orRefusal = <Value>(quoted: Promise<Value>): Promise<Value | ApiError> =>
  quoted.catch((error: unknown) => {
    if (error instanceof ApiError) return error
    throw error
  })

/**
 * Validates and prices an item.
 * @returns the order, or the refusal of the item: a known key returns its order even if the item is refused by now
 */
export const quoteItem = (
  item: OrderItem,
  prices: PriceSources,
  order: Omit<Buyer, 'termsOf' | 'catalog'>,
): Promise<Prepared | ApiError> =>
  orRefusal(
    (async () => {
      if (item.kind === 'quoted') return item.order
      const { catalog, stock, termsOf, refreshTerms } = prices
      const { caller } = order
      await refreshTerms(caller)
      const buyer = {
        ...order,
        termsOf: (product: Product) => termsOf(caller, product),
        catalog: catalog.current(),
      }
      switch (item.kind) {
        case 'order':
          return prepareOrder(buyer, item, stock)
        case 'topup':
          return prepareTopUp(buyer, item.plan, item.quantity)
        case 'extension':
          if (item.rentals instanceof ApiError) throw item.rentals
          return prepareExtension(buyer, item.rentals, item.periodDays)
        default:
          return item satisfies never
      }
    })(),
  )

/** The buyer, the customer and the payment method. */
export type Buyer = {
  readonly orderId: OrderId
  readonly caller: Payer
  readonly customerId: CustomerId | null
  /** Null for an account that is not a reseller. */
  readonly termsOf: (product: Product) => ResellerTerms | null
  readonly method: OrderMethod
  /** The methods that can pay an own order: the wallet, and each rail with a live gateway. */
  readonly payableBy: readonly OrderMethod[]
  readonly expectedAmountCents: number | undefined
  readonly catalog: Catalog
}

/**
 * The last checks before the order is decided (docs/reference/api.md, "Order of checks"): a rail without a live
 * gateway, then the price guard.
 */
const draftOf = (
  buyer: Buyer,
  product: Product,
  { figures, terms }: { readonly figures: Quote; readonly terms: ResellerTerms | null },
  rest: Pick<OrderDetails, 'kind' | 'planId' | 'proxyIds'>,
): Prepared => {
  const { orderId, caller, customerId, method, payableBy, expectedAmountCents, catalog } = buyer
  refuseFree(figures)
  // A customer's order is paid by credit, whatever the method. The method is for the missing amount.
  if (customerId === null && !payableBy.includes(method))
    throw refuse(
      'deposits_not_available',
      `no live payment gateway serves "${method}" here; method must be one of ${payableBy.join(', ')}`,
    )
  const sale = saleOf(product, figures, { terms, isForCustomer: customerId !== null })
  const { amountCents, unitPriceCents, quantity } = sale
  if (expectedAmountCents !== undefined && expectedAmountCents !== amountCents)
    throw refuse('price_changed', `the price is ${amountCents} cents, not ${expectedAmountCents}`, {
      amountCents,
      unitPriceCents,
      quantity,
    })
  return {
    orderId,
    accountId: caller.accountId,
    ...orderedBy(caller),
    customerId,
    ...rest,
    ...sale,
    method,
    catalogDigest: catalog.digest ?? '',
  }
}

/** Refuses orders that round to 0 cents: a zero debit would leave no trace in the wallet. */
const refuseFree = ({ amountCents, reseller }: Quote): void => {
  if (amountCents === 0 || reseller?.yourCostCents === 0)
    throw refuse('invalid_quantity', 'this quantity comes to less than half a cent; order more of it')
}

/**
 * Customers may order only from the reseller's own catalogue (docs/reference/api.md, "Catalogue and prices":
 * `sellable`).
 */
const refuseUnsellable = (
  product: Product,
  customerId: CustomerId | null,
  terms: ResellerTerms | null,
): void => {
  if (customerId !== null && terms?.sellable === false)
    throw refuse('product_unavailable', `${product.id} is not in your catalogue: customers cannot order it`, {
      successorId: null,
    })
}

/**
 * Validates and prices an order of a product.
 * @throws ApiError unknown_product, product_unavailable, invalid_quantity, invalid_country, invalid_period,
 * invalid_targeting, deposits_not_available, price_changed
 */
export const prepareOrder = async (
  buyer: Buyer,
  { productId, quantity, meta }: ProductSelection,
  stock: LiveStock,
): Promise<Prepared> => {
  const product = requireAccepted(productOfOrder(buyer.catalog, productId))
  const terms = buyer.termsOf(product)
  refuseUnsellable(product, buyer.customerId, terms)
  // The quantity is checked before the targeting (docs/reference/api.md, "Order of checks").
  requireAccepted(quantityOf(product, quantity))
  const rateRequest = requireAccepted(parseMeta(product, meta))
  const open = product.shape === 'addresses_mobile' && rateRequest !== null && isOpen(rateRequest)
  const inStock = open ? lineInStock(await stock.of(product.id), quantity) : undefined
  const figures = requireAccepted(
    quote(product, { quantity, rateRequest, terms, ...(inStock && { inStock }) }),
  )
  // The id of a new plan. For a product that is topped up, the payer's current plan replaces it (append-order.ts).
  const planId = isDedicated(product) ? null : planIdOfOrder(buyer.orderId)
  return draftOf(buyer, product, { figures, terms }, { kind: 'order', planId, proxyIds: [] })
}

const isOpen = (rateRequest: RateRequest): boolean =>
  rateRequest.carrierId === null || rateRequest.service === null || rateRequest.rotationMinutes === null

/**
 * Prices a top-up of a plan.
 * @throws ApiError as `prepareOrder`; invalid_body if the product is not topped up but bought again
 */
const prepareTopUp = (buyer: Buyer, plan: PlanToTopUp, quantity: number): Prepared => {
  requireHolderNamed(plan.customerId, buyer.customerId, 'the plan')
  const product = requireAccepted(productOfOrder(buyer.catalog, plan.productId))
  if (product.renewal !== 'topup')
    throw refuse(
      'invalid_body',
      `a plan of ${product.id} cannot be topped up; buy a new one with POST /api/v1/orders`,
    )
  const terms = buyer.termsOf(product)
  const figures = requireAccepted(quote(product, { quantity, rateRequest: null, terms }))
  return draftOf(buyer, product, { figures, terms }, { kind: 'topup', planId: plan.planId, proxyIds: [] })
}

/** Equal rentals: of one product, in one country, on one mobile line. */
export type RentalsToExtend = {
  readonly productId: string
  readonly proxyIds: readonly ProxyId[]
  readonly line: Omit<Target, 'periodDays'>
  /** The longest period that may be added to all of them, days; left out: no limit, as in a renewal. */
  readonly extendableDays?: number
}

/** Prices another period for rentals, from the end of each. @throws ApiError as `prepareOrder` */
export const prepareExtension = (buyer: Buyer, rentals: RentalsToExtend, periodDays: number): Prepared => {
  const product = buyer.catalog.resolve(rentals.productId)
  if (!product) throw new Error(`rentals of ${rentals.productId}, which the catalogue does not know`)
  requireAccepted(orderable(product))
  const { country, carrierId, service, rotationMinutes } = rentals.line
  const fields = {
    country,
    period_days: periodDays,
    ...(carrierId !== null && { carrier_id: carrierId, service, rotation_minutes: rotationMinutes }),
  }
  const rateRequest = requireAccepted(parseTargeting(product, fields))
  if (rentals.extendableDays !== undefined && periodDays > rentals.extendableDays)
    throw refuse(
      'invalid_period',
      `period_days must be at most ${Math.max(0, rentals.extendableDays)} here: a rental ends at most ten years from now`,
    )
  const quantity = rentals.proxyIds.length
  if (quantity > product.maxQuantity)
    throw refuse(
      'invalid_quantity',
      `one extension keeps 1 to ${product.maxQuantity} addresses of ${product.id}, not ${quantity}; name fewer proxy_ids`,
    )
  const terms = buyer.termsOf(product)
  const figures = requireAccepted(quote(product, { quantity, rateRequest, terms, minQuantity: 1 }))
  const { proxyIds } = rentals
  return draftOf(buyer, product, { figures, terms }, { kind: 'extension', planId: null, proxyIds })
}

/** The payer of a console session: the wallet of the visitor's own account, without a key. */
export const payerOf = ({ account, cause }: AccountVisit): Payer => {
  const { actor } = cause
  if (actor.kind === 'key') throw new Error('a person has no key')
  const { accountId, reseller } = account
  return { accountId, reseller, keyId: null, actor }
}

/** A key that pays from its account's wallet, under its own daily cap. */
type KeyPayer = Pick<Caller, 'accountId' | 'reseller' | 'keyId' | 'capKeyId' | 'cap'>

/**
 * A payer without a key: a person in the console, or the service for an order that such a person started. No key's cap
 * applies, and none is used up.
 */
type KeylessPayer = {
  readonly accountId: AccountId
  readonly reseller: boolean
  readonly keyId: null
  readonly actor: Exclude<Actor, { readonly kind: 'key' }>
}

/** The account whose wallet pays, and its limits (docs/decisions/0060). */
export type Payer = KeyPayer | KeylessPayer

/** The cap of the payer's key; null for no cap. */
export const capOfPayer = (payer: Payer): KeyCap | null => (payer.keyId === null ? null : payer.cap)

/**
 * The actor in the events of this payer.
 * @throws Error for a session of another account: it may view the account, but never pay from its wallet
 */
export const actorOfPayer = (payer: Payer): Actor => {
  const { accountId, keyId } = payer
  if (keyId !== null) return { kind: 'key', accountId, keyId }
  const { actor } = payer
  if (actor.kind === 'session' && actor.subjectId !== accountId)
    throw new Error(`session ${actor.sessionId} is of ${actor.subjectId} and cannot pay for ${accountId}`)
  return actor
}

/** The payer's fields of an order: of a key, or of none. `capKeyId` is left out if it equals `keyId`. */
export const orderedBy = (
  payer: { readonly keyId: KeyId; readonly capKeyId: KeyId } | { readonly keyId: null },
): Pick<OrderDetails, 'keyId' | 'capKeyId'> => {
  if (payer.keyId === null) return { keyId: null }
  const { keyId, capKeyId } = payer
  return capKeyId === keyId ? { keyId } : { keyId, capKeyId }
}
