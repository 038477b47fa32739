import type { CatalogState } from './fold.ts'
import type { Product } from './product.ts'
import { accept, type Result, reject } from './refusal.ts'

/** The catalogue as it stands, in memory: what every quote and order reads. */
export type Catalog = {
  /** SHA-256 of the file that it was imported from; null before the first import. */
  readonly digest: string | null
  /** ISO 8601 UTC; null before the first import. */
  readonly importedAt: string | null
  /** All products, by family then id. */
  readonly products: readonly Product[]
  /** The product with this id, or that used to carry it. */
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

const retired = (product: Product): Result<never> => ({
  ok: false,
  refusal: {
    code: 'product_unavailable',
    message: `${product.id} is retired; buy ${product.successorId} instead`,
    successorId: product.successorId,
  },
})

/** A product that prices can be asked for: parked ones too. Refusal: product_unavailable with its successor. */
export const quotable = (product: Product): Result<Product> =>
  product.state === 'retired' ? retired(product) : accept(product)

/** A product that can be ordered. Refusal: product_unavailable for a parked or retired one. */
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

/** The product that an order names. Refusals: unknown_product, product_unavailable. */
export const productOfOrder = (catalog: Catalog, productId: string): Result<Product> => {
  const product = catalog.resolve(productId)
  return product === undefined
    ? reject('unknown_product', 'no product has this product_id; GET /api/v1/products lists them')
    : orderable(product)
}
