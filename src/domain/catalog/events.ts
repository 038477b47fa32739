import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { hex, list, objectOf, oneOf, orNull, pastTime, text } from '../../kernel/event-fields.ts'
import type { Product } from './product.ts'

/** The `catalog` stream. */
const stream = 'catalog'

export const catalogImported = defineEvent('CatalogImported', {
  stream,
  means: 'A file replaced the whole catalogue.',
  fields: {
    digest: hex(32, "SHA-256 of the canonical JSON of the file: what an order's `catalogDigest` names"),
    importedAt: pastTime('when'),
    products: list(
      objectOf<Product>(
        'a product as the file says it (docs/catalog.md), and `since` when it is in its state',
      ),
      'everything that is sold, at which prices',
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
    successorId: orNull(text('what to buy instead; set when it is retired, else null')),
    since: pastTime('when'),
  },
})
export type ProductStateChanged = EventOf<typeof productStateChanged>

export const catalogEventDefinitions = [catalogImported, productStateChanged] as const
export type CatalogEvent = EventOf<(typeof catalogEventDefinitions)[number]>
