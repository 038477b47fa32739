import { type Decision, decided, refused } from '../../kernel/decider.ts'
import type { AccountState } from '../accounts/fold.ts'
import {
  type Catalog,
  countriesOf,
  createCatalog,
  periodsOf,
  ratesIn,
  unitPriceMicros,
} from '../catalog/catalog.ts'
import type { OwnPrice } from '../catalog/pricing.ts'
import { type CatalogState, isDedicated, type Product, type Tier } from '../catalog/product.ts'
import type { ResellerRail } from '../payments/payments.ts'
import type { PriceLimits, RetailPrice, Shop, TermsEvent } from './events.ts'
import { type BotRef, evolveTerms, type GatewayRef, type PriceKey, samePriced, type Terms } from './fold.ts'
import { maxDiscountBp, maxMarkupMillionths, maxRetailMicros } from './limits.ts'

/** The most retail prices of one reseller. */
const maxRetailPrices = 5_000

/** Commits to the sealed credentials. */
type WithCommitment = { readonly commitment?: string }

/** A change of a reseller's terms. A missing field does not change. Null removes the value. */
export type TermsChange = {
  readonly discountBp?: number
  readonly markupMillionths?: number | null
  /** Null: only operators set the prices of the customers. */
  readonly priceLimits?: PriceLimits | null
  /** Product ids or old ids; null: every product. */
  readonly sellable?: readonly string[] | null
  readonly shop?: Partial<Shop>
  readonly gateway?: { readonly rail: ResellerRail; readonly to: (GatewayRef & WithCommitment) | null }
  readonly bot?: (BotRef & WithCommitment) | null
  readonly retail?: {
    readonly productId: string
    /** Alpha-3. At least one for dedicated IPs, else none. */
    readonly countries: readonly string[]
    /** Days. At least one for dedicated IPs, else none. */
    readonly periods: readonly number[]
    /** Null removes the retail price. */
    readonly price: OwnPrice | null
  }
}

export type TermsRefusal = {
  readonly code:
    | 'unknown_account'
    | 'not_a_reseller'
    | 'unknown_product'
    | 'invalid_country'
    | 'invalid_period'
    | 'too_many_prices'
    | 'prices_not_allowed'
    | 'price_outside_limits'
    | 'price_below_cost'
  /** Names the accepted values. */
  readonly message: string
}

export type TermsDecision = Decision<TermsEvent, TermsRefusal>

export type TermsStates = {
  readonly account: AccountState
  readonly catalog: CatalogState
  readonly terms: Terms
}

/** Thrown within this file, so that a refusal of any part refuses the whole change. */
class TermsRefused extends Error {
  readonly refusal: TermsRefusal
  constructor(code: TermsRefusal['code'], message: string) {
    super(message)
    this.refusal = { code, message }
  }
}

const productOf = (catalog: CatalogState, id: string): Product => {
  const product = createCatalog(catalog).resolve(id)
  if (product) return product
  const choices = catalog.products.map((one) => one.id).sort()
  throw new TermsRefused(
    'unknown_product',
    choices.length === 0
      ? `no product has the id ${id}: the catalogue is empty, "catalog import" fills it`
      : `no product has the id ${id}; the products are ${choices.join(', ')}`,
  )
}

/** What a retail price applies to: a product, or each combination of its named countries and periods. */
const pricedItems = (
  product: Product,
  { countries, periods }: NonNullable<TermsChange['retail']>,
): readonly PriceKey[] => {
  const productId = product.id
  if (!isDedicated(product)) {
    if (countries.length > 0)
      throw new TermsRefused('invalid_country', `${productId} has one price for all countries; name none`)
    if (periods.length > 0)
      throw new TermsRefused('invalid_period', `${productId} has one price for all periods; name none`)
    return [{ productId, country: null, periodDays: null }]
  }
  const soldCountries = countriesOf(product)
  const unsoldCountry = countries.find((country) => !soldCountries.includes(country))
  if (unsoldCountry !== undefined || countries.length === 0)
    throw new TermsRefused(
      'invalid_country',
      `the country of ${productId} must be some of ${soldCountries.join(', ')}`,
    )
  return countries.flatMap((country) => {
    const choices = periodsOf(product, country)
    if (periods.length === 0 || periods.some((days) => !choices.includes(days)))
      throw new TermsRefused(
        'invalid_period',
        `the period of ${productId} in ${country} must be some of ${choices.join(', ')} days`,
      )
    return periods.map((periodDays) => ({ productId, country, periodDays }))
  })
}

const retailEvents = (
  catalog: CatalogState,
  terms: Terms,
  change: NonNullable<TermsChange['retail']>,
): TermsEvent[] => {
  const product = productOf(catalog, change.productId)
  const events = pricedItems(product, change).flatMap((priced): TermsEvent[] => {
    const existing = terms.retail.find((price) => samePriced(price, priced))
    if (change.price === null) return existing ? [{ type: 'RetailPriceRemoved', data: priced }] : []
    const price = { ...priced, ...change.price }
    const isUnchanged = existing !== undefined && JSON.stringify(existing) === JSON.stringify(price)
    return isUnchanged ? [] : [{ type: 'RetailPriceSet', data: price }]
  })
  const newPrices = events.filter(
    ({ type, data }) =>
      type === 'RetailPriceSet' && !terms.retail.some((price) => samePriced(price, data as RetailPrice)),
  )
  if (terms.retail.length + newPrices.length > maxRetailPrices)
    throw new TermsRefused(
      'too_many_prices',
      `a reseller has at most ${maxRetailPrices} retail prices; a markup prices the rest`,
    )
  return events
}

const sellableEvents = (
  catalog: CatalogState,
  terms: Terms,
  requestedIds: readonly string[] | null,
): TermsEvent[] => {
  const productIds =
    requestedIds === null ? null : [...new Set(requestedIds.map((id) => productOf(catalog, id).id))].sort()
  const isUnchanged = JSON.stringify(productIds) === JSON.stringify(terms.sellable)
  return isUnchanged ? [] : [{ type: 'SellableChanged', data: { productIds } }]
}

const shopEvents = (terms: Terms, change: Partial<Shop>): TermsEvent[] => {
  const shop = { ...terms.shop, ...change }
  const isUnchanged = (Object.keys(shop) as (keyof Shop)[]).every(
    (field) => shop[field] === terms.shop[field],
  )
  return isUnchanged ? [] : [{ type: 'ShopChanged', data: shop }]
}

const gatewayEvents = (
  terms: Terms,
  { rail, to }: NonNullable<TermsChange['gateway']>,
): readonly TermsEvent[] => {
  if (to !== null) return [{ type: 'GatewaySet', data: { rail, ...to } }]
  return terms.gateways[rail] === null ? [] : [{ type: 'GatewayRemoved', data: { rail } }]
}

const botEvents = (terms: Terms, bot: (BotRef & WithCommitment) | null): readonly TermsEvent[] => {
  if (bot !== null) return [{ type: 'MessagingBotSet', data: bot }]
  return terms.bot === null ? [] : [{ type: 'MessagingBotRemoved', data: {} }]
}

const assertWithin = (value: number, min: number, max: number, what: string): number => {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw new RangeError(`${value} is no ${what}: a whole number from ${min} to ${max}`)
}

const eventsOf = ({ catalog, terms }: TermsStates, change: TermsChange): TermsEvent[] => {
  const events: TermsEvent[] = []
  const { discountBp, markupMillionths } = change
  if (discountBp !== undefined && discountBp !== terms.discountBp)
    events.push({
      type: 'DiscountChanged',
      data: { discountBp: assertWithin(discountBp, 0, maxDiscountBp, 'discount in basis points') },
    })
  if (markupMillionths !== undefined && markupMillionths !== terms.markupMillionths) {
    if (markupMillionths !== null)
      assertWithin(markupMillionths, 1, maxMarkupMillionths, 'markup in millionths')
    events.push({ type: 'MarkupChanged', data: { markupMillionths } })
  }
  const { priceLimits } = change
  if (priceLimits !== undefined && JSON.stringify(priceLimits) !== JSON.stringify(terms.priceLimits)) {
    if (priceLimits !== null) {
      const { fromMillionths, toMillionths } = priceLimits
      assertWithin(toMillionths, 1, maxMarkupMillionths, 'highest multiple in millionths')
      assertWithin(fromMillionths, 1, toMillionths, 'lowest multiple in millionths')
    }
    events.push({ type: 'PriceLimitsChanged', data: { limits: priceLimits } })
  }
  if (change.retail) {
    for (const { unitPriceMicros } of change.retail.price?.tiers ?? [])
      assertWithin(unitPriceMicros, 1, maxRetailMicros, 'price in micro-dollars')
    events.push(...retailEvents(catalog, terms, change.retail))
  }
  if (change.sellable !== undefined) events.push(...sellableEvents(catalog, terms, change.sellable))
  if (change.shop) events.push(...shopEvents(terms, change.shop))
  if (change.gateway) events.push(...gatewayEvents(terms, change.gateway))
  if (change.bot !== undefined) events.push(...botEvents(terms, change.bot))
  return events
}

/**
 * Changes a reseller's terms, either all parts of a change or none. Refusals: `unknown_account`, `not_a_reseller`,
 * `unknown_product`, `invalid_country`, `invalid_period`, `too_many_prices`, `price_outside_limits`,
 * `price_below_cost`.
 * @throws RangeError for figures outside their bounds, which the caller checks first
 */
export const decideTerms = (states: TermsStates, change: TermsChange): TermsDecision =>
  decideWith(states, change)

/** `check` throws `TermsRefused` for a change that its author may not make. */
const decideWith = (states: TermsStates, change: TermsChange, check?: () => void): TermsDecision => {
  const { account } = states
  if (!account)
    return refused({
      code: 'unknown_account',
      message: 'no account has this id; "accounts create --reseller" makes one',
    })
  if (!account.reseller)
    return refused({
      code: 'not_a_reseller',
      message: 'the account is not a reseller\'s; create one with "accounts create --reseller"',
    })
  try {
    check?.()
    const events = eventsOf(states, change)
    checkPrices(states, change, events)
    return decided(...events)
  } catch (error) {
    if (error instanceof TermsRefused) return refused(error.refusal)
    throw error
  }
}

/** A change that resellers may make themselves, within the limits of the service. */
export type OwnPriceChange = Pick<TermsChange, 'markupMillionths' | 'retail'>

/** Micro-dollars in dollars, or millionths in units. */
const decimalText = (millionths: number): string => String(millionths / 1_000_000)

/** The tiers of a product's list prices: one list, or one for each of the lines with this country and period. */
const listTiersOf = (product: Product, { country, periodDays }: PriceKey): readonly (readonly Tier[])[] =>
  isDedicated(product)
    ? ratesIn(product, country ?? '')
        .filter(({ target }) => target.periodDays === periodDays)
        .map(({ tiers }) => tiers)
    : [product.tiers]

/** A price in millionths of another one, rounded up. */
const shareUp = (micros: number, millionths: number): number =>
  Number((BigInt(micros) * BigInt(millionths) + 999_999n) / 1_000_000n)

/**
 * Checks a price at every quantity that can be ordered. The list price and the own price are constant between the
 * quantities at which a tier of one of them begins.
 * @returns price_outside_limits or price_below_cost; null: the price is allowed
 */
const priceProblem = (
  product: Product,
  key: PriceKey,
  price: OwnPrice,
  terms: Terms,
): TermsRefusal | null => {
  const { priceLimits, discountBp } = terms
  for (const listTiers of listTiersOf(product, key))
    for (const { from } of [...listTiers, ...price.tiers].filter(
      (tier) => tier.from <= product.maxQuantity,
    )) {
      const listMicros = unitPriceMicros(listTiers, from)
      const priceMicros = unitPriceMicros(price.tiers, from)
      const where = `${product.id}${key.country === null ? '' : ` in ${key.country}`} from a quantity of ${from} on`
      const least = priceLimits === null ? 0 : shareUp(listMicros, priceLimits.fromMillionths)
      const most =
        priceLimits === null
          ? maxRetailMicros
          : Number((BigInt(listMicros) * BigInt(priceLimits.toMillionths)) / 1_000_000n)
      if (priceMicros < least || priceMicros > most)
        return {
          code: 'price_outside_limits',
          message: `the price of one ${product.unit} of ${where} must be from ${decimalText(least)} to ${decimalText(most)} dollars, and is ${decimalText(priceMicros)}`,
        }
      const cost = shareUp(listMicros, (10_000 - discountBp) * 100)
      if (priceMicros < cost && !price.belowCost)
        return {
          code: 'price_below_cost',
          message: `one ${product.unit} of ${where} costs you ${decimalText(cost)} dollars, more than the price ${decimalText(priceMicros)}; a price below your cost must be allowed for this product`,
        }
    }
  return null
}

/** price_outside_limits or price_below_cost; null: the markup is allowed. */
const markupProblem = ({ markupMillionths, priceLimits, discountBp }: Terms): TermsRefusal | null => {
  const markup = markupMillionths ?? 1_000_000
  if (priceLimits !== null && (markup < priceLimits.fromMillionths || markup > priceLimits.toMillionths))
    return {
      code: 'price_outside_limits',
      message: `the markup must be from ${decimalText(priceLimits.fromMillionths)} to ${decimalText(priceLimits.toMillionths)}`,
    }
  const costMillionths = (10_000 - discountBp) * 100
  return markup < costMillionths
    ? {
        code: 'price_below_cost',
        message: `your cost is ${decimalText(costMillionths)} times the list price, so the markup must be at least that`,
      }
    : null
}

/** Whether the markup is outside the limits or below the cost by now, because they changed. */
export const isMarkupAdjusted = (terms: Terms): boolean => markupProblem(terms) !== null

/** Whether a retail price is outside the limits or below the cost by now, because they or the list prices changed. */
export const isAdjusted = (catalog: Pick<Catalog, 'resolve'>, terms: Terms, price: RetailPrice): boolean => {
  const product = catalog.resolve(price.productId)
  return product !== undefined && priceProblem(product, price, price, terms) !== null
}

/** The prices that a change sets must be possible under the terms after it. */
const checkPrices = (
  { catalog, terms }: TermsStates,
  { markupMillionths, retail }: TermsChange,
  events: readonly TermsEvent[],
): void => {
  const termsAfter = events.reduce(evolveTerms, terms)
  const refuseFor = (problem: TermsRefusal | null): void => {
    if (problem !== null) throw new TermsRefused(problem.code, problem.message)
  }
  if (markupMillionths !== undefined) refuseFor(markupProblem(termsAfter))
  if (!retail?.price) return
  const product = productOf(catalog, retail.productId)
  for (const key of pricedItems(product, retail))
    refuseFor(priceProblem(product, key, retail.price, termsAfter))
}

/** A change that a reseller makes itself. Refusals: `prices_not_allowed`, and those of `decideTerms`. */
export const decideOwnPrices = (states: TermsStates, change: OwnPriceChange): TermsDecision =>
  decideWith(states, change, () => {
    if (states.terms.priceLimits === null)
      throw new TermsRefused(
        'prices_not_allowed',
        'only operators set the prices of your customers, because the service set no limits for you',
      )
  })
