import { isoTime } from '../../kernel/clock.ts'
import type { Appends } from '../../kernel/decider.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { remembersSince } from '../../kernel/recent-ids.ts'
import { ledgerStream, orderStream } from '../../kernel/streams.ts'
import { decideCredit } from '../ledger/decide.ts'
import { decideCustomerRefund } from '../ledger/decide-customer.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import type { LedgerState } from '../ledger/fold.ts'
import {
  type AllocationOwner,
  allocationOwnerOf,
  dropEmptyAppends,
  type OrderStates,
} from './decide-placement.ts'
import type { OrderEvent } from './events.ts'
import { type NeedsEvidence, needsEvidence, paidExtensions, type RefundEvidence } from './extended-rentals.ts'
import { isCustomerOrder, type Order, orderAfter, type Refund } from './fold.ts'

/**
 * The ledger events of a refund: to the wallet, or to both sides of an order for a customer. Empty if the money has
 * moved. Null if neither the ledger state nor the evidence shows that.
 */
const refundLedgerEvents = (
  ledger: LedgerState,
  { details }: Order,
  refund: Refund,
  evidence: RefundEvidence,
): readonly LedgerEvent[] | null => {
  const { orderId, family } = details
  const refundFields = { reference: refund.refundId, orderId, family }
  const amountMicros = centsToMicros(refund.amountCents)
  const decision = isCustomerOrder(details)
    ? decideCustomerRefund(ledger, {
        ...refundFields,
        customerId: details.customerId,
        amountMicros,
        costMicros: centsToMicros(refund.costCents ?? 0),
      })
    : decideCredit(ledger, {
        ...refundFields,
        source: 'refund',
        gateway: null,
        depositId: null,
        amountMicros,
      })
  if (decision.outcome !== 'decided') return []
  if (remembersSince(ledger.movements, refund.decidedAtMs)) return decision.events
  // Evidence from before this decision is still valid, because the ledger state has every later movement.
  const isAlreadyBooked = evidence.get(refund.refundId)
  if (isAlreadyBooked === undefined) return null
  return isAlreadyBooked ? [] : decision.events
}

/**
 * Whether the order was fulfilled, according to its own stream. If a crash left that stream behind, the allocation
 * owner decides.
 */
const wasFulfilled = (
  { order, allocationOwner: state }: OrderStates & { readonly order: Order },
  allocationOwner: AllocationOwner<unknown>,
  nowMs: number,
): boolean => {
  if (order.fulfilledAt !== null) return true
  const { isRecorded, verdict } = allocationOwner.decide(state, nowMs)
  return isRecorded && verdict.outcome === 'fulfilled'
}

type RefundSettlement = {
  readonly kind: 'landed'
  readonly appends: Appends
  readonly order: Order
  /** Rentals that do not end, because extensions have paid for them. */
  readonly keptProxyIds: readonly ProxyId[]
}

/**
 * Carries out a refund: credits the money, takes back what it pays for, appends `OrderRefunded`. Each step is skipped
 * if it was done before, so that another call finishes any prefix. A rental that an extension has paid for does not
 * end.
 */
export const settleRefund = (
  states: OrderStates & { readonly order: Order },
  refund: Refund,
  nowMs: number,
  evidence: RefundEvidence,
): RefundSettlement | NeedsEvidence => {
  const { order } = states
  const { details } = order
  const refundedCents = order.refundedCents + refund.amountCents
  const complete = refundedCents === details.amountCents
  const allocationOwner = allocationOwnerOf(details) as AllocationOwner<unknown>
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
  const extended = paidExtensions(allocationOwner, states.allocationOwner, refund, evidence, nowMs)
  if (extended.kind === 'needs') return extended
  const ledgerEvents = refundLedgerEvents(states.ledger, order, refund, evidence)
  if (ledgerEvents === null) return needsEvidence({ refundIds: [refund.refundId] })
  const { paid } = extended
  const effectiveRefund = { ...refund, proxyIds: refund.proxyIds.filter((id) => !paid.has(id)) }
  const takeBackEvents = wasFulfilled(states, allocationOwner, nowMs)
    ? allocationOwner.takeBack(states.allocationOwner, effectiveRefund, complete, nowMs)
    : []
  return {
    kind: 'landed',
    appends: dropEmptyAppends([
      { stream: ledgerStream(details.accountId), events: ledgerEvents },
      { stream: allocationOwner.stream, events: takeBackEvents },
      { stream: orderStream(details.orderId), events: [refunded] },
    ]),
    order: orderAfter(order, [refunded]),
    keptProxyIds: [...paid.keys()],
  }
}
