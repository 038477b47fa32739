import { isoTime } from '../clock.ts'
import type { Decision } from '../eventstore/commands/command.ts'
import { remembersSince } from '../eventstore/remembered.ts'
import { ledgerStream, orderStream } from '../eventstore/streams.ts'
import type { ProxyId } from '../ids.ts'
import { decideCredit } from '../ledger/decide.ts'
import { decideCustomerRefund } from '../ledger/decide-customer.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { centsToMicros, shareOfCents } from '../ledger/money.ts'
import type { LedgerState } from '../ledger/state.ts'
import { type Arbiter, arbiterOf } from './arbiter.ts'
import { isCustomerOrder } from './details.ts'
import type { OrderEvent } from './events.ts'
import { type ExtendedSince, extendedSince, paidExtensions } from './extended.ts'
import { decidedRefundCents, decidedRefundCostCents, type Order, orderAfter, type Refund } from './fold.ts'
import { type OrderStates, withoutEmpty } from './place.ts'

type Appends = Decision<never>['appends']

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
 * What was looked up for the decision. By refund: whether its money moved, as all of the wallet's stream tells. By
 * extension: whether something of its price is kept, as its own stream tells.
 */
export type RefundEvidence = ReadonlyMap<string, boolean>

export const noEvidence: RefundEvidence = new Map()

/**
 * The refund was decided so long ago that the wallet does not remember whether its money moved (seven days, and only
 * where the log can lose the end of a command): its stream has to be looked through. Nothing was decided.
 */
export class RefundForgotten extends Error {
  override readonly name = 'RefundForgotten'
  readonly refundId: string
  constructor(refundId: string) {
    super(`the wallet does not remember whether refund ${refundId} was paid`)
    this.refundId = refundId
  }
}

/**
 * The money of a refund: to the wallet, or back to both sides of an order for a customer. None when it is there.
 * @throws RefundForgotten
 */
const moneyBack = (
  ledger: LedgerState,
  { details }: Order,
  refund: Refund,
  evidence: RefundEvidence,
): readonly LedgerEvent[] => {
  const { orderId, family } = details
  const common = { reference: refund.refundId, orderId, family }
  const amountMicros = centsToMicros(refund.amountCents)
  const decision = isCustomerOrder(details)
    ? decideCustomerRefund(ledger, {
        ...common,
        customerId: details.customerId,
        amountMicros,
        costMicros: centsToMicros(refund.costCents ?? 0),
      })
    : decideCredit(ledger, { ...common, source: 'refund', gateway: null, depositId: null, amountMicros })
  if (decision.outcome !== 'decided') return []
  const memory = isCustomerOrder(details) ? ledger.customerMovements : ledger.credits
  if (remembersSince(memory, refund.decidedAtMs)) return decision.events
  // What was looked up before this decision stays true: whatever moved since then is remembered.
  const moved = evidence.get(refund.refundId)
  if (moved === undefined) throw new RefundForgotten(refund.refundId)
  return moved ? [] : decision.events
}

/** Whether the order got goods: as its own stream says, or its arbiter where a crash left the order behind it. */
const gotGoods = (
  { order, arbiter: state }: OrderStates & { readonly order: Order },
  arbiter: Arbiter<unknown>,
  nowMs: number,
): boolean => {
  if (order.fulfilledAt !== null) return true
  const { standing, verdict } = arbiter.rule(state, nowMs)
  return standing && verdict.outcome === 'fulfilled'
}

/**
 * The refund's way home: credit, what it pays for taken back, `OrderRefunded`. Each step looks whether it stands, so
 * that every prefix of it is finished by calling it again. A rental that an extension has paid for meanwhile goes on.
 * @throws RefundForgotten, ExtensionsUnread
 */
export const landRefund = (
  states: OrderStates & { readonly order: Order },
  refund: Refund,
  nowMs: number,
  evidence: RefundEvidence,
): { readonly appends: Appends; readonly order: Order; readonly keptProxyIds: readonly ProxyId[] } => {
  const { order } = states
  const { details } = order
  const refundedCents = order.refundedCents + refund.amountCents
  const complete = refundedCents === details.amountCents
  const arbiter = arbiterOf(details) as Arbiter<unknown>
  const refunded: OrderEvent = {
    type: 'OrderRefunded',
    data: {
      orderId: details.orderId,
      accountId: details.accountId,
      refundId: refund.refundId,
      amountCents: refund.amountCents,
      ...(refund.costCents === undefined ? {} : { costCents: refund.costCents }),
      refundedCents,
      complete,
      refundedAt: isoTime(nowMs),
    },
  }
  const kept = paidExtensions(arbiter, states.arbiter, refund, evidence, nowMs)
  const ended = { ...refund, proxyIds: refund.proxyIds.filter((id) => !kept.has(id)) }
  const takenBack = gotGoods(states, arbiter, nowMs)
    ? arbiter.takeBack(states.arbiter, ended, complete, nowMs)
    : []
  return {
    appends: withoutEmpty([
      { stream: ledgerStream(details.accountId), events: moneyBack(states.ledger, order, refund, evidence) },
      { stream: arbiter.stream, events: takenBack },
      { stream: orderStream(details.orderId), events: [refunded] },
    ]),
    order: orderAfter(order, [refunded]),
    keptProxyIds: [...kept.keys()],
  }
}

/** The rentals of an order that no refund has ended yet. */
const unrefundedProxies = (order: Order): ProxyId[] => {
  const refunded = new Set(order.refunds.flatMap(({ proxyIds }) => proxyIds))
  return order.proxyIds.filter((id) => !refunded.has(id))
}

/** What a refund takes: of the price, of the reseller's cost (an order for a customer only), of the goods. */
type Share = Pick<Refund, 'amountCents' | 'costCents' | 'proxyIds'>

/** The part of the cost that goes with amounts: cumulative, so that all parts add up to the whole. */
const costOf = (order: Order, leftCostCents: number, refundedAfterCents: number): number => {
  const { amountCents, costCents = 0 } = order.details
  const share = shareOfCents(costCents, refundedAfterCents, amountCents) - decidedRefundCostCents(order)
  return Math.min(Math.max(share, 0), leftCostCents)
}

const shareOf = (order: Order, request: RefundRequest): Share | { readonly reason: string } => {
  const { details } = order
  const decidedCents = decidedRefundCents(order)
  const leftCents = details.amountCents - decidedCents
  const leftCostCents = (details.costCents ?? 0) - decidedRefundCostCents(order)
  const left = unrefundedProxies(order)
  const share = (amountCents: number, costCents: number, proxyIds: readonly ProxyId[]): Share => {
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

/**
 * Decides and lands a refund: never more than was paid, once for a refund id. The order stream decides
 * (`RefundDecided`) before any money moves. One that would end a rental which a later order has extended is refused
 * as long as something of that order's price is kept, unless nobody asked for it.
 * @throws RefundForgotten, ExtensionsUnread
 */
export const decideRefund = (
  states: OrderStates,
  refundId: string,
  request: RefundRequest,
  nowMs: number,
  evidence: RefundEvidence = noEvidence,
): Decision<RefundAnswer> => {
  const refuse = (reason: string): Decision<RefundAnswer> => ({
    appends: [],
    answer: { kind: 'refused', reason },
  })
  const { order } = states
  if (!order) return refuse('there is no such order')
  if (!order.paid) return refuse('nothing was paid for the order')
  if (order.status === 'processing')
    return refuse('the order is still being processed; try again in a moment')
  const known = order.refunds.find((refund) => refund.refundId === refundId)
  if (known?.landed) return { appends: [], answer: { kind: 'already_applied', order } }
  if (known) {
    const landing = landRefund({ ...states, order }, known, nowMs, evidence)
    const { appends, order: after, keptProxyIds } = landing
    const { amountCents } = known
    return { appends, answer: { kind: 'refunded', order: after, amountCents, keptProxyIds } }
  }
  const share = shareOf(order, request)
  if ('reason' in share) return refuse(share.reason)
  const { amountCents, costCents = 0 } = share
  if (amountCents + costCents <= 0) return refuse('nothing of the order is left to refund')
  const arbiter = arbiterOf(order.details) as Arbiter<unknown>
  const extended = paidExtensions(arbiter, states.arbiter, share, evidence, nowMs)
  const unasked = request.kind === 'whole' && request.unasked === true
  if (extended.size > 0 && !unasked)
    return { appends: [], answer: { kind: 'refused', ...extendedSince(extended) } }
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
  return {
    appends: [{ stream: orderStream(order.details.orderId), events: [decided] }, ...landing.appends],
    answer: { kind: 'refunded', order: landing.order, amountCents, keptProxyIds: landing.keptProxyIds },
  }
}
