import type { ProxyId } from '../../kernel/ids.ts'
import { shareOfCents } from '../../terms/money.ts'
import { decidedRefundCents, decidedRefundCostCents, type Order, type Refund } from './fold.ts'

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
