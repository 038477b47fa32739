import type { FoundProxy } from '../../../projections/proxies.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { orderAfter } from '../../domain/orders/fold.ts'
import type { Target } from '../../domain/shared/order-terms.ts'
import type { OrderId } from '../../kernel/ids.ts'
import { orderStream } from '../../kernel/streams.ts'
import { createGenuineRows, type GenuineRows } from '../../platform/commands/genuine-rows.ts'

type Owned = Pick<
  FoundProxy,
  | 'proxy_id'
  | 'order_id'
  | 'customer_id'
  | 'product_id'
  | 'country'
  | 'carrier_id'
  | 'service'
  | 'rotation_minutes'
>

/**
 * Verifies owner and line of rentals in the log: credentials and links derive from rental ids, and extensions are
 * priced.
 */
export type OwnRentals = GenuineRows<Owned>

/** Whether a row has the line of the order. Null fields of the target match any value: not mobile, or not chosen. */
const isLineOf = (row: Owned, target: Target | null): boolean =>
  target !== null &&
  target.country === row.country &&
  (target.carrierId ?? row.carrier_id) === row.carrier_id &&
  (target.service ?? row.service) === row.service &&
  (target.rotationMinutes ?? row.rotation_minutes) === row.rotation_minutes

export const createOwnRentals = (deps: Parameters<typeof createGenuineRows>[0]): OwnRentals =>
  createGenuineRows<Owned>(deps, {
    keyOf: (row) =>
      [
        row.proxy_id,
        row.order_id,
        row.customer_id,
        row.product_id,
        row.country,
        row.carrier_id,
        row.service,
        row.rotation_minutes,
      ].join(' '),
    streamOf: (row) => orderStream(row.order_id as OrderId),
    isGenuine: (accountId, row, events) => {
      if (events.length === 0) return false
      const { details, proxyIds } = orderAfter(null, events as unknown as readonly OrderEvent[])
      return (
        details.accountId === accountId &&
        details.customerId === row.customer_id &&
        details.productId === row.product_id &&
        isLineOf(row, details.target) &&
        proxyIds.some((id) => id === row.proxy_id)
      )
    },
  })
