import type { FoundProxy } from '../../../projections/proxies.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { orderAfter } from '../../domain/orders/fold.ts'
import type { Target } from '../../domain/shared/order-terms.ts'
import type { OrderId } from '../../kernel/ids.ts'
import { orderStream } from '../../kernel/streams.ts'
import { createGenuineRows, type GenuineRows } from '../../platform/commands/genuine-rows.ts'

type Owned = Pick<
  FoundProxy,
  'proxyId' | 'orderId' | 'customerId' | 'productId' | 'country' | 'carrierId' | 'service' | 'rotationMinutes'
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
  (target.carrierId ?? row.carrierId) === row.carrierId &&
  (target.service ?? row.service) === row.service &&
  (target.rotationMinutes ?? row.rotationMinutes) === row.rotationMinutes

export const createOwnRentals = (deps: Parameters<typeof createGenuineRows>[0]): OwnRentals =>
  createGenuineRows<Owned>(deps, {
    keyOf: (row) =>
      [
        row.proxyId,
        row.orderId,
        row.customerId,
        row.productId,
        row.country,
        row.carrierId,
        row.service,
        row.rotationMinutes,
      ].join(' '),
    streamOf: (row) => orderStream(row.orderId as OrderId),
    isGenuine: (accountId, row, events) => {
      if (events.length === 0) return false
      const { details, proxyIds } = orderAfter(null, events as unknown as readonly OrderEvent[])
      return (
        details.accountId === accountId &&
        details.customerId === row.customerId &&
        details.productId === row.productId &&
        isLineOf(row, details.target) &&
        proxyIds.some((id) => id === row.proxyId)
      )
    },
  })
