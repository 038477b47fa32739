import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { Product, ProductState } from './product.ts'

/** The `catalog` stream. A file replaced the whole catalogue. Times are ISO 8601 UTC. */
export type CatalogImported = DomainEvent<
  'CatalogImported',
  {
    /** SHA-256, lower-case hex, of the canonical JSON of the file: what an order's `catalogDigest` names. */
    readonly digest: string
    readonly importedAt: string
    readonly products: readonly Product[]
  }
>

/** One product changed its state between imports; its prices and the catalogue's digest stay. */
export type ProductStateChanged = DomainEvent<
  'ProductStateChanged',
  {
    readonly productId: string
    readonly state: ProductState
    /** Set when it is retired, else null. */
    readonly successorId: string | null
    readonly since: string
  }
>

export type CatalogEvent = CatalogImported | ProductStateChanged
