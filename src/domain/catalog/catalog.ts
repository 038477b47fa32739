import { withoutNulls } from '../../kernel/json-text.ts'
import type { Target } from '../shared/order-terms.ts'
import {
  accept,
  type CatalogState,
  type DedicatedProduct,
  isDedicated,
  type Product,
  type Result,
  reject,
  type Tier,
} from './product.ts'

/** The current catalogue in memory. Every quote and order reads it. */
export type Catalog = {
  /** SHA-256 of the imported file; null before the first import. */
  readonly digest: string | null
  /** ISO 8601 UTC; null before the first import. */
  readonly importedAt: string | null
  /** All products, ordered by family and id. */
  readonly products: readonly Product[]
  /** The product with this id or old id. */
  resolve(idOrAlias: string): Product | undefined
}

const byFamilyThenId = (a: Product, b: Product): number => {
  if (a.family !== b.family) return a.family < b.family ? -1 : 1
  return a.id < b.id ? -1 : 1
}

/** Indexes the products of a catalogue by id and old id. */
export const createCatalog = ({ digest, importedAt, products }: CatalogState): Catalog => {
  const byName = new Map<string, Product>()
  for (const product of products) {
    for (const alias of product.aliases) byName.set(alias, product)
    byName.set(product.id, product)
  }
  return {
    digest,
    importedAt,
    products: [...products].sort(byFamilyThenId),
    resolve: (name) => byName.get(name),
  }
}

const retiredRefusal = (product: Product): Result<never> => ({
  ok: false,
  refusal: {
    code: 'product_unavailable',
    message: `${product.id} is retired; buy ${product.successorId} instead`,
    successorId: product.successorId,
  },
})

/**
 * Accepts a product that can be priced, which includes parked ones. Refusal: product_unavailable with its successor.
 */
export const quotable = (product: Product): Result<Product> =>
  product.state === 'retired' ? retiredRefusal(product) : accept(product)

/** Accepts a product that can be ordered. Refusal: product_unavailable for a parked or retired one. */
export const orderable = (product: Product): Result<Product> =>
  product.state === 'parked'
    ? {
        ok: false,
        refusal: {
          code: 'product_unavailable',
          message: `${product.id} is parked and cannot be ordered until it is back`,
          successorId: null,
        },
      }
    : quotable(product)

/** The product of an order. Refusals: unknown_product, product_unavailable. */
export const productOfOrder = (catalog: Catalog, productId: string): Result<Product> => {
  const product = catalog.resolve(productId)
  return product === undefined
    ? reject('unknown_product', 'no product has this product_id; GET /api/v1/products lists them')
    : orderable(product)
}

/** The wanted target. Null means that the choice is open, which is possible only for mobile lines. */
export type RateRequest = {
  readonly country: string
  readonly periodDays: number
  readonly carrierId: string | null
  readonly service: string | null
  readonly rotationMinutes: number | null
}

/** A target that can be bought, with its prices by quantity. */
export type Rate = { readonly target: Target; readonly tiers: readonly Tier[] }

const sortedUnique = (values: Iterable<number>): number[] => [...new Set(values)].sort((a, b) => a - b)

/** Caches a value that is derived from a product, because every order needs it. */
const memoizePerProduct = <Value>(compute: (product: DedicatedProduct) => Value) => {
  const cache = new WeakMap<DedicatedProduct, Value>()
  return (product: DedicatedProduct): Value => {
    const cached = cache.get(product)
    if (cached !== undefined) return cached
    const computed = compute(product)
    cache.set(product, computed)
    return computed
  }
}

/** The countries that the product has prices for, alpha-3, sorted. */
export const countriesOf = memoizePerProduct((product): readonly string[] =>
  [
    ...new Set(
      product.shape === 'addresses'
        ? product.rates.flatMap((rate) => rate.countries)
        : product.carriers.map((carrier) => carrier.country),
    ),
  ].sort(),
)

const ratesByCountry = memoizePerProduct(
  (product): ReadonlyMap<string, readonly Rate[]> =>
    new Map(countriesOf(product).map((country) => [country, listRates(product, country)])),
)

/** All rates of a product in one country, in the order of the file. Empty if it is not sold there. */
export const ratesIn = (product: DedicatedProduct, country: string): readonly Rate[] =>
  ratesByCountry(product).get(country) ?? []

const listRates = (product: DedicatedProduct, country: string): readonly Rate[] => {
  if (product.shape === 'addresses')
    return product.rates
      .filter((rate) => rate.countries.includes(country))
      .flatMap((rate) =>
        rate.periodDays.map((periodDays) => ({
          target: { country, periodDays, carrierId: null, service: null, rotationMinutes: null },
          tiers: rate.tiers,
        })),
      )
  const localCarrierIds = new Set(product.carriers.filter((c) => c.country === country).map((c) => c.id))
  return product.rates.flatMap(
    ({ carriers, service, rotationMinutes: rotations, periodDays: periods, tiers }) =>
      carriers
        .filter((carrier) => localCarrierIds.has(carrier))
        .flatMap((carrierId) =>
          rotations.flatMap((rotationMinutes) =>
            periods.map((periodDays) => ({
              target: { country, periodDays, carrierId, service, rotationMinutes },
              tiers,
            })),
          ),
        ),
  )
}

/** The rental periods of the product in a country, or in any country, days, sorted. */
export const periodsOf = (product: DedicatedProduct, country?: string): readonly number[] =>
  sortedUnique(
    country === undefined
      ? product.rates.flatMap((rate) => rate.periodDays)
      : ratesIn(product, country).map((rate) => rate.target.periodDays),
  )

/**
 * The price of one unit at a quantity, micro-dollars. Tiers start at 1, so there is always one.
 * @throws if no tier has this quantity
 */
export const unitPriceMicros = (tiers: readonly Tier[], quantity: number): number => {
  const tier = tiers.findLast(({ from }) => from <= quantity)
  if (tier === undefined) throw new Error(`no tier prices a quantity of ${quantity}`)
  return tier.unitPriceMicros
}

/** The default period of `/price` and mobile price lists (docs/reference/api.md, "Catalogue and prices"). */
const standardPeriodDays = 30

const addressFields = ['country', 'period_days']
const mobileFields = [...addressFields, 'carrier_id', 'service', 'rotation_minutes']

/** The `fulfillment_meta` fields of an order of this product. Empty for a gateway product. */
export const targetingFields = (product: Product): readonly string[] => {
  if (!isDedicated(product)) return []
  return product.shape === 'addresses_mobile' ? mobileFields : addressFields
}

/** Whether a mobile line has enough free addresses. If the choice is open, only such lines are chosen. */
export type LineInStock = (target: Target) => boolean

const listText = (values: Iterable<string | number>): string => [...new Set(values)].join(', ')

const country = (product: Product, value: unknown): Result<string> => {
  const known = isDedicated(product) ? countriesOf(product) : []
  const countryCode = typeof value === 'string' ? value.toUpperCase() : undefined
  return countryCode !== undefined && known.includes(countryCode)
    ? accept(countryCode)
    : reject('invalid_country', `country must be an alpha-3 code, one of ${listText(known)}`)
}

const period = (product: Product, country: string, value: unknown): Result<number> => {
  const known = isDedicated(product) ? periodsOf(product, country) : []
  return typeof value === 'number' && known.includes(value)
    ? accept(value)
    : reject(
        'invalid_period',
        `period_days must be a whole number of days, one of ${listText(known)} in ${country}`,
      )
}

/**
 * Parses the `fulfillment_meta` of an order (docs/reference/api.md, "Catalogue and prices"). Unknown fields are
 * refused. `country` (alpha-3, any case) and `period_days` are required for dedicated IPs. The mobile fields may be
 * missing or null, also for other products. The result is null for a gateway product. Refusals: invalid_targeting,
 * invalid_country, invalid_period.
 */
export const parseMeta = (
  product: Product,
  meta: Readonly<Record<string, unknown>> | undefined,
): Result<RateRequest | null> => {
  const accepted = targetingFields(product)
  // Some serializers write null for each unset field, also for fields of other products.
  const isUnset = (field: string): boolean => meta?.[field] === null && mobileFields.includes(field)
  const unknown = Object.keys(meta ?? {}).find((field) => !accepted.includes(field) && !isUnset(field))
  if (unknown !== undefined)
    return reject(
      'invalid_targeting',
      accepted.length === 0
        ? `${product.id} takes no fulfillment_meta (${unknown}): the country is chosen per line of the plan`
        : `fulfillment_meta.${unknown} is not read by ${product.id}; accepted fields: ${listText(accepted)}`,
    )
  const parsed = parseTargeting(product, withoutNulls(meta ?? {}))
  return parsed.ok ? parsed : reject(parsed.refusal.code, `fulfillment_meta.${parsed.refusal.message}`)
}

/** Parses the fields of `fulfillment_meta` from another source. Each refusal starts with the name of its field. */
export const parseTargeting = (
  product: Product,
  fields: Readonly<Record<string, unknown>>,
): Result<RateRequest | null> => (isDedicated(product) ? rateRequestOf(product, fields) : accept(null))

/** The number in a query value. Other values are returned unchanged and refused later. */
export const numberOf = (value: unknown): unknown =>
  typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value

/**
 * Parses the targeting of a price query from text values. `country` is USA and `period_days` is 30 by default
 * (docs/reference/api.md, "Catalogue and prices"). Null for a gateway product, which ignores them if they have the right
 * form. Refusals as for `parseMeta`.
 */
export const parseQuery = (
  product: Product,
  query: Readonly<Record<string, unknown>>,
): Result<RateRequest | null> => {
  if (!isDedicated(product))
    return /^[A-Za-z]{3}$/.test(String(query.country ?? 'USA'))
      ? accept(null)
      : reject('invalid_country', 'country must be an alpha-3 code such as USA')
  return rateRequestOf(product, {
    country: query.country ?? 'USA',
    period_days: numberOf(query.period_days ?? standardPeriodDays),
    ...(product.shape === 'addresses_mobile' && {
      carrier_id: query.carrier_id,
      service: query.service,
      rotation_minutes: numberOf(query.rotation_minutes),
    }),
  })
}

/**
 * Parses the country and period of a price list. `country` is required. `period_days` is 30 by default and applies to
 * mobile only. It is null for other products, whose list has every period. Refusals: invalid_country, invalid_period.
 */
export const parseListQuery = (
  product: Product & DedicatedProduct,
  query: Readonly<Record<string, unknown>>,
): Result<{ readonly country: string; readonly periodDays: number | null }> => {
  const countryResult = country(product, query.country)
  if (!countryResult.ok) return countryResult
  if (product.shape !== 'addresses_mobile') return accept({ country: countryResult.value, periodDays: null })
  const periodResult = period(product, countryResult.value, numberOf(query.period_days ?? standardPeriodDays))
  return periodResult.ok
    ? accept({ country: countryResult.value, periodDays: periodResult.value })
    : periodResult
}

const rateRequestOf = (product: Product, fields: Readonly<Record<string, unknown>>): Result<RateRequest> => {
  const countryResult = country(product, fields.country)
  if (!countryResult.ok) return countryResult
  const periodResult = period(product, countryResult.value, fields.period_days)
  if (!periodResult.ok) return periodResult
  const requested = { country: countryResult.value, periodDays: periodResult.value }
  if (product.shape !== 'addresses_mobile')
    return accept({ ...requested, carrierId: null, service: null, rotationMinutes: null })
  const { carrier_id: carrierId, service, rotation_minutes: rotationMinutes } = fields
  const rates = ratesIn(product, countryResult.value).filter(
    (rate) => rate.target.periodDays === periodResult.value,
  )
  const known = (pick: (target: Target) => string | number | null) =>
    new Set(rates.flatMap((rate) => pick(rate.target) ?? []))
  const [carriers, services, rotations] = [
    known((target) => target.carrierId),
    known((target) => target.service),
    known((target) => target.rotationMinutes),
  ]
  const scopeText = `in ${countryResult.value} for ${periodResult.value} days`
  if (carrierId !== undefined && !carriers.has(carrierId as string))
    return reject('invalid_targeting', `carrier_id must be one of ${listText(carriers)} ${scopeText}`)
  if (service !== undefined && !services.has(service as string))
    return reject('invalid_targeting', `service must be one of ${listText(services)} ${scopeText}`)
  if (rotationMinutes !== undefined && !rotations.has(rotationMinutes as number))
    return reject(
      'invalid_targeting',
      `rotation_minutes must be one of ${listText(rotations)} ${scopeText} (0: by link)`,
    )
  return accept({
    ...requested,
    carrierId: (carrierId as string | undefined) ?? null,
    service: (service as string | undefined) ?? null,
    rotationMinutes: (rotationMinutes as number | undefined) ?? null,
  })
}

const matchesRequest = (requested: RateRequest, { target }: Rate): boolean =>
  target.periodDays === requested.periodDays &&
  (requested.carrierId === null || target.carrierId === requested.carrierId) &&
  (requested.service === null || target.service === requested.service) &&
  (requested.rotationMinutes === null || target.rotationMinutes === requested.rotationMinutes)

/**
 * The rate of an order of this quantity. An open choice becomes the cheapest line in stock, or the cheapest line if
 * none is in stock. At equal price the first line of the file is chosen. Refusal: invalid_targeting for a combination
 * that is not sold.
 */
export const chooseRate = (
  product: Product,
  requested: RateRequest,
  quantity: number,
  inStock: LineInStock,
): Result<Rate> => {
  const rates = isDedicated(product) ? ratesIn(product, requested.country) : []
  const matching = rates.filter((rate) => matchesRequest(requested, rate))
  const stockedRates = matching.length > 1 ? matching.filter((rate) => inStock(rate.target)) : matching
  const candidates = stockedRates.length > 0 ? stockedRates : matching
  const [first, ...others] = candidates
  if (first === undefined)
    return reject(
      'invalid_targeting',
      `this carrier_id, service and rotation_minutes are not sold together in ${requested.country} for ${requested.periodDays} days; see the price list`,
    )
  const price = (rate: Rate) => unitPriceMicros(rate.tiers, quantity)
  return accept(
    others.reduce((cheapestRate, rate) => (price(rate) < price(cheapestRate) ? rate : cheapestRate), first),
  )
}

/** A target as `fulfillment_meta`. The mobile fields are for mobile products only. */
export const metaOf = ({ country, periodDays, carrierId, service, rotationMinutes }: Target) => ({
  country,
  period_days: periodDays,
  ...(carrierId !== null &&
    service !== null &&
    rotationMinutes !== null && { carrier_id: carrierId, service, rotation_minutes: rotationMinutes }),
})
