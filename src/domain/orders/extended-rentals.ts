import type { ProxyId } from '../../kernel/ids.ts'
import type { AllocationOwner } from './allocation-owner.ts'
import { decidedRefundCents, decidedRefundCostCents, type Order, type Refund } from './fold.ts'

/**
 * What was looked up for the decision. By refund: whether its money moved, as all of the wallet's stream tells. By
 * extension: whether something of its price is kept, as its own stream tells.
 */
export type RefundEvidence = ReadonlyMap<string, boolean>

export const noEvidence: RefundEvidence = new Map()

/** Nothing was decided: this has to be looked up first. */
export type NeedsEvidence = {
  readonly kind: 'needs'
  /**
   * Decided so long ago that the wallet does not remember whether their money moved (seven days, and only where the log
   * can lose the end of a command): its stream has to be looked through.
   */
  readonly refundIds: readonly string[]
  /** These orders have extended rentals that a refund would end; it is not known whether they were refunded. */
  readonly extensionIds: readonly string[]
}

export const needsEvidence = (missing: Partial<Omit<NeedsEvidence, 'kind'>>): NeedsEvidence => ({
  kind: 'needs',
  refundIds: [],
  extensionIds: [],
  ...missing,
})

/** Whether something of what an order cost is not given back. */
export const hasUnrefundedAmount = (order: Order): boolean => {
  const { amountCents, costCents = 0 } = order.details
  return decidedRefundCents(order) < amountCents || decidedRefundCostCents(order) < costCents
}

/**
 * The rentals among those of a refund that extensions have paid for, and which: those whose price was not given back
 * whole. The arbiter's stream says who extended, so an extension that is placed meanwhile has this decided again; that
 * one was refunded whole stays true, whenever it was looked up.
 * @returns needs: the streams of these extensions have to be looked at first
 */
export const paidExtensions = (
  allocationOwner: AllocationOwner<unknown>,
  state: unknown,
  refund: Pick<Refund, 'proxyIds'>,
  evidence: RefundEvidence,
  nowMs: number,
): { readonly kind: 'known'; readonly paid: ReadonlyMap<ProxyId, readonly string[]> } | NeedsEvidence => {
  const extended = allocationOwner.paidForSince(state, refund, nowMs)
  const unread = new Set([...extended.values()].flat().filter((orderId) => !evidence.has(orderId)))
  if (unread.size > 0) return needsEvidence({ extensionIds: [...unread] })
  const paid = new Map<ProxyId, readonly string[]>()
  for (const [proxyId, orderIds] of extended) {
    const stillPaid = orderIds.filter((orderId) => evidence.get(orderId))
    if (stillPaid.length > 0) paid.set(proxyId, stillPaid)
  }
  return { kind: 'known', paid }
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
