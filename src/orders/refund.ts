import { isoTime } from '../clock.ts'
import type { Decision } from '../eventstore/commands/command.ts'
import { ledgerStream, orderStream } from '../eventstore/streams.ts'
import type { ProxyId } from '../ids.ts'
import { decideCredit } from '../ledger/decide.ts'
import { centsToMicros } from '../ledger/money.ts'
import { type Arbiter, arbiterOf } from './arbiter.ts'
import type { OrderEvent } from './events.ts'
import { decidedRefundCents, type Order, orderAfter, type Refund } from './fold.ts'
import { type OrderStates, withoutEmpty } from './place.ts'

type Appends = Decision<never>['appends']

/** What an operator asks back: all that is left, an amount, or the rentals of some addresses. */
export type RefundRequest =
  | { readonly kind: 'whole' }
  | { readonly kind: 'cents'; readonly cents: number }
  | { readonly kind: 'proxies'; readonly proxyIds: readonly ProxyId[] }

export type RefundAnswer =
  | { readonly kind: 'refunded'; readonly order: Order; readonly amountCents: number }
  /** This refund id landed before; nothing moved. */
  | { readonly kind: 'already_applied'; readonly order: Order }
  | { readonly kind: 'refused'; readonly reason: string }

/**
 * The refund's way home: credit, what it pays for taken back, `OrderRefunded`. Each step looks whether it stands, so
 * that every prefix of it is finished by calling it again.
 */
export const landRefund = (
  states: OrderStates & { readonly order: Order },
  refund: Refund,
  nowMs: number,
): { readonly appends: Appends; readonly order: Order } => {
  const { order } = states
  const { details } = order
  const refundedCents = order.refundedCents + refund.amountCents
  const complete = refundedCents === details.amountCents
  const credit = decideCredit(states.ledger, {
    source: 'refund',
    reference: refund.refundId,
    gateway: null,
    depositId: null,
    orderId: details.orderId,
    family: details.family,
    amountMicros: centsToMicros(refund.amountCents),
  })
  const arbiter = arbiterOf(details) as Arbiter<unknown>
  const refunded: OrderEvent = {
    type: 'OrderRefunded',
    data: {
      orderId: details.orderId,
      accountId: details.accountId,
      refundId: refund.refundId,
      amountCents: refund.amountCents,
      refundedCents,
      complete,
      refundedAt: isoTime(nowMs),
    },
  }
  const takenBack = order.failedAt === null ? arbiter.takeBack(states.arbiter, refund, complete, nowMs) : []
  return {
    appends: withoutEmpty([
      { stream: ledgerStream(details.accountId), events: credit.outcome === 'decided' ? credit.events : [] },
      { stream: arbiter.stream, events: takenBack },
      { stream: orderStream(details.orderId), events: [refunded] },
    ]),
    order: orderAfter(order, [refunded]),
  }
}

/** The rentals of an order that no refund has ended yet. */
const unrefundedProxies = (order: Order): ProxyId[] => {
  const refunded = new Set(order.refunds.flatMap(({ proxyIds }) => proxyIds))
  return order.proxyIds.filter((id) => !refunded.has(id))
}

/**
 * What the first `count` of `quantity` equal parts of an amount come to, rounded half up once on the sum, so that all
 * parts add up to the whole (decisions, "Orders").
 */
export const partsCents = (amountCents: number, count: number, quantity: number): number => {
  const doubled = 2n * BigInt(amountCents) * BigInt(count) + BigInt(quantity)
  return Number(doubled / (2n * BigInt(quantity)))
}

const amountOf = (
  order: Order,
  request: RefundRequest,
): { readonly amountCents: number; readonly proxyIds: readonly ProxyId[] } | { readonly reason: string } => {
  const { details } = order
  const leftCents = details.amountCents - decidedRefundCents(order)
  const left = unrefundedProxies(order)
  // When nothing of the price is left with us, nothing of the goods is left with the customer.
  const endedBy = (amountCents: number, proxyIds: readonly ProxyId[]) =>
    amountCents === leftCents ? left : proxyIds
  switch (request.kind) {
    case 'whole':
      return { amountCents: leftCents, proxyIds: left }
    case 'cents': {
      if (request.cents > leftCents)
        return { reason: `only ${leftCents} cents of the order are left to refund` }
      return { amountCents: request.cents, proxyIds: endedBy(request.cents, []) }
    }
    case 'proxies': {
      if (details.kind === 'extension')
        return { reason: 'an extension is refunded whole or by amount, not by address' }
      const unknown = request.proxyIds.find((id) => !left.includes(id))
      if (unknown) return { reason: `${unknown} is not a rental of this order, or it is refunded already` }
      const before = order.proxyIds.length - left.length
      const parts = (count: number) => partsCents(details.amountCents, count, order.proxyIds.length)
      const share = parts(before + request.proxyIds.length) - parts(before)
      const last = request.proxyIds.length === left.length
      const amountCents = last ? leftCents : Math.min(share, leftCents)
      return { amountCents, proxyIds: endedBy(amountCents, request.proxyIds) }
    }
    default: {
      const unknown: never = request
      throw new Error(`unknown refund request ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * Decides and lands a refund: never more than was paid, once for a refund id. The order stream decides
 * (`RefundDecided`) before any money moves.
 */
export const decideRefund = (
  states: OrderStates,
  refundId: string,
  request: RefundRequest,
  nowMs: number,
): Decision<RefundAnswer> => {
  const refuse = (reason: string): Decision<RefundAnswer> => ({
    appends: [],
    answer: { kind: 'refused', reason },
  })
  const { order } = states
  if (!order) return refuse('there is no such order')
  if (order.status === 'processing')
    return refuse('the order is still being processed; try again in a moment')
  const known = order.refunds.find((refund) => refund.refundId === refundId)
  if (known?.landed) return { appends: [], answer: { kind: 'already_applied', order } }
  if (known) {
    const { appends, order: after } = landRefund({ ...states, order }, known, nowMs)
    return { appends, answer: { kind: 'refunded', order: after, amountCents: known.amountCents } }
  }
  const amount = amountOf(order, request)
  if ('reason' in amount) return refuse(amount.reason)
  const { amountCents, proxyIds } = amount
  if (amountCents <= 0) return refuse('nothing of the order is left to refund')
  const decided: OrderEvent = {
    type: 'RefundDecided',
    data: { orderId: order.details.orderId, refundId, amountCents, proxyIds, reason: 'operator' },
  }
  const landing = landRefund(
    { ...states, order: orderAfter(order, [decided]) },
    { refundId, amountCents, proxyIds, landed: false },
    nowMs,
  )
  return {
    appends: [{ stream: orderStream(order.details.orderId), events: [decided] }, ...landing.appends],
    answer: { kind: 'refunded', order: landing.order, amountCents },
  }
}
