import { type FoundProxy, findProxies } from '../../../projections/proxies.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { TermsOf } from '../../domain/catalog/pricing.ts'
import { maxDaysAhead } from '../../domain/stock/decide.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { OrderId, ProxyId } from '../../kernel/ids.ts'
import type { AccountScope } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { requireHolderNamed } from '../accounts/index.ts'
import {
  orderOf,
  orRefusal,
  type PlacedOrder,
  type PlaceOrder,
  type Prepared,
  type Purchase,
  prepareExtension,
  type RentalsToExtend,
} from '../orders/index.ts'
import type { VerifyRentals } from './own-rentals.ts'
import { proxyStatus } from './proxy-record.ts'

/** The largest number of rentals in one extension. */
export const maxExtended = 1_000

const dayMs = 24 * 60 * 60 * 1000

const lineOf = (row: FoundProxy) =>
  JSON.stringify([row.productId, row.country, row.carrierId, row.service, row.rotationMinutes])

/**
 * Validates the rentals of one extension, which were found within the request's scope. They must run, belong to the
 * customer of the request, and be of one product, country and mobile line, because an order has one payer, one target
 * and one price.
 * @param request `requestedIds`: the named rentals; null: all of an order. `customerId`: the customer of the request
 * @throws ApiError not_found, invalid_customer_id, out_of_stock (a rental has ended), invalid_body (different lines)
 */
const rentalsToExtend = (
  found: readonly FoundProxy[],
  request: {
    readonly requestedIds: readonly string[] | null
    readonly customerId: string | null
    readonly nowMs: number
  },
): RentalsToExtend => {
  const { requestedIds, customerId, nowMs } = request
  const isRunning = (row: FoundProxy) => proxyStatus(row, nowMs) !== 'expired'
  // For a whole order only the running addresses are extended.
  const rows = requestedIds === null ? found.filter(isRunning) : found
  const [first] = rows
  const missing = requestedIds?.find((id) => !rows.some((row) => row.proxyId === id))
  if (!first || missing !== undefined)
    throw refuse(
      'not_found',
      missing === undefined ? 'no proxy of this order runs' : `no proxy has the id ${missing}`,
    )
  for (const row of rows) requireHolderNamed(row.customerId, customerId, row.proxyId)
  if (rows.length > maxExtended)
    throw refuse('invalid_body', `one extension keeps at most ${maxExtended} addresses; name fewer proxy_ids`)
  const ended = rows.find((row) => !isRunning(row))
  if (ended)
    throw refuse('out_of_stock', `the rental of ${ended.proxyId} has ended; order a new address in its place`)
  const mixed = rows.find((row) => lineOf(row) !== lineOf(first))
  if (mixed)
    throw refuse(
      'invalid_body',
      `proxy_ids must be of one product, country and mobile line; ${mixed.proxyId} differs from ${first.proxyId}`,
    )
  const lastEndMs = Math.max(...rows.map((row) => Date.parse(row.expiresAt)))
  return {
    productId: first.productId,
    proxyIds: rows.map((row) => row.proxyId as ProxyId),
    extendableDays: Math.floor((nowMs - lastEndMs) / dayMs) + maxDaysAhead,
    line: {
      country: first.country,
      carrierId: first.carrierId,
      service: first.service,
      rotationMinutes: first.rotationMinutes,
    },
  }
}

/** The rentals to extend: these, or all running ones of an order. */
export type RentalSelection = { readonly proxyIds: readonly string[] } | { readonly orderId: string }

export type RentalExtension = {
  /**
   * Extends rentals within the purchase's scope by another period, and pays for it.
   * @throws ApiError: refusals of `rentalsToExtend`, `prepareExtension` and `placeOrder`
   */
  extend(
    purchase: Purchase & { readonly scope: AccountScope },
    selection: RentalSelection,
    periodDays: number,
    after: number | null,
  ): Promise<PlacedOrder>
  /**
   * The price of an extension, without an order.
   * @throws ApiError: refusals of `rentalsToExtend` and `prepareExtension`
   */
  quote(
    context: Pick<Purchase, 'caller'> & { readonly scope: AccountScope },
    selection: RentalSelection,
    periodDays: number,
  ): Promise<Pick<Prepared, 'amountCents'>>
}

export const createRentalExtension = (dependencies: {
  readonly placeOrder: PlaceOrder
  readonly catalog: { current(): Catalog }
  readonly termsOf: TermsOf
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly verifyRentals: VerifyRentals
  readonly clock: Clock
}): RentalExtension => {
  const { placeOrder, catalog, termsOf, reads, db, verifyRentals, clock } = dependencies

  const find = async (scope: AccountScope, selection: RentalSelection): Promise<RentalsToExtend> => {
    const requestedIds = 'proxyIds' in selection ? [...new Set(selection.proxyIds)] : null
    const filter = requestedIds === null ? selection : { proxyIds: requestedIds }
    const found = await findProxies(db, scope, filter, clock(), maxExtended + 1)
    const rows = await verifyRentals(scope.accountId, found)
    return rentalsToExtend(rows, { requestedIds, customerId: scope.customerId, nowMs: clock() })
  }

  return {
    extend: async (purchase, selection, periodDays, after) => {
      await reads.settled(purchase.caller.accountId, after ?? 0)
      const rentals = await orRefusal(find(purchase.scope, selection))
      return placeOrder(orderOf(purchase, '', { kind: 'extension', rentals, periodDays }))
    },
    quote: async ({ caller, scope }, selection, periodDays) =>
      prepareExtension(
        {
          orderId: 'ord_' as OrderId,
          caller,
          customerId: scope.customerId,
          termsOf: (product) => termsOf(caller, product),
          method: 'wallet',
          payableBy: ['wallet'],
          expectedAmountCents: undefined,
          catalog: catalog.current(),
        },
        await find(scope, selection),
        periodDays,
      ),
  }
}
