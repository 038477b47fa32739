import { deliveryOf, type Product } from './product.ts'
import type { LineInStock } from './targeting.ts'

/** How many addresses that are alike to a buyer can be sold now; carrier and service are null but for mobile. */
export type StockCount = {
  readonly country: string
  readonly carrierId: string | null
  readonly service: string | null
  readonly available: number
}

/** That of a product of which nothing is stocked; one array, so that what was made from it is known again. */
export const noStock: readonly StockCount[] = []

/** Live stock, from the read tables. */
export type LiveStock = {
  of(productId: string): Promise<readonly StockCount[]>
  /** By product id; a product without stock has no entry. */
  all(): Promise<ReadonlyMap<string, readonly StockCount[]>>
}

type Pool = { readonly country: string; readonly carrierId: string | null; readonly service: string | null }

/** How many addresses one pool of a country, the order's own where it is named, has free. */
export const freeCount = (stock: readonly StockCount[], target: Pool): number =>
  stock.find(
    (count) =>
      count.country === target.country &&
      count.carrierId === target.carrierId &&
      count.service === target.service,
  )?.available ?? 0

/** Whether one pool of a country, the order's own where it is named, holds this many addresses. */
export const hasFreeStock = (stock: readonly StockCount[], target: Pool, quantity: number): boolean =>
  freeCount(stock, target) >= quantity

/** Countries, alpha-3, where the smallest order can be filled now; none while the product cannot be ordered. */
export const orderableCountries = (product: Product, stock: readonly StockCount[]): ReadonlySet<string> =>
  new Set(
    product.state === 'active'
      ? stock.filter((count) => count.available >= product.minQuantity).map((count) => count.country)
      : [],
  )

/** Whether an order of the smallest quantity would go through somewhere: docs/http-api.md, "Catalogue and prices". */
export const isAvailable = (product: Product, stock: readonly StockCount[]): boolean =>
  product.state === 'active' &&
  (deliveryOf(product.shape) === 'lines' || orderableCountries(product, stock).size > 0)

/** The lines that may be chosen when an order of this quantity leaves the choice open. */
export const lineInStock =
  (stock: readonly StockCount[], quantity: number): LineInStock =>
  (target) =>
    hasFreeStock(stock, target, quantity)
