import type { Reads } from '../../../projections/engine/reads.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { TermsOf } from '../catalog/pricing.ts'
import type { Customers } from '../customers/service.ts'
import { createBuy, type Purchase } from '../orders/buying.ts'
import { type Buyer, type Prepared, prepareExtension } from '../orders/prepare.ts'
import type { OrderService, Placed } from '../orders/service.ts'
import { maxExtended, rentalsToExtend } from './extend.ts'
import { findProxies, type ProxyQueries } from './queries.ts'

/** Which rentals to keep: these, or all of an order that still run. */
export type Kept = { readonly proxyIds: readonly string[] } | { readonly orderId: string }

export type Extending = {
  /**
   * Keeps rentals within the purchase's scope for another period, and pays for it.
   * @throws ApiError: what `rentalsToExtend`, `prepareExtension` and `OrderService.submit` refuse
   */
  extend(
    purchase: Omit<Purchase, 'productId'>,
    kept: Kept,
    periodDays: number,
    after: number | null,
  ): Promise<Placed>
  /** What that would cost, without an order. @throws ApiError: what `rentalsToExtend` and `prepareExtension` refuse */
  quote(
    asked: Pick<Purchase, 'caller' | 'scope'>,
    kept: Kept,
    periodDays: number,
  ): Promise<Pick<Prepared, 'amountCents'>>
}

export const createExtending = (deps: {
  readonly orders: OrderService
  readonly catalog: { current(): Catalog }
  readonly termsOf: TermsOf
  readonly customers: Customers
  readonly reads: Pick<Reads, 'settled'>
  readonly db: ProxyQueries
  readonly clock: Clock
}): Extending => {
  const { catalog, termsOf, reads, db, clock } = deps
  const buy = createBuy(deps)

  const prepare = async (
    buyer: Buyer,
    scope: Purchase['scope'],
    kept: Kept,
    periodDays: number,
  ): Promise<Prepared> => {
    const asked = 'proxyIds' in kept ? [...new Set(kept.proxyIds)] : null
    const filter = asked === null ? kept : { proxyIds: asked }
    const rows = await findProxies(db, scope, filter, clock(), maxExtended + 1)
    const rentals = rentalsToExtend(rows, { asked, customerId: buyer.customerId, nowMs: clock() })
    return prepareExtension(buyer, rentals, periodDays)
  }

  return {
    extend: (purchase, kept, periodDays, after) =>
      buy({ ...purchase, productId: '' }, async (buyer) => {
        await reads.settled(purchase.caller.accountId, after ?? 0)
        return prepare(buyer, purchase.scope, kept, periodDays)
      }),
    quote: ({ caller, scope }, kept, periodDays) =>
      prepare(
        {
          orderId: 'ord_' as Buyer['orderId'],
          caller,
          customerId: scope.customerId,
          termsOf: (product) => termsOf(caller, product),
          method: 'wallet',
          payableBy: ['wallet'],
          expectedAmountCents: undefined,
          catalog: catalog.current(),
        },
        scope,
        kept,
        periodDays,
      ),
  }
}
