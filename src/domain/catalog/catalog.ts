import type { Target } from '../shared/order-terms.ts'
import { accept, type Result, reject } from './catalog-rules.ts'
import type { CatalogState } from './fold.ts'
import type { DedicatedProduct, Product, Tier } from './product.ts'

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
