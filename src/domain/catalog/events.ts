import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { hex, list, objectOf, oneOf, orNull, pastTime, text } from '../../kernel/event-fields.ts'
import type { Product } from './product.ts'

/** The `catalog` stream. */
const stream = 'catalog'

export const catalogImported = defineEvent('CatalogImported', {
  stream,
  means: 'A file replaced the whole catalogue.',
  fields: {
    digest: hex(32, 'SHA-256 of the canonical JSON of the file: the `catalogDigest` of orders'),
    importedAt: pastTime('when'),
    products: list(
      objectOf<Product>(
        'a product as in the file (docs/operations/catalog.md), and `since`, the start of its state',
      ),
      'all products with their prices',
    ),
  },
})
export type CatalogImported = EventOf<typeof catalogImported>

export const productStateChanged = defineEvent('ProductStateChanged', {
  stream,
  means: "One product changed its state between imports; its prices and the catalogue's digest stay.",
  fields: {
    productId: text('the product'),
    state: oneOf(['active', 'parked', 'retired'], 'whether it can be bought'),
    successorId: orNull(text('the successor of a retired product, else null')),
    since: pastTime('when'),
  },
})
export type ProductStateChanged = EventOf<typeof productStateChanged>

export const catalogEventDefinitions = [catalogImported, productStateChanged] as const
export type CatalogEvent = EventOf<(typeof catalogEventDefinitions)[number]>
