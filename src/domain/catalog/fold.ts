import type { Fold } from '../../kernel/decider.ts'
import { catalogStream } from '../../kernel/streams.ts'
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

/** Whether a catalogue can be what the event left, by what the event says of it. */
const agrees = ({ digest, importedAt, products }: CatalogState, event: CatalogEvent): boolean => {
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
 * The fold of the `catalog` stream. An import holds the whole catalogue, up to 900 KiB, and a job may import new prices
 * every day or hour: a process that began with the first one would after some hundreds of them take longer than a read may.
 */
export const catalogFold: Fold<CatalogState, CatalogEvent> = {
  name: 'catalog',
  version: 1,
  initial: emptyCatalog,
  evolve: evolveCatalog,
  snapshot: {
    toText: (state) => JSON.stringify(state),
    fromText: (text) => JSON.parse(text) as CatalogState,
    agrees: (state, event) => agrees(state, event as CatalogEvent),
    entries: ({ products }) =>
      products.reduce((sum, product) => sum + 5 + ('rates' in product ? product.rates.length : 0), 0),
    everyEvents: 10,
  },
}

/** The stream of the catalogue, as a command names it. */
export const catalogRef = { stream: catalogStream, fold: catalogFold }
