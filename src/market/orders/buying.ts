import type { ApiRequest } from '../../platform/http/route.ts'
import type { Scope } from '../../terms/holder.ts'
import type { OrderMethod } from '../../terms/methods.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { TermsOf } from '../catalog/pricing.ts'
import type { Product } from '../catalog/product.ts'
import type { Customers } from '../customers/service.ts'
import { fingerprintOf } from './fingerprint.ts'
import type { Payer } from './payer.ts'
import type { Buyer, Prepared } from './prepare.ts'
import type { OrderService, Placed } from './service.ts'

/** A request that a wallet, a customer's credit or a pay page pays. */
export type Purchase = Pick<ApiRequest, 'requestId' | 'idempotencyKey' | 'customerRef'> & {
  readonly scope: Scope
  readonly caller: Payer
  /** The route with its path ids. */
  readonly path: string
  /** The product that is bought, by its own id where it has one; empty where the body names rentals. */
  readonly productId: string
  readonly body: Readonly<Record<string, unknown>> & {
    readonly method?: OrderMethod | undefined
    readonly expected_amount_cents?: number | undefined
  }
}

/**
 * Places an order, a top-up or an extension: who pays for whom, what makes a retry the same request, and then
 * `OrderService.submit`.
 * @param prepare what is bought and for how much; it throws the refusals
 * @throws ApiError as `OrderService.submit`
 */
export type Buy = (purchase: Purchase, prepare: (buyer: Buyer) => Promise<Prepared>) => Promise<Placed>

export const createBuy =
  (deps: {
    readonly orders: OrderService
    readonly catalog: { current(): Catalog }
    readonly termsOf: TermsOf
    readonly customers: Pick<Customers, 'ensure'>
  }): Buy =>
  async ({ caller, scope, requestId, idempotencyKey, customerRef, path, productId, body }, prepare) => {
    const { orders, catalog, termsOf, customers } = deps
    const { customerId } = scope
    const method = body.method ?? 'wallet'
    const relate = async (): Promise<void> => {
      if (customerRef !== null) await customers.ensure(caller.accountId, customerRef)
    }
    const placed = await orders.submit({
      caller,
      relate,
      requestId,
      idempotencyKey,
      fingerprint: fingerprintOf({ method: 'POST', path, productId, body, customerId }),
      prepare: async (orderId) =>
        prepare({
          orderId,
          caller,
          customerId,
          termsOf: (product: Product) => termsOf(caller, product),
          method,
          payableBy: await orders.payableBy(method),
          expectedAmountCents: body.expected_amount_cents,
          catalog: catalog.current(),
        }),
    })
    // Whose credit paid is known before; only one whose own id was erased is told of anew.
    await relate()
    return placed
  }
