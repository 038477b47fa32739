import type { ProxyId } from '../../kernel/ids.ts'
import type { CommandDecision } from '../../platform/eventstore/commands/command.ts'
import { orderStream } from '../../terms/streams.ts'
import { type Arbiter, arbiterOf } from './arbiter.ts'
import type { OrderEvent } from './events.ts'
import {
  type ExtendedSince,
  extendedSince,
  type NeedsEvidence,
  noEvidence,
  paidExtensions,
  type RefundEvidence,
} from './extended.ts'
import { type Order, orderAfter } from './fold.ts'
import { landRefund } from './land-refund.ts'
import type { OrderStates } from './place.ts'
import { type RefundRequest, refundShareOf } from './refund-share.ts'

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
    const landing = landRefund({ ...states, order }, known, nowMs, evidence)
    if (landing.kind === 'needs') return { appends: [], answer: landing }
    const { appends, order: after, keptProxyIds } = landing
    const { amountCents } = known
    return { appends, answer: { kind: 'refunded', order: after, amountCents, keptProxyIds } }
  }
  const share = refundShareOf(order, request)
  if ('reason' in share) return refusal(share.reason)
  const { amountCents, costCents = 0 } = share
  if (amountCents + costCents <= 0) return refusal('nothing of the order is left to refund')
  const arbiter = arbiterOf(order.details) as Arbiter<unknown>
  const extended = paidExtensions(arbiter, states.arbiter, share, evidence, nowMs)
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
  const landing = landRefund(
    { ...states, order: orderAfter(order, [decided], nowMs) },
    { refundId, ...share, decidedAtMs: nowMs, landed: false },
    nowMs,
    evidence,
  )
  if (landing.kind === 'needs') return { appends: [], answer: landing }
  return {
    appends: [{ stream: orderStream(order.details.orderId), events: [decided] }, ...landing.appends],
    answer: { kind: 'refunded', order: landing.order, amountCents, keptProxyIds: landing.keptProxyIds },
  }
}
