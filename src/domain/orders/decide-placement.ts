import { isoTime } from '../../kernel/clock.ts'
import type { Appends, CommandDecision } from '../../kernel/decider.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { ledgerStream, orderStream } from '../../kernel/streams.ts'
import {
  type DebitRefusal,
  decideDebit,
  type InsufficientBalance,
  type LedgerDecision,
  type SpendCapReached,
} from '../ledger/decide.ts'
import { type CustomerCreditInsufficient, decideCustomerCharge } from '../ledger/decide-customer.ts'
import type { CustomerCharged, WalletDebited } from '../ledger/events.ts'
import type { LedgerState } from '../ledger/fold.ts'
import { isCustomerOrder, type OrderDetails } from '../shared/order-terms.ts'
import { type AllocationOwner, type AllocationResult, allocationOwnerOf } from './allocation-owner.ts'
import type { AllocationRefusalReason, OrderEvent } from './events.ts'
import { type Order, type OrderState, orderAfter } from './fold.ts'

/** An order before the decision, which sets its time. */
export type OrderDraft = Omit<OrderDetails, 'createdAt'>

/** The states that an order is decided on. */
export type OrderStates = {
  readonly ledger: LedgerState
  readonly allocationOwner: unknown
  readonly order: OrderState
}

export type PlacementRefusal =
  | InsufficientBalance
  | SpendCapReached
  | CustomerCreditInsufficient
  | {
      readonly code: 'refused_by_arbiter'
      readonly reason: AllocationRefusalReason
      /** With `out_of_stock`: how many addresses are free. Absent if that is unknown. */
      readonly free?: number
    }

export type PlacementAnswer =
  | { readonly kind: 'placed'; readonly order: Order }
  /** The key's order exists already. */
  | { readonly kind: 'known'; readonly order: Order }
  /** The key was used with another request. */
  | { readonly kind: 'conflict' }
  /** The debit exists and its order does not. A crash or a lost race left a prefix that must be completed. */
  | { readonly kind: 'partially-appended'; readonly debitRevision: number }
  /**
   * The allocation owner fulfilled the order and the ledger state no longer has its debit: it has debits of the last
   * seven days. The order was assumed absent. As this answer appends nothing, its stream is read and the placement is
   * decided again.
   */
  | { readonly kind: 'expired-key' }
  | { readonly kind: 'refused'; readonly refusal: PlacementRefusal }

/**
 * Pays an order from the wallet. An order for a customer is paid from the customer's credit and the reseller's wallet
 * at once. Refusals come in the order of docs/http-api.md.
 */
export const decidePayment = (
  ledger: LedgerState,
  { order, capCents }: { readonly order: OrderDetails; readonly capCents: number | null },
  nowMs: number,
): LedgerDecision<WalletDebited | CustomerCharged, DebitRefusal | CustomerCreditInsufficient> =>
  isCustomerOrder(order)
    ? decideCustomerCharge(ledger, { order, capCents }, nowMs)
    : decideDebit(ledger, { order, capCents }, nowMs)

/** The event of the payment. It is the first event of the stream, except for an order that awaited its payment. */
export const paidEvent = (isAwaiting: boolean, order: OrderDetails, balanceCents: number): OrderEvent => {
  const { orderId, accountId } = order
  return isAwaiting
    ? { type: 'OrderPaid', data: { orderId, accountId, order, balanceCents } }
    : { type: 'OrderPlaced', data: { order, balanceCents } }
}

/** The events of a paid and fulfilled order, for one append. */
export const placedEvents = (
  order: OrderDetails,
  balanceCents: number,
  verdict: Extract<AllocationResult, { outcome: 'fulfilled' }>,
  isAwaiting = false,
): readonly OrderEvent[] => {
  const { proxyIds, at: fulfilledAt } = verdict
  if (!isAwaiting) return [{ type: 'OrderCompleted', data: { order, balanceCents, proxyIds, fulfilledAt } }]
  const { orderId, accountId, planId } = order
  return [
    paidEvent(isAwaiting, order, balanceCents),
    { type: 'OrderFulfilled', data: { orderId, accountId, planId, proxyIds, fulfilledAt } },
  ]
}

/**
 * Decides a wallet order over the ledger, the allocation owner and the order stream. They are written in this order, so
 * that a crash on a log without atomic appends leaves a prefix that `decideCompletion` finishes.
 *
 * Refusals, in the order of docs/http-api.md: those of the allocation owner (out of stock, plan expired, rental ended),
 * `spend_cap_reached`, `insufficient_balance`, `customer_credit_insufficient`. A refusal appends nothing, so the key
 * can be used again.
 */
export const decidePlacement = (
  states: OrderStates,
  placement: {
    readonly draft: OrderDraft
    readonly capCents: number | null
    /** Pays an order that awaits its payment from the available money. If false, such an order is only returned. */
    readonly payAwaited?: boolean
  },
  nowMs: number,
): CommandDecision<PlacementAnswer> => {
  const { draft } = placement
  const isAwaiting = placement.payAwaited === true && states.order?.status === 'awaiting_payment'
  const createdAt = states.order?.details.createdAt ?? isoTime(nowMs)
  const order: OrderDetails = { ...draft, createdAt }
  const answer = (value: PlacementAnswer): CommandDecision<PlacementAnswer> => ({
    appends: [],
    answer: value,
  })
  if (states.order && !isAwaiting) {
    const isSameRequest = states.order.details.fingerprint === draft.fingerprint
    return answer(isSameRequest ? { kind: 'known', order: states.order } : { kind: 'conflict' })
  }
  const payment = decidePayment(states.ledger, { order, capCents: placement.capCents }, nowMs)
  const decidedPayment = payment.outcome === 'decided' ? payment : null
  const paymentRefusal = payment.outcome === 'refused' ? payment.refusal : null
  if (paymentRefusal?.code === 'already_debited')
    return answer({ kind: 'partially-appended', debitRevision: paymentRefusal.revision })
  const allocationOwner = allocationOwnerOf(order) as AllocationOwner<unknown>
  const { events, verdict, isRecorded } = allocationOwner.decide(states.allocationOwner, nowMs)
  if (verdict.outcome === 'refused') {
    const { outcome: _, ...refusalDetails } = verdict
    return answer({ kind: 'refused', refusal: { code: 'refused_by_arbiter', ...refusalDetails } })
  }
  if (isRecorded) return answer({ kind: 'expired-key' })
  if (paymentRefusal) return answer({ kind: 'refused', refusal: paymentRefusal })
  if (!decidedPayment) throw new Error('a payment is decided or refused')
  const balanceCents = microsToCentsFloor(decidedPayment.availableAfterMicros)
  const orderEvents = placedEvents(order, balanceCents, verdict, isAwaiting)
  return {
    appends: [
      { stream: ledgerStream(order.accountId), events: decidedPayment.events },
      { stream: allocationOwner.stream, events },
      { stream: orderStream(order.orderId), events: orderEvents },
    ],
    answer: { kind: 'placed', order: orderAfter(states.order, orderEvents) },
  }
}

/** Leaves out appends without events, because the log refuses them. */
export const dropEmptyAppends = (appends: Appends): Appends =>
  appends.filter(({ events }) => events.length > 0)
