import { type Decision, decided, refused } from '../../kernel/decider.ts'
import type { AccountState } from '../accounts/fold.ts'
import { countriesOf, createCatalog, periodsOf, ratesIn } from '../catalog/catalog.ts'
import type { CatalogState } from '../catalog/product.ts'
import { isDedicated, type Product } from '../catalog/product.ts'
import type { ResellerRail } from '../payments/payments.ts'
import type { PriceLimits, RetailPrice, Shop, TermsEvent } from './events.ts'
import { type BotRef, type GatewayRef, samePriced, type Terms } from './fold.ts'
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
    /** Micro-dollars a unit; null removes the retail price. */
    readonly unitPriceMicros: number | null
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
): readonly Omit<RetailPrice, 'unitPriceMicros'>[] => {
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
  const { unitPriceMicros } = change
  const events = pricedItems(product, change).flatMap((priced): TermsEvent[] => {
    const existing = terms.retail.find((price) => samePriced(price, priced))
    if (unitPriceMicros === null) return existing ? [{ type: 'RetailPriceRemoved', data: priced }] : []
    if (existing?.unitPriceMicros === unitPriceMicros) return []
    return [{ type: 'RetailPriceSet', data: { ...priced, unitPriceMicros } }]
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
    const { unitPriceMicros } = change.retail
    if (unitPriceMicros !== null) assertWithin(unitPriceMicros, 1, maxRetailMicros, 'price in micro-dollars')
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
 * `unknown_product`, `invalid_country`, `invalid_period`, `too_many_prices`.
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
    return decided(...eventsOf(states, change))
  } catch (error) {
    if (error instanceof TermsRefused) return refused(error.refusal)
    throw error
  }
}

/** A change that resellers may make themselves, within the limits of the service. */
export type OwnPriceChange = Pick<TermsChange, 'markupMillionths' | 'retail'>

const multipleText = (millionths: number): string => String(millionths / 1_000_000)

/** The list prices of one unit of a product at any quantity, micro-dollars. */
const listPricesOf = (product: Product, { country, periodDays }: Omit<RetailPrice, 'unitPriceMicros'>) => {
  const tiers = isDedicated(product)
    ? ratesIn(product, country ?? '')
        .filter(({ target }) => target.periodDays === periodDays)
        .flatMap((rate) => rate.tiers)
    : product.tiers
  return tiers.map(({ unitPriceMicros }) => unitPriceMicros)
}

/** The limits of a price, micro-dollars: those of the lowest and of the highest list price. */
const retailLimits = (listPrices: readonly number[], { fromMillionths, toMillionths }: PriceLimits) => ({
  fromMicros: Number((BigInt(Math.min(...listPrices)) * BigInt(fromMillionths) + 999_999n) / 1_000_000n),
  toMicros: Number((BigInt(Math.max(...listPrices)) * BigInt(toMillionths)) / 1_000_000n),
})

const checkLimits = ({ catalog, terms }: TermsStates, { markupMillionths, retail }: OwnPriceChange): void => {
  const { priceLimits } = terms
  if (priceLimits === null)
    throw new TermsRefused(
      'prices_not_allowed',
      'only operators set the prices of your customers, because the service set no limits for you',
    )
  const { fromMillionths, toMillionths } = priceLimits
  const markup = markupMillionths === null ? 1_000_000 : markupMillionths
  if (markup !== undefined && (markup < fromMillionths || markup > toMillionths))
    throw new TermsRefused(
      'price_outside_limits',
      `the markup must be from ${multipleText(fromMillionths)} to ${multipleText(toMillionths)}`,
    )
  if (!retail || retail.unitPriceMicros === null) return
  const product = productOf(catalog, retail.productId)
  for (const priced of pricedItems(product, retail)) {
    const { fromMicros, toMicros } = retailLimits(listPricesOf(product, priced), priceLimits)
    if (retail.unitPriceMicros < fromMicros || retail.unitPriceMicros > toMicros)
      throw new TermsRefused(
        'price_outside_limits',
        `the price of one ${product.unit} of ${product.id} must be from ${multipleText(fromMicros)} to ${multipleText(toMicros)} dollars`,
      )
  }
}

/** A change that a reseller makes itself. Refusals: `prices_not_allowed`, `price_outside_limits`, and `decideTerms`. */
export const decideOwnPrices = (states: TermsStates, change: OwnPriceChange): TermsDecision =>
  decideWith(states, change, () => checkLimits(states, change))
