import type { CommandDecision } from '../../kernel/decider.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { shareOfCents } from '../../kernel/money.ts'
import { orderStream } from '../../kernel/streams.ts'
import type { OrderStates } from './decide-placement.ts'
import { type AllocationOwner, allocationOwnerOf } from './decide-placement.ts'
import type { OrderEvent } from './events.ts'
import {
  type ExtendedSince,
  extendedSince,
  type NeedsEvidence,
  noEvidence,
  paidExtensions,
  type RefundEvidence,
} from './extended-rentals.ts'
import { decidedRefundCents, decidedRefundCostCents, type Order, orderAfter, type Refund } from './fold.ts'
import { settleRefund } from './land-refund.ts'

/**
 * The part to refund: all that is left, an amount, or the share of some addresses in what is left. `unasked`: the service
 * refunds without a request. It does not refuse because of extended rentals, and these rentals do not end.
 */
export type RefundRequest = (
  | { readonly kind: 'whole'; readonly unasked?: true }
  | { readonly kind: 'cents'; readonly cents: number }
  | { readonly kind: 'proxies'; readonly proxyIds: readonly ProxyId[] }
) & {
  /** The operator's reference. It is stored with the refund. */
  readonly reference?: string
}

/** The rentals of an order that no refund has ended. */
const unrefundedProxies = (order: Order): ProxyId[] => {
  const refunded = new Set(order.refunds.flatMap(({ proxyIds }) => proxyIds))
  return order.proxyIds.filter((id) => !refunded.has(id))
}

/** The refunded part of the price, of the reseller's cost (only on an order for a customer) and of the rentals. */
type RefundShare = Pick<Refund, 'amountCents' | 'costCents' | 'proxyIds'>

/** The refunded part of the cost, cents. It is computed cumulatively, so that all parts add up to the whole cost. */
const costOf = (order: Order, remainingCostCents: number, refundedAfterCents: number): number => {
  const { amountCents, costCents = 0 } = order.details
  const share = shareOfCents(costCents, refundedAfterCents, amountCents) - decidedRefundCostCents(order)
  return Math.min(Math.max(share, 0), remainingCostCents)
}

/** The share of a refund request after all earlier decided refunds, or the reason why there is none. */
const refundShareOf = (order: Order, request: RefundRequest): RefundShare | { readonly reason: string } => {
  const { details } = order
  const decidedCents = decidedRefundCents(order)
  const remainingCents = details.amountCents - decidedCents
  const remainingCostCents = (details.costCents ?? 0) - decidedRefundCostCents(order)
  const unrefunded = unrefundedProxies(order)
  const share = (amountCents: number, costCents: number, proxyIds: readonly ProxyId[]): RefundShare => {
    // A refund of the whole rest of the price takes the whole rest of the cost and the rentals too.
    const isFullRefund = amountCents === remainingCents
    const cost =
      details.costCents === undefined ? {} : { costCents: isFullRefund ? remainingCostCents : costCents }
    return { amountCents, ...cost, proxyIds: isFullRefund ? unrefunded : proxyIds }
  }
  switch (request.kind) {
    case 'whole':
      return share(remainingCents, remainingCostCents, unrefunded)
    case 'cents': {
      const { cents } = request
      if (cents > remainingCents)
        return { reason: `only ${remainingCents} cents of the order are left to refund` }
      return share(cents, costOf(order, remainingCostCents, decidedCents + cents), [])
    }
    case 'proxies': {
      if (details.kind === 'extension')
        return { reason: 'an extension is refunded whole or by amount, not by address' }
      const unknown = request.proxyIds.find((id) => !unrefunded.includes(id))
      if (unknown) return { reason: `${unknown} is not a rental of this order, or it is refunded already` }
      if (request.proxyIds.length === unrefunded.length)
        return share(remainingCents, remainingCostCents, unrefunded)
      // The share of what is left: earlier refunds of an amount were for all rentals. At least a cent stays for the other
      // rentals, because a refund of all that is left ends them, too.
      const shareOf = (cents: number) => shareOfCents(cents, request.proxyIds.length, unrefunded.length)
      const amountCents = Math.min(shareOf(remainingCents), remainingCents - 1)
      return share(amountCents, shareOf(remainingCostCents), request.proxyIds)
    }
    default: {
      const unknown: never = request
      throw new Error(`unknown refund request ${JSON.stringify(unknown)}`)
    }
  }
}

export type RefundAnswer =
  | {
      readonly kind: 'refunded'
      readonly order: Order
      readonly amountCents: number
      /** Rentals that do not end although all is refunded, because extensions have paid for them. */
      readonly keptProxyIds: readonly ProxyId[]
    }
  /** This refund id was carried out before. Nothing moved. */
  | { readonly kind: 'already_applied'; readonly order: Order }
  /** `extended`: the rentals that caused the refusal, if that is the reason. */
  | { readonly kind: 'refused'; readonly reason: string; readonly extended?: ExtendedSince }

/**
 * Decides and carries out a refund: once per refund id, and never more than was paid. The order stream gets
 * `RefundDecided` before any money moves. A refund that would end a rental which a later order has extended is refused
 * as long as some of that order's price is not refunded, except if the refund is `unasked`.
 */
export const decideRefund = (
  states: OrderStates,
  refundId: string,
  request: RefundRequest,
  nowMs: number,
  evidence: RefundEvidence = noEvidence,
): CommandDecision<RefundAnswer | NeedsEvidence> => {
  const refusal = (reason: string): CommandDecision<RefundAnswer> => ({
    appends: [],
    answer: { kind: 'refused', reason },
  })
  const { order } = states
  if (!order) return refusal('there is no such order')
  if (!order.paid) return refusal('nothing was paid for the order')
  if (order.status === 'processing')
    return refusal('the order is still being processed; try again in a moment')
  const existing = order.refunds.find((refund) => refund.refundId === refundId)
  if (existing?.landed) return { appends: [], answer: { kind: 'already_applied', order } }
  if (existing) {
    const settlement = settleRefund({ ...states, order }, existing, nowMs, evidence)
    if (settlement.kind === 'needs') return { appends: [], answer: settlement }
    const { appends, order: after, keptProxyIds } = settlement
    const { amountCents } = existing
    return { appends, answer: { kind: 'refunded', order: after, amountCents, keptProxyIds } }
  }
  const share = refundShareOf(order, request)
  if ('reason' in share) return refusal(share.reason)
  const { amountCents, costCents = 0 } = share
  if (amountCents + costCents <= 0) return refusal('nothing of the order is left to refund')
  const allocationOwner = allocationOwnerOf(order.details) as AllocationOwner<unknown>
  const extended = paidExtensions(allocationOwner, states.allocationOwner, share, evidence, nowMs)
  if (extended.kind === 'needs') return { appends: [], answer: extended }
  const unasked = request.kind === 'whole' && request.unasked === true
  if (extended.paid.size > 0 && !unasked)
    return { appends: [], answer: { kind: 'refused', ...extendedSince(extended.paid) } }
  const { reference } = request
  const decided: OrderEvent = {
    type: 'RefundDecided',
    data: {
      orderId: order.details.orderId,
      refundId,
      ...share,
      reason: 'operator',
      ...(reference !== undefined && { reference }),
    },
  }
  const settlement = settleRefund(
    { ...states, order: orderAfter(order, [decided], nowMs) },
    { refundId, ...share, decidedAtMs: nowMs, landed: false },
    nowMs,
    evidence,
  )
  if (settlement.kind === 'needs') return { appends: [], answer: settlement }
  return {
    appends: [{ stream: orderStream(order.details.orderId), events: [decided] }, ...settlement.appends],
    answer: { kind: 'refunded', order: settlement.order, amountCents, keptProxyIds: settlement.keptProxyIds },
  }
}
