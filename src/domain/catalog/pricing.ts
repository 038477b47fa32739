import type { AccountId } from '../../kernel/ids.ts'
import { basisPoints, millionths, multiplyToCents, shareOfCents } from '../../kernel/money.ts'
import type { OrderDetails, Target } from '../shared/order-terms.ts'
import { chooseRate, type LineInStock, type RateRequest, unitPriceMicros } from './catalog.ts'
import { accept, deliveryOf, type Product, type Result, reject, type Tier } from './product.ts'

/** A customer's price of one unit by quantity. `belowCost`: the reseller allows a price below its cost. */
export type OwnPrice = { readonly tiers: readonly Tier[]; readonly belowCost: boolean }

/** A reseller's terms for one product. */
export type ResellerTerms = {
  /** The discount from the list price, basis points: 1,250 is 12.5 %. */
  readonly discountBp: number
  /** The customer's price as a multiple of the list price, millionths: 1,300,000 is 1.30; null without one. */
  readonly markupMillionths: number | null
  /** The customer's prices by `retailKey`. They take precedence over the markup. */
  readonly retail: ReadonlyMap<string, OwnPrice>
  /** The limits of the customer's price as multiples of the list price, millionths; null: none. */
  readonly priceLimits: { readonly fromMillionths: number; readonly toMillionths: number } | null
  /** Whether the product is in the reseller's own catalogue. */
  readonly sellable: boolean
  /** The revision of the reseller's terms; null if none were set. */
  readonly revision: number | null
}

/** A caller's terms for a product; null if the caller is not a reseller. */
export type TermsOf = (
  caller: { readonly accountId: AccountId; readonly reseller: boolean },
  product: Product,
) => ResellerTerms | null

/** Reads a caller's terms from the log, so that `TermsOf` has them before a decision. */
export type RefreshTerms = (caller: {
  readonly accountId: AccountId
  readonly reseller: boolean
}) => Promise<void>

/** The key of a retail price of a product: its country and period, if the product has them. */
export const retailKey = (target: Pick<Target, 'country' | 'periodDays'> | null): string =>
  target === null ? '' : `${target.country} ${target.periodDays}`

/** Without own terms of the reseller, cost and customer price are the list price. */
export const defaultResellerTerms: ResellerTerms = {
  discountBp: 0,
  markupMillionths: null,
  retail: new Map(),
  priceLimits: null,
  sellable: true,
  revision: null,
}

export type QuoteInput = {
  /** Any value. It is refused if it is not a whole number within the product's bounds. */
  readonly quantity: unknown
  /** From `parseMeta` or `parseQuery`; null for a gateway product. */
  readonly rateRequest: RateRequest | null
  /** Null for an account that is not a reseller. */
  readonly terms: ResellerTerms | null
  /** Filters the mobile lines that can be chosen if the choice is open. Absent: all. */
  readonly inStock?: LineInStock
  /** The least quantity, if it is not the product's own. An extension can be of 1. */
  readonly minQuantity?: number
}

/** All whole cents. `amountCents` is what the customer pays; without a reseller it is the list price. */
export type Figures = {
  readonly unitPriceCents: number
  readonly amountCents: number
  readonly listCents: number
  /** Null for an account that is not a reseller. */
  readonly reseller: {
    readonly yourCostCents: number
    readonly customerCents: number
    /** Customer price less cost. It may be negative. */
    readonly marginCents: number
  } | null
}

export type Quote = Figures & {
  readonly productId: string
  readonly quantity: number
  /** The resolved target of a dedicated product; null for a gateway product. */
  readonly target: Target | null
  readonly currency: 'USD'
  readonly billingType: 'PAYG'
}

/** The target of a dedicated product (null for a gateway product), and the list's tiers for it. */
export type Priced = { readonly target: Target | null; readonly tiers: readonly Tier[] }

/**
 * Computes the figures for price, price list, order, refund and margin. No other function does. Each amount is computed
 * exactly in micro-dollars and rounded half up to a cent once (docs/reference/api.md, "Catalogue and prices").
 *
 * Prices are checked when they are set. List prices, discounts and limits change later: a customer's price that is
 * outside the limits now is moved to the nearest limit, and one below the cost to the cost (docs/decisions/0133).
 */
export const figuresOf = (
  { target, tiers }: Priced,
  quantity: number,
  terms: ResellerTerms | null,
): Figures => {
  const units = { numerator: quantity, denominator: 1 }
  const listMicros = unitPriceMicros(tiers, quantity)
  const listCents = multiplyToCents(listMicros, units)
  const unitPriceCents = (amountCents: number) => shareOfCents(amountCents, 1, quantity)
  if (terms === null)
    return { unitPriceCents: unitPriceCents(listCents), amountCents: listCents, listCents, reseller: null }
  const yourCostCents = multiplyToCents(listMicros, units, basisPoints(10_000 - terms.discountBp))
  const ownPrice = terms.retail.get(retailKey(target))
  const listTimes = (multiple: number) => multiplyToCents(listMicros, units, millionths(multiple))
  const wantedCents =
    ownPrice === undefined
      ? listTimes(terms.markupMillionths ?? 1_000_000)
      : multiplyToCents(unitPriceMicros(ownPrice.tiers, quantity), units)
  const { priceLimits } = terms
  const limitedCents =
    priceLimits === null
      ? wantedCents
      : Math.min(
          Math.max(wantedCents, listTimes(priceLimits.fromMillionths)),
          listTimes(priceLimits.toMillionths),
        )
  const customerCents = ownPrice?.belowCost ? limitedCents : Math.max(limitedCents, yourCostCents)
  return {
    unitPriceCents: unitPriceCents(customerCents),
    amountCents: customerCents,
    listCents,
    reseller: { yourCostCents, customerCents, marginCents: customerCents - yourCostCents },
  }
}

/**
 * A whole number of units within the product's bounds. Refusal: invalid_quantity, also for text, fractions and a
 * missing quantity (docs/reference/api.md, "Orders").
 */
export const quantityOf = (
  product: Product,
  quantity: unknown,
  minQuantity = product.minQuantity,
): Result<number> =>
  typeof quantity === 'number' &&
  Number.isInteger(quantity) &&
  quantity >= minQuantity &&
  quantity <= product.maxQuantity
    ? accept(quantity)
    : reject(
        'invalid_quantity',
        `quantity must be a whole number of ${product.unit} from ${minQuantity} to ${product.maxQuantity}`,
      )

/**
 * Prices a quantity of a product. It does not check the product's state, because a parked product can be priced.
 * Refusals: invalid_quantity, invalid_targeting (see also `parseMeta` and `parseQuery`).
 */
export const quote = (product: Product, input: QuoteInput): Result<Quote> => {
  const quantity = quantityOf(product, input.quantity, input.minQuantity)
  if (!quantity.ok) return quantity
  const priced = pricedOf(product, quantity.value, input)
  if (!priced.ok) return priced
  return accept({
    productId: product.id,
    quantity: quantity.value,
    target: priced.value.target,
    ...figuresOf(priced.value, quantity.value, input.terms),
    currency: 'USD',
    billingType: 'PAYG',
  })
}

const pricedOf = (
  product: Product,
  quantity: number,
  { rateRequest, inStock = () => true }: QuoteInput,
): Result<Priced> => {
  if (product.shape === 'gateway_gb' || product.shape === 'gateway_time')
    return accept({ target: null, tiers: product.tiers })
  if (rateRequest === null) throw new Error(`a quote of ${product.id} needs a target`)
  return chooseRate(product, rateRequest, quantity, inStock)
}

/** The fields of an order that follow from the product, the terms and the request. */
export type Sale = Pick<
  OrderDetails,
  | 'productId'
  | 'family'
  | 'shape'
  | 'delivery'
  | 'renewal'
  | 'unit'
  | 'quantity'
  | 'target'
  | 'bytes'
  | 'periodDays'
  | 'unitPriceCents'
  | 'amountCents'
  | 'costCents'
  | 'termsRevision'
  | 'listCents'
  | 'currency'
  | 'billingType'
>

const bytesPerGb = 1_000_000_000

/**
 * The charged amount: the service's price, or for a reseller its cost. For a reseller's customer it is the customer's
 * price, and the cost is a separate field.
 */
const chargesOf = (
  { amountCents, reseller }: Quote,
  isForCustomer: boolean,
  terms: ResellerTerms | null,
): Pick<Sale, 'amountCents' | 'costCents' | 'termsRevision'> => {
  if (reseller === null) return { amountCents }
  const { yourCostCents } = reseller
  const charges = isForCustomer ? { amountCents, costCents: yourCostCents } : { amountCents: yourCostCents }
  const revision = terms?.revision ?? null
  return revision === null ? charges : { ...charges, termsRevision: revision }
}

/** The quote as fields of an order: the charges and what is delivered. */
export const saleOf = (
  product: Product,
  figures: Quote,
  { terms, isForCustomer }: { readonly terms: ResellerTerms | null; readonly isForCustomer: boolean },
): Sale => {
  const charges = chargesOf(figures, isForCustomer, terms)
  const { quantity, target, listCents, currency, billingType } = figures
  return {
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
    unitPriceCents: shareOfCents(charges.amountCents, 1, quantity),
    ...charges,
    listCents,
    currency,
    billingType,
  }
}
