import { countryOf } from '../../terms/countries.ts'
import { microsToCentsHalfUp } from '../../terms/money.ts'
import { freeIn, holds, isAvailable, orderableCountries, type StockCount } from './availability.ts'
import { howTo, metaOf } from './how-to.ts'
import { figuresOf, type Quote, type ResellerTerms } from './pricing.ts'
import {
  type DedicatedProduct,
  deliveryOf,
  isDedicated,
  type MobileProduct,
  type Product,
} from './product.ts'
import { countriesOf, periodsOf, type Rate, ratesIn } from './rates.ts'
import { targetingFields } from './targeting.ts'

const standardPeriodDays = 30
const currency = 'USD' as const

const periodLabel = (days: number): string => (days === 1 ? '1 day' : `${days} days`)

const isStandard = ({ target }: Rate): boolean => target.periodDays === standardPeriodDays

/** The lowest price of one unit, for 30 days where that is a period of the product. */
const publishedPrice = (product: Product) => {
  const lowest = (tiers: Rate['tiers']) => Math.min(...tiers.map((tier) => tier.unitPriceMicros))
  if (!isDedicated(product)) {
    const per = product.shape === 'gateway_time' ? `${product.unit}/${product.periodDays}d` : product.unit
    return { fromCents: microsToCentsHalfUp(lowest(product.tiers)), unit: product.unit, per, currency }
  }
  const rates = countriesOf(product).flatMap((country) => ratesIn(product, country))
  const standard = rates.filter(isStandard)
  const days = standard.length > 0 ? standardPeriodDays : Math.min(...rates.map((r) => r.target.periodDays))
  const tiers = rates.filter((rate) => rate.target.periodDays === days).flatMap((rate) => rate.tiers)
  return {
    fromCents: microsToCentsHalfUp(lowest(tiers)),
    unit: product.unit,
    per: `${product.unit}/${days}d`,
    currency,
  }
}

const gatewayExtras = (product: Product) =>
  product.shape === 'gateway_gb' || product.shape === 'gateway_time'
    ? {
        generate: { maxCount: product.generate.maxCount },
        periodDays: product.shape === 'gateway_time' ? product.periodDays : null,
        tiers: product.tiers.map(({ from, unitPriceMicros }) => ({
          fromQuantity: from,
          unitPriceCents: microsToCentsHalfUp(unitPriceMicros),
        })),
      }
    : {}

/** A product as the API shows it: docs/http-api.md, "Catalogue and prices". */
export const productView = (product: Product, stock: readonly StockCount[]) => ({
  id: product.id,
  name: product.name,
  family: product.family,
  state: product.state,
  successorId: product.successorId,
  available: isAvailable(product, stock),
  shape: product.shape,
  unit: product.unit,
  delivery: deliveryOf(product.shape),
  renewal: product.renewal,
  minQuantity: product.minQuantity,
  maxQuantity: product.maxQuantity,
  billing: product.billing,
  description: product.description,
  features: product.features,
  protocols: product.protocols,
  targeting: isDedicated(product) ? targetingFields(product) : product.generate.targeting,
  ...gatewayExtras(product),
  lifecycle: {
    state: product.state,
    since: product.since,
    parkedUntil: product.parkedUntil,
    retiredAt: product.state === 'retired' ? product.since : null,
    successorId: product.successorId,
    aliases: product.aliases,
  },
  publishedPrice: publishedPrice(product),
  howTo: howTo(product, stock),
})

const resellerNote =
  'amountCents is what your customer pays: your retail price, else the service price times your markup, else the service price (listCents). ' +
  'yourCostCents is debited from your balance. expected_amount_cents is compared with amountCents when the order names a customer, and with yourCostCents when you order for yourself.'

/** A quote as the API shows it. `targeting` can be sent as `fulfillment_meta`; it is left out for gateway products. */
export const quoteView = (product: Product, quote: Quote, stock: readonly StockCount[]) => ({
  productId: quote.productId,
  quantity: quote.quantity,
  unitPriceCents: quote.unitPriceCents,
  amountCents: quote.amountCents,
  currency: quote.currency,
  billingType: quote.billingType,
  available:
    product.state === 'active' && (quote.target === null || holds(stock, quote.target, quote.quantity)),
  ...(quote.target !== null && { targeting: metaOf(quote.target) }),
  ...(quote.reseller !== null && {
    yourCostCents: quote.reseller.yourCostCents,
    marginCents: quote.reseller.marginCents,
    listCents: quote.listCents,
    note: resellerNote,
  }),
})

const partnerView = (terms: ResellerTerms) => ({
  partner: {
    discountPct: terms.discountBp / 100,
    markup: (terms.markupMillionths ?? 1_000_000) / 1_000_000,
    sellable: terms.sellable,
  },
  note: 'listCents is the service price, yourCostCents is debited from your balance, customerCents is what your customer pays (your retail price of the line, else listCents times your markup); marginCents is the difference and may be negative.',
})

const mobileFields = (product: MobileProduct, { target }: Rate) => ({
  carrierId: target.carrierId ?? '',
  carrier: product.carriers.find(({ id }) => id === target.carrierId)?.name ?? '',
  service: target.service ?? 'dedicated',
  rotation: target.rotationMinutes === 0 ? ('by_link' as const) : ('interval' as const),
  rotationMinutes: target.rotationMinutes ?? 0,
})

/**
 * The price list of a country: one line a period, or for mobile one line for each carrier, service and rotation of one
 * period. `periodDays` is for mobile only.
 */
export const priceListView = (
  product: Product & DedicatedProduct,
  request: { readonly country: string; readonly quantity: number; readonly periodDays: number | null },
  context: {
    readonly stock: readonly StockCount[]
    readonly terms: ResellerTerms | null
    readonly importedAt: string | null
  },
) => {
  const { country, quantity, periodDays } = request
  const rates = ratesIn(product, country)
    .filter(({ target }) => periodDays === null || target.periodDays === periodDays)
    .toSorted((a, b) => a.target.periodDays - b.target.periodDays)
  return {
    productId: product.id,
    unit: product.unit,
    country,
    quantity,
    currency,
    countries: countriesOf(product).map(countryOf),
    lines: rates.map((rate) => {
      const figures = figuresOf(rate, quantity, context.terms)
      return {
        days: rate.target.periodDays,
        period: periodLabel(rate.target.periodDays),
        available: product.state === 'active' && holds(context.stock, rate.target, quantity),
        listCents: figures.listCents,
        ...(product.shape === 'addresses_mobile' && mobileFields(product, rate)),
        ...figures.reseller,
      }
    }),
    ...(product.shape === 'addresses_mobile' &&
      context.importedAt !== null && { refreshedAt: context.importedAt }),
    ...(context.terms !== null && partnerView(context.terms)),
  }
}

/**
 * What can be ordered now: a country that is out of stock is left out (docs/http-api.md, "Catalogue and prices").
 * `available` is what one order can have there: of mobile products, of the carrier and service that has most.
 */
export const optionsView = (product: Product & DedicatedProduct, stock: readonly StockCount[]) => {
  const orderable = orderableCountries(product, stock)
  const free = (country: string): number =>
    Math.max(0, ...ratesIn(product, country).map(({ target }) => freeIn(stock, target)))
  const countries = countriesOf(product).filter(
    (country) => orderable.has(country) && free(country) >= product.minQuantity,
  )
  const periods = new Set(countries.flatMap((country) => periodsOf(product, country)))
  return {
    productId: product.id,
    unit: product.unit,
    minQuantity: product.minQuantity,
    maxQuantity: product.maxQuantity,
    countries: countries.map((country) => ({ ...countryOf(country), available: free(country) })),
    periods: [...periods].sort((a, b) => a - b).map((days) => ({ days, label: periodLabel(days) })),
  }
}
