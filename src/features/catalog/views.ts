import {
  freeCount,
  hasFreeStock,
  isAvailable,
  type LiveStock,
  noStock,
  orderableCountries,
  type StockCount,
} from '../../domain/catalog/availability.ts'
import {
  type Catalog,
  countriesOf,
  metaOf,
  periodsOf,
  type Rate,
  ratesIn,
  targetingFields,
} from '../../domain/catalog/catalog.ts'
import { figuresOf, type Quote, type ResellerTerms } from '../../domain/catalog/pricing.ts'
import type { CatalogRefusal, Result } from '../../domain/catalog/product.ts'
import {
  type DedicatedProduct,
  deliveryOf,
  isDedicated,
  type MobileProduct,
  type Product,
} from '../../domain/catalog/product.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { countryOf } from '../../kernel/countries.ts'
import { microsToCentsHalfUp } from '../../kernel/money.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'
import { JsonBytes } from '../../platform/http/route.ts'
import { createLiveRows } from '../../platform/projections/live.ts'
import type { Watch } from '../../platform/projections/progress.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { howTo } from './how-to.ts'

/** The name of a product for people; its id if the catalogue has no such product. */
export const productName = (catalog: { current(): Pick<Catalog, 'resolve'> }, productId: string): string =>
  catalog.current().resolve(productId)?.name ?? productId

/** Links to the pages of the products that are sold. */
export const productLinks = (catalog: { current(): Pick<Catalog, 'products'> }): Html =>
  html`${catalog
    .current()
    .products.filter(({ state }) => state === 'active')
    .map(({ id, name }, at) => html`${at === 0 ? '' : ', '}<a href="/console/catalogue/${id}">${name}</a>`)}`

/** A refusal of the catalogue as an API error. */
const refuseForCatalog = (refusal: CatalogRefusal): ApiError =>
  refusal.code === 'product_unavailable'
    ? refuse('product_unavailable', refusal.message, { successorId: refusal.successorId ?? null })
    : refuse(refusal.code, refusal.message)

/** The value of a result. @throws ApiError for a refusal */
export const requireAccepted = <Value>(result: Result<Value>): Value => {
  if (!result.ok) throw refuseForCatalog(result.refusal)
  return result.value
}

const standardPeriodDays = 30
const currency = 'USD' as const

const periodLabel = (days: number): string => (days === 1 ? '1 day' : `${days} days`)

const isStandard = ({ target }: Rate): boolean => target.periodDays === standardPeriodDays

/** The lowest price of one unit, for 30 days if the product has this period. */
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

/** A product in the API: docs/reference/api.md, "Catalogue and prices". */
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

/** A quote in the API. `targeting` can be sent as `fulfillment_meta`; it is left out for gateway products. */
export const quoteView = (product: Product, quote: Quote, stock: readonly StockCount[]) => ({
  productId: quote.productId,
  quantity: quote.quantity,
  unitPriceCents: quote.unitPriceCents,
  amountCents: quote.amountCents,
  currency: quote.currency,
  billingType: quote.billingType,
  available:
    product.state === 'active' &&
    (quote.target === null || hasFreeStock(stock, quote.target, quote.quantity)),
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
 * The price list of a country: one line for each period. For mobile: one line for each carrier, service and rotation of
 * one period. `periodDays` is for mobile only.
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
        available: product.state === 'active' && hasFreeStock(context.stock, rate.target, quantity),
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
 * The countries and periods that can be ordered now, without countries that are out of stock (docs/reference/api.md,
 * "Catalogue and prices"). `available` is the largest quantity of one order. For mobile: that of the carrier and
 * service with the most addresses.
 */
export const optionsView = (product: Product & DedicatedProduct, stock: readonly StockCount[]) => {
  const orderable = orderableCountries(product, stock)
  const free = (country: string): number =>
    Math.max(0, ...ratesIn(product, country).map(({ target }) => freeCount(stock, target)))
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

type View = ReturnType<typeof productView>
type List = { readonly products: View[] }
type Stock = ReadonlyMap<string, readonly StockCount[]>

type WrittenList = { readonly stock: Stock; readonly json: JsonBytes<List> }

/** The filter of a list: products in one state, or all that are not retired. */
type Listed = Product['state'] | undefined

/**
 * Renders products and serialises them once for each state of the catalogue and its stock: with hundreds of rates this
 * costs more than the rest of a request. The cached bytes are freed with their catalogue.
 */
export const createProductViews = () => {
  const viewCache = new WeakMap<
    Product,
    { readonly stock: readonly StockCount[]; readonly view: View; json: JsonBytes<View> | null }
  >()
  const lists = new WeakMap<Catalog, Map<Listed, WrittenList>>()

  const show = (product: Product, stock: readonly StockCount[]) => {
    const cachedView = viewCache.get(product)
    if (cachedView?.stock === stock) return cachedView
    const created = { stock, view: productView(product, stock), json: null }
    viewCache.set(product, created)
    return created
  }

  const listOf = ({ products }: Catalog, listed: Listed, stock: Stock): List => ({
    products: products
      .filter(({ state }) => (listed === undefined ? state !== 'retired' : state === listed))
      .map((product) => show(product, stock.get(product.id) ?? noStock).view),
  })

  return {
    product: (product: Product, stock: readonly StockCount[]): JsonBytes<View> => {
      const entry = show(product, stock)
      entry.json ??= JsonBytes.of(entry.view)
      return entry.json
    },
    /** Products in the catalogue's order. */
    list: (catalog: Catalog, listed: Listed, stock: Stock): JsonBytes<List> => {
      const cachedLists = lists.get(catalog) ?? new Map<Listed, WrittenList>()
      const cachedList = cachedLists.get(listed)
      if (cachedList?.stock === stock) return cachedList.json
      const json = JsonBytes.of(listOf(catalog, listed, stock))
      lists.set(catalog, cachedLists.set(listed, { stock, json }))
      return json
    },
  }
}

/** The stock depends on the clock, because resting addresses become available by time. Cached no longer than this. */
const maxAgeMs = 100

/** Shares stock between all requests of the process: concurrent readers cost one query at a time. */
export const createSharedStock = (dependencies: {
  readonly source: Pick<LiveStock, 'all'>
  /** Of exactly the tables that `source` reads, so that a caller sees the changes that it waited for. */
  readonly watch: Watch
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Parameters<typeof createLiveRows>[0]['logger']
}): LiveStock => {
  const { source, watch, clock, monotonicMs, logger } = dependencies
  const maxAge = { ms: maxAgeMs, clock, monotonicMs }
  const { fresh } = createLiveRows({ name: 'stock', watch, load: source.all, logger, maxAge })
  return { all: fresh, of: async (productId) => (await fresh()).get(productId) ?? noStock }
}
