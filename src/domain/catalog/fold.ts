import type { Fold } from '../../kernel/decider.ts'
import { catalogStream } from '../../kernel/streams.ts'
import type { CatalogEvent } from './events.ts'
import type { CatalogState, Product } from './product.ts'

export const emptyCatalog: CatalogState = { digest: null, importedAt: null, products: [] }

/** The product in another state. Only a parked product has `parkedUntil`. */
export const inState = (
  product: Product,
  stateFields: Pick<Product, 'state' | 'successorId' | 'since'>,
): Product => ({
  ...product,
  ...stateFields,
  parkedUntil: stateFields.state === 'parked' ? product.parkedUntil : null,
})

/** The catalogue after one more event of the `catalog` stream. */
export const evolveCatalog = (state: CatalogState, event: CatalogEvent): CatalogState => {
  switch (event.type) {
    case 'CatalogImported':
      return {
        digest: event.data.digest,
        importedAt: event.data.importedAt,
        products: event.data.products,
      }
    case 'ProductStateChanged': {
      const { productId, ...stateFields } = event.data
      return {
        ...state,
        products: state.products.map((product) =>
          product.id === productId ? inState(product, stateFields) : product,
        ),
      }
    }
    default:
      return event satisfies never
  }
}

/** Whether a cached catalogue agrees with the data of its last event. */
const agreesWithEvent = ({ digest, importedAt, products }: CatalogState, event: CatalogEvent): boolean => {
  if (event.type === 'CatalogImported')
    return (
      digest === event.data.digest &&
      importedAt === event.data.importedAt &&
      products.length === event.data.products.length
    )
  const { productId, state, since } = event.data
  return products.some(
    (product) => product.id === productId && product.state === state && product.since === since,
  )
}

/**
 * The fold of the `catalog` stream. An import contains the whole catalogue, up to 900 KiB, and a job may import new
 * prices every day or hour. Without snapshots, reading the stream from its start would take longer than a read may
 * after some hundreds of imports.
 */
export const catalogFold: Fold<CatalogState, CatalogEvent> = {
  name: 'catalog',
  version: 1,
  initial: emptyCatalog,
  evolve: evolveCatalog,
  snapshot: {
    toText: (state) => JSON.stringify(state),
    fromText: (text) => JSON.parse(text) as CatalogState,
    agrees: (state, event) => agreesWithEvent(state, event as CatalogEvent),
    entries: ({ products }) =>
      products.reduce((sum, product) => sum + 5 + ('rates' in product ? product.rates.length : 0), 0),
    everyEvents: 10,
  },
}

/** The stream reference of the catalogue for a command. */
export const catalogRef = { stream: catalogStream, fold: catalogFold }
