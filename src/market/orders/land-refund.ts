import { isoTime } from '../../kernel/clock.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { decideCredit } from '../../money/ledger/decide.ts'
import { decideCustomerRefund } from '../../money/ledger/decide-customer.ts'
import type { LedgerEvent } from '../../money/ledger/events.ts'
import type { LedgerState } from '../../money/ledger/state.ts'
import type { Appends } from '../../platform/eventstore/commands/command.ts'
import { remembersSince } from '../../platform/eventstore/remembered.ts'
import { centsToMicros } from '../../terms/money.ts'
import { isCustomerOrder } from '../../terms/order-details.ts'
import { ledgerStream, orderStream } from '../../terms/streams.ts'
import { type Arbiter, arbiterOf } from './arbiter.ts'
import type { OrderEvent } from './events.ts'
import { paidExtensions } from './extended.ts'
import { type Order, orderAfter, type Refund } from './fold.ts'
import { type OrderStates, withoutEmpty } from './place.ts'

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
  if (remembersSince(ledger.movements, refund.decidedAtMs)) return decision.events
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
