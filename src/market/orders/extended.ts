import type { ProxyId } from '../../kernel/ids.ts'
import type { Arbiter } from './arbiter.ts'
import { decidedRefundCents, decidedRefundCostCents, type Order, type Refund } from './fold.ts'

/** Whether something of what an order cost is not given back. */
export const keepsMoney = (order: Order): boolean => {
  const { amountCents, costCents = 0 } = order.details
  return decidedRefundCents(order) < amountCents || decidedRefundCostCents(order) < costCents
}

/** A refund would end rentals that these orders have extended; their streams have to be looked at. Nothing was decided. */
export class ExtensionsUnread extends Error {
  override readonly name = 'ExtensionsUnread'
  readonly orderIds: readonly string[]
  constructor(orderIds: readonly string[]) {
    super(`it is not known whether ${orderIds.join(', ')} were refunded`)
    this.orderIds = orderIds
  }
}

/**
 * The rentals among those of a refund that extensions have paid for, and which: those whose price was not given back
 * whole. The arbiter's stream says who extended, so an extension that is placed meanwhile has this decided again; that
 * one was refunded whole stays true, whenever it was looked up.
 * @param evidence By extension: whether something of its price is kept.
 * @throws ExtensionsUnread
 */
export const paidExtensions = (
  arbiter: Arbiter<unknown>,
  state: unknown,
  refund: Pick<Refund, 'proxyIds'>,
  evidence: ReadonlyMap<string, boolean>,
  nowMs: number,
): ReadonlyMap<ProxyId, readonly string[]> => {
  const extended = arbiter.paidForSince(state, refund, nowMs)
  const unread = new Set([...extended.values()].flat().filter((orderId) => !evidence.has(orderId)))
  if (unread.size > 0) throw new ExtensionsUnread([...unread])
  const paid = new Map<ProxyId, readonly string[]>()
  for (const [proxyId, orderIds] of extended) {
    const kept = orderIds.filter((orderId) => evidence.get(orderId))
    if (kept.length > 0) paid.set(proxyId, kept)
  }
  return paid
}

/** The rentals that a refund would end, and the extensions of them that are paid for. */
export type ExtendedSince = {
  readonly proxyIds: readonly ProxyId[]
  readonly extensionOrderIds: readonly string[]
}

/** The most rentals that the sentence names; `extended` has them all. */
const maxNamed = 5

/** Why a refund is refused that would end such rentals, and what to do. */
export const extendedSince = (
  paid: ReadonlyMap<ProxyId, readonly string[]>,
): { readonly reason: string; readonly extended: ExtendedSince } => {
  const proxyIds = [...paid.keys()]
  const extensionOrderIds = [...new Set([...paid.values()].flat())]
  const more = proxyIds.length > maxNamed ? ` and ${proxyIds.length - maxNamed} more` : ''
  const rentals = `${proxyIds.slice(0, maxNamed).join(', ')}${more}`
  const orders = extensionOrderIds.join(', ')
  return {
    reason: `this would end ${rentals}, which ${orders} extended and paid for; refund ${orders} first, or give back an amount below what is left (--cents), which ends no rental`,
    extended: { proxyIds, extensionOrderIds },
  }
}
