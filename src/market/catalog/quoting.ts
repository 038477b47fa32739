import type { Reads } from '../../../projections/engine/reads.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { accepted } from './api-error.ts'
import { type LiveStock, lineInStock, noStock, type StockCount } from './availability.ts'
import { quotable } from './catalog.ts'
import { type Quote, quantityOf, quote, type TermsOf } from './pricing.ts'
import { isDedicated, type Product } from './product.ts'
import { numberOf, parseQuery } from './targeting.ts'

/** Who asks, and the position that the answer must know of; null: whatever is known of the account. */
export type Asking = {
  readonly caller: { readonly accountId: AccountId; readonly reseller: boolean }
  readonly after: number | null
}

export type Quoted = { readonly figures: Quote; readonly counts: readonly StockCount[] }

/** Prices as they are now, for whoever asks: what an order with the same texts would be charged. */
export const createQuotes = (deps: {
  readonly stock: LiveStock
  readonly reads: Pick<Reads, 'settledHere'>
  readonly termsOf: TermsOf
}) => {
  const stockOf = async (product: Product, { caller, after }: Asking): Promise<readonly StockCount[]> => {
    if (!isDedicated(product)) return noStock
    await deps.reads.settledHere(caller.accountId, after ?? 0)
    return deps.stock.of(product.id)
  }

  return {
    /** What is in stock of a product, with what the account itself did; nothing of a gateway product. */
    stockOf,
    /**
     * @param query texts: quantity, and for dedicated IPs country, period_days, carrier_id, service, rotation_minutes
     * @throws ApiError product_unavailable, invalid_quantity, invalid_country, invalid_period, invalid_targeting
     */
    quoteOf: async (
      product: Product,
      query: Readonly<Record<string, unknown>>,
      asking: Asking,
    ): Promise<Quoted> => {
      accepted(quotable(product))
      const quantity = accepted(quantityOf(product, numberOf(query.quantity)))
      const wanted = accepted(parseQuery(product, query))
      const counts = await stockOf(product, asking)
      const terms = deps.termsOf(asking.caller, product)
      const figures = accepted(
        quote(product, { quantity, wanted, terms, inStock: lineInStock(counts, quantity) }),
      )
      return { figures, counts }
    },
  }
}
