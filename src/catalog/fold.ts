import type { Fold } from '../eventstore/fold.ts'
import type { CatalogEvent } from './events.ts'
import type { Product } from './product.ts'

/** The catalogue as of an event; `digest` and `importedAt` are null before the first import. */
export type CatalogState = {
  readonly digest: string | null
  readonly importedAt: string | null
  readonly products: readonly Product[]
}

export const emptyCatalog: CatalogState = { digest: null, importedAt: null, products: [] }

/** The product in another state; only a parked one is expected back. */
export const inState = (
  product: Product,
  standing: Pick<Product, 'state' | 'successorId' | 'since'>,
): Product => ({
  ...product,
  ...standing,
  parkedUntil: standing.state === 'parked' ? product.parkedUntil : null,
})

/** The catalogue after one more event of the `catalog` stream; other types leave it as it is. */
export const evolveCatalog = (state: CatalogState, event: CatalogEvent): CatalogState => {
  switch (event.type) {
    case 'CatalogImported':
      return {
        digest: event.data.digest,
        importedAt: event.data.importedAt,
        products: event.data.products,
      }
    case 'ProductStateChanged': {
      const { productId, ...standing } = event.data
      return {
        ...state,
        products: state.products.map((product) =>
          product.id === productId ? inState(product, standing) : product,
        ),
      }
    }
    default:
      return event satisfies never
  }
}

/** The fold of the `catalog` stream. Imports are rare, so it is never snapshotted. */
export const catalogFold: Fold<CatalogState, CatalogEvent> = {
  name: 'catalog',
  version: 1,
  initial: emptyCatalog,
  evolve: evolveCatalog,
}
