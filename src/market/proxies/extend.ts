import type { ProxyId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import { refuseUnnamedHolder } from '../customers/named.ts'
import type { RentalsToExtend } from '../orders/prepare.ts'
import { maxDaysAhead } from '../stock/decide.ts'
import { type FoundProxy, proxyStatus } from './record.ts'

/** Rentals that one extension names at most. */
export const maxExtended = 1_000

const dayMs = 24 * 60 * 60 * 1000

const lineOf = (row: FoundProxy) =>
  JSON.stringify([row.product_id, row.country, row.carrier_id, row.service, row.rotation_minutes])

/**
 * The rentals of one extension, of those found within the request's scope: they must run, be held for whom the request names, and be of one product, country and
 * mobile line, since one order has one payer, one target and one price.
 * @param request `asked`: the rentals that it names; null: all of an order. `customerId`: whom it is for
 * @throws ApiError not_found, invalid_customer_id, out_of_stock (a rental that has ended), invalid_body (a mixture)
 */
export const rentalsToExtend = (
  found: readonly FoundProxy[],
  request: {
    readonly asked: readonly string[] | null
    readonly customerId: string | null
    readonly nowMs: number
  },
): RentalsToExtend => {
  const { asked, customerId, nowMs } = request
  const runs = (row: FoundProxy) => proxyStatus(row, nowMs) !== 'expired'
  // A whole order keeps those of its addresses that still run.
  const rows = asked === null ? found.filter(runs) : found
  const [first] = rows
  const missing = asked?.find((id) => !rows.some((row) => row.proxy_id === id))
  if (!first || missing !== undefined)
    throw refuse(
      'not_found',
      missing === undefined ? 'no proxy of this order runs' : `no proxy has the id ${missing}`,
    )
  for (const row of rows) refuseUnnamedHolder(row.customer_id, customerId, row.proxy_id)
  if (rows.length > maxExtended)
    throw refuse('invalid_body', `one extension keeps at most ${maxExtended} addresses; name fewer proxy_ids`)
  const ended = rows.find((row) => !runs(row))
  if (ended)
    throw refuse(
      'out_of_stock',
      `the rental of ${ended.proxy_id} has ended; order a new address in its place`,
    )
  const mixed = rows.find((row) => lineOf(row) !== lineOf(first))
  if (mixed)
    throw refuse(
      'invalid_body',
      `proxy_ids must be of one product, country and mobile line; ${mixed.proxy_id} differs from ${first.proxy_id}`,
    )
  const lastEndMs = Math.max(...rows.map((row) => Date.parse(row.expires_at)))
  return {
    productId: first.product_id,
    proxyIds: rows.map((row) => row.proxy_id as ProxyId),
    extendableDays: Math.floor((nowMs - lastEndMs) / dayMs) + maxDaysAhead,
    line: {
      country: first.country,
      carrierId: first.carrier_id,
      service: first.service,
      rotationMinutes: first.rotation_minutes,
    },
  }
}
