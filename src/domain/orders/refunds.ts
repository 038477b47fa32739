import type { CommandDecision } from '../../kernel/decider.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { shareOfCents } from '../../kernel/money.ts'
import { orderStream } from '../../kernel/streams.ts'
import { type AllocationOwner, allocationOwnerOf } from './allocation-owner.ts'
import type { OrderStates } from './decide-placement.ts'
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
 * What is to be given back: all that is left, an amount, or the rentals of some addresses. `unasked`: the service refunds by
 * itself, so there is nobody to refuse; rentals that extensions have paid for go on.
 */
export type RefundRequest = (
  | { readonly kind: 'whole'; readonly unasked?: true }
  | { readonly kind: 'cents'; readonly cents: number }
  | { readonly kind: 'proxies'; readonly proxyIds: readonly ProxyId[] }
) & {
  /** What it is for, in the operator's words; kept with the refund. */
  readonly reference?: string
}

/** The rentals of an order that no refund has ended yet. */
const unrefundedProxies = (order: Order): ProxyId[] => {
  const refunded = new Set(order.refunds.flatMap(({ proxyIds }) => proxyIds))
  return order.proxyIds.filter((id) => !refunded.has(id))
}

/** What a refund takes: of the price, of the reseller's cost (an order for a customer only), of the goods. */
export type RefundShare = Pick<Refund, 'amountCents' | 'costCents' | 'proxyIds'>

/** The part of the cost that goes with amounts: cumulative, so that all parts add up to the whole. */
const costOf = (order: Order, leftCostCents: number, refundedAfterCents: number): number => {
  const { amountCents, costCents = 0 } = order.details
  const share = shareOfCents(costCents, refundedAfterCents, amountCents) - decidedRefundCostCents(order)
  return Math.min(Math.max(share, 0), leftCostCents)
}

/** What a request comes to, given the refunds that were decided before; or why there is no such part. */
export const refundShareOf = (
  order: Order,
  request: RefundRequest,
): RefundShare | { readonly reason: string } => {
  const { details } = order
  const decidedCents = decidedRefundCents(order)
  const leftCents = details.amountCents - decidedCents
  const leftCostCents = (details.costCents ?? 0) - decidedRefundCostCents(order)
  const left = unrefundedProxies(order)
  const share = (amountCents: number, costCents: number, proxyIds: readonly ProxyId[]): RefundShare => {
    // When nothing of the price is left with us, nothing of the cost and of the goods is left with the others.
    const whole = amountCents === leftCents
    const cost = details.costCents === undefined ? {} : { costCents: whole ? leftCostCents : costCents }
    return { amountCents, ...cost, proxyIds: whole ? left : proxyIds }
  }
  switch (request.kind) {
    case 'whole':
      return share(leftCents, leftCostCents, left)
    case 'cents': {
      const { cents } = request
      if (cents > leftCents) return { reason: `only ${leftCents} cents of the order are left to refund` }
      return share(cents, costOf(order, leftCostCents, decidedCents + cents), [])
    }
    case 'proxies': {
      if (details.kind === 'extension')
        return { reason: 'an extension is refunded whole or by amount, not by address' }
      const unknown = request.proxyIds.find((id) => !left.includes(id))
      if (unknown) return { reason: `${unknown} is not a rental of this order, or it is refunded already` }
      if (request.proxyIds.length === left.length) return share(leftCents, leftCostCents, left)
      const before = order.proxyIds.length - left.length
      const part = (cents: number) =>
        shareOfCents(cents, before + request.proxyIds.length, order.proxyIds.length) -
        shareOfCents(cents, before, order.proxyIds.length)
      const costCents = Math.min(part(details.costCents ?? 0), leftCostCents)
      return share(Math.min(part(details.amountCents), leftCents), costCents, request.proxyIds)
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
      /** Rentals that go on though all is given back: extensions have paid for them. */
      readonly keptProxyIds: readonly ProxyId[]
    }
  /** This refund id landed before; nothing moved. */
  | { readonly kind: 'already_applied'; readonly order: Order }
  /** `extended`: what the refund would take from others, where it is refused for that. */
  | { readonly kind: 'refused'; readonly reason: string; readonly extended?: ExtendedSince }

/**
 * Decides and lands a refund: never more than was paid, once for a refund id. The order stream decides
 * (`RefundDecided`) before any money moves. One that would end a rental which a later order has extended is refused
 * as long as something of that order's price is kept, unless nobody asked for it.
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
  const known = order.refunds.find((refund) => refund.refundId === refundId)
  if (known?.landed) return { appends: [], answer: { kind: 'already_applied', order } }
  if (known) {
    const settlement = settleRefund({ ...states, order }, known, nowMs, evidence)
    if (settlement.kind === 'needs') return { appends: [], answer: settlement }
    const { appends, order: after, keptProxyIds } = settlement
    const { amountCents } = known
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
