import type { ProxyId } from '../../kernel/ids.ts'
import type { AllocationOwner } from './decide-placement.ts'
import { decidedRefundCents, decidedRefundCostCents, type Order, type Refund } from './fold.ts'

/**
 * What was read for the decision. By refund id: whether its money moved, according to the whole stream of the wallet.
 * By the order id of an extension: whether some of its price is not refunded, according to its own stream.
 */
export type RefundEvidence = ReadonlyMap<string, boolean>

export const noEvidence: RefundEvidence = new Map()

/** Nothing was decided: the evidence named here must be read first. */
export type NeedsEvidence = {
  readonly kind: 'needs'
  /**
   * Refunds decided more than seven days ago: the ledger state no longer shows whether their money moved, so the
   * wallet's stream must be searched. This happens only if the log can lose the end of a command.
   */
  readonly refundIds: readonly string[]
  /** Orders that extended rentals which a refund would end. It is unknown whether these orders were refunded. */
  readonly extensionIds: readonly string[]
}

export const needsEvidence = (missing: Partial<Omit<NeedsEvidence, 'kind'>>): NeedsEvidence => ({
  kind: 'needs',
  refundIds: [],
  extensionIds: [],
  ...missing,
})

/** Whether some of the price or the cost of the order is not refunded. */
export const hasUnrefundedAmount = (order: Order): boolean => {
  const { amountCents, costCents = 0 } = order.details
  return decidedRefundCents(order) < amountCents || decidedRefundCostCents(order) < costCents
}

/**
 * The rentals of a refund that extensions have paid for, with the ids of these extensions. An extension that was
 * refunded in full does not count.
 *
 * The evidence cannot become wrong before the append: the stream of the allocation owner has the extensions, so a new
 * extension causes a new decision, and an extension that was refunded in full stays so.
 * @returns `needs` if the streams of some extensions must be read first
 */
export const paidExtensions = (
  allocationOwner: AllocationOwner<unknown>,
  state: unknown,
  refund: Pick<Refund, 'proxyIds'>,
  evidence: RefundEvidence,
  nowMs: number,
): { readonly kind: 'known'; readonly paid: ReadonlyMap<ProxyId, readonly string[]> } | NeedsEvidence => {
  const extended = allocationOwner.paidForSince(state, refund, nowMs)
  const missingIds = new Set([...extended.values()].flat().filter((orderId) => !evidence.has(orderId)))
  if (missingIds.size > 0) return needsEvidence({ extensionIds: [...missingIds] })
  const paid = new Map<ProxyId, readonly string[]>()
  for (const [proxyId, orderIds] of extended) {
    const stillPaid = orderIds.filter((orderId) => evidence.get(orderId))
    if (stillPaid.length > 0) paid.set(proxyId, stillPaid)
  }
  return { kind: 'known', paid }
}

/** The rentals that a refund would end, and the paid extensions of them. */
export type ExtendedSince = {
  readonly proxyIds: readonly ProxyId[]
  readonly extensionOrderIds: readonly string[]
}

/** The message names at most this many rentals. `extended` has all of them. */
const maxListed = 5

/** Why a refund that would end extended rentals is refused, and what the operator can do. */
export const extendedSince = (
  paid: ReadonlyMap<ProxyId, readonly string[]>,
): { readonly reason: string; readonly extended: ExtendedSince } => {
  const proxyIds = [...paid.keys()]
  const extensionOrderIds = [...new Set([...paid.values()].flat())]
  const moreText = proxyIds.length > maxListed ? ` and ${proxyIds.length - maxListed} more` : ''
  const rentals = `${proxyIds.slice(0, maxListed).join(', ')}${moreText}`
  const orders = extensionOrderIds.join(', ')
  return {
    reason: `this would end ${rentals}, which ${orders} extended and paid for; refund ${orders} first, or give back an amount below what is left (--cents), which ends no rental`,
    extended: { proxyIds, extensionOrderIds },
  }
}
