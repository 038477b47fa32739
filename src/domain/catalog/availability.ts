import type { LineInStock } from './catalog.ts'
import { deliveryOf, type Product } from './product.ts'

/**
 * How many addresses that are equal for a buyer can be sold now. `carrierId` and `service` are null except for mobile.
 */
export type StockCount = {
  readonly country: string
  readonly carrierId: string | null
  readonly service: string | null
  readonly available: number
}

/** The stock of a product without stock. It is always the same array, so that caches can compare it by identity. */
export const noStock: readonly StockCount[] = []

/** The current stock, from the read tables. */
export type LiveStock = {
  of(productId: string): Promise<readonly StockCount[]>
  /** By product id. A product without stock has no entry. */
  all(): Promise<ReadonlyMap<string, readonly StockCount[]>>
}

type Pool = { readonly country: string; readonly carrierId: string | null; readonly service: string | null }

/** How many free addresses the pool of this target has. */
export const freeCount = (stock: readonly StockCount[], target: Pool): number =>
  stock.find(
    (count) =>
      count.country === target.country &&
      count.carrierId === target.carrierId &&
      count.service === target.service,
  )?.available ?? 0

/** Whether the pool of this target has this many free addresses. */
export const hasFreeStock = (stock: readonly StockCount[], target: Pool, quantity: number): boolean =>
  freeCount(stock, target) >= quantity

/** Countries, alpha-3, where the smallest order can be filled now. Empty if the product cannot be ordered. */
export const orderableCountries = (product: Product, stock: readonly StockCount[]): ReadonlySet<string> =>
  new Set(
    product.state === 'active'
      ? stock.filter((count) => count.available >= product.minQuantity).map((count) => count.country)
      : [],
  )

/** Whether an order of the smallest quantity is possible in any country (docs/reference/api.md, "Catalogue and prices"). */
export const isAvailable = (product: Product, stock: readonly StockCount[]): boolean =>
  product.state === 'active' &&
  (deliveryOf(product.shape) === 'lines' || orderableCountries(product, stock).size > 0)

/** Filters the lines that can be chosen for an order of this quantity without a chosen line. */
export const lineInStock =
  (stock: readonly StockCount[], quantity: number): LineInStock =>
  (target) =>
    hasFreeStock(stock, target, quantity)
