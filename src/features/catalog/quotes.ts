import { type LiveStock, lineInStock, noStock, type StockCount } from '../../domain/catalog/availability.ts'
import { numberOf, parseQuery, productOfOrder, quotable } from '../../domain/catalog/catalog.ts'
import {
  type Quote,
  quantityOf,
  quote,
  type RefreshTerms,
  type ResellerTerms,
  type TermsOf,
} from '../../domain/catalog/pricing.ts'
import type { Result } from '../../domain/catalog/product.ts'
import { isDedicated, type Product } from '../../domain/catalog/product.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { createCatalogService } from './import-catalog.ts'
import { requireAccepted } from './views.ts'

type OrderableInput<Answer> = (order: Pick<OrderDetails, 'productId'>, cause: Cause) => Promise<Answer>

/** Whether the product of an order can be ordered now: it is neither parked nor retired. */
export type Orderable = OrderableInput<boolean>

/** Reads the log. Every process role can use it, and it sees a product that was parked a moment ago. */
const productNow = (runner: CommandRunner): OrderableInput<Result<Product>> => {
  const catalog = createCatalogService(runner)
  return async ({ productId }, { actor, correlationId }) =>
    productOfOrder(await catalog.read({ actor, correlationId }), productId)
}

export const createOrderable = (runner: CommandRunner): Orderable => {
  const checkProduct = productNow(runner)
  return async (order, cause) => (await checkProduct(order, cause)).ok
}

/** As `Orderable`, for the API. @throws ApiError product_unavailable, with the product's successor */
export type RequireOrderable = OrderableInput<void>

export const createRequireOrderable = (runner: CommandRunner): RequireOrderable => {
  const checkProduct = productNow(runner)
  return async (order, cause) => {
    requireAccepted(await checkProduct(order, cause))
  }
}

/** The caller, and the position that the answer must include; null: no position of its own. */
export type QuoteContext = {
  readonly caller: { readonly accountId: AccountId; readonly reseller: boolean }
  readonly after: number | null
}

export type Quoted = { readonly figures: Quote; readonly counts: readonly StockCount[] }

export type Quotes = ReturnType<typeof createQuotes>

/** Current prices: an order with the same texts is charged the quoted amount. */
export const createQuotes = (dependencies: {
  readonly stock: LiveStock
  readonly reads: Pick<Reads, 'settledHere'>
  readonly termsOf: TermsOf
  readonly refreshTerms: RefreshTerms
}) => {
  /** The terms of a reseller as of its last change, which may have been a moment ago. */
  const termsFor = async (
    caller: QuoteContext['caller'],
    product: Product,
  ): Promise<ResellerTerms | null> => {
    await dependencies.refreshTerms(caller)
    return dependencies.termsOf(caller, product)
  }

  const stockOf = async (
    product: Product,
    { caller, after }: QuoteContext,
  ): Promise<readonly StockCount[]> => {
    if (!isDedicated(product)) return noStock
    await dependencies.reads.settledHere(caller.accountId, after ?? 0)
    return dependencies.stock.of(product.id)
  }

  return {
    termsFor,
    /** The stock of a product, including the account's own changes; empty for a gateway product. */
    stockOf,
    /**
     * @param query texts: quantity, and for dedicated IPs country, period_days, carrier_id, service, rotation_minutes
     * @throws ApiError product_unavailable, invalid_quantity, invalid_country, invalid_period, invalid_targeting
     */
    quoteOf: async (
      product: Product,
      query: Readonly<Record<string, unknown>>,
      quoteContext: QuoteContext,
    ): Promise<Quoted> => {
      requireAccepted(quotable(product))
      const quantity = requireAccepted(quantityOf(product, numberOf(query.quantity)))
      const wanted = requireAccepted(parseQuery(product, query))
      const counts = await stockOf(product, quoteContext)
      const terms = await termsFor(quoteContext.caller, product)
      const figures = requireAccepted(
        quote(product, { quantity, rateRequest: wanted, terms, inStock: lineInStock(counts, quantity) }),
      )
      return { figures, counts }
    },
  }
}
