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

/** An order as it is asked for: its time is set when it is decided. */
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
      /** Of `out_of_stock`, how many addresses the order could have; absent where that is not known. */
      readonly free?: number
    }

export type PlacementAnswer =
  | { readonly kind: 'placed'; readonly order: Order }
  /** The key's order stands already. */
  | { readonly kind: 'known'; readonly order: Order }
  /** The key names another request. */
  | { readonly kind: 'conflict' }
  /** The debit stands and its order does not: a crash or a lost race left a prefix that is to be completed. */
  | { readonly kind: 'partially-appended'; readonly debitRevision: number }
  /**
   * The arbiter fulfilled the order and the wallet knows no debit of it. The wallet forgets after seven days, so the
   * order was only taken as absent: as nothing is appended, its stream is read and this decided again.
   */
  | { readonly kind: 'expired-key' }
  | { readonly kind: 'refused'; readonly refusal: PlacementRefusal }

/**
 * Pays the order: from the wallet, or for a customer on both sides at once. Refusals in the order of docs/http-api.md.
 */
export const decidePayment = (
  ledger: LedgerState,
  { order, capCents }: { readonly order: OrderDetails; readonly capCents: number | null },
  nowMs: number,
): LedgerDecision<WalletDebited | CustomerCharged, DebitRefusal | CustomerCreditInsufficient> =>
  isCustomerOrder(order)
    ? decideCustomerCharge(ledger, { order, capCents }, nowMs)
    : decideDebit(ledger, { order, capCents }, nowMs)

/** That the order was paid: the first fact of its stream, unless it was awaited. */
export const paidEvent = (awaited: boolean, order: OrderDetails, balanceCents: number): OrderEvent => {
  const { orderId, accountId } = order
  return awaited
    ? { type: 'OrderPaid', data: { orderId, accountId, order, balanceCents } }
    : { type: 'OrderPlaced', data: { order, balanceCents } }
}

/** The facts of an order that was paid and fulfilled, appended at once. */
export const placedEvents = (
  order: OrderDetails,
  balanceCents: number,
  verdict: Extract<AllocationResult, { outcome: 'fulfilled' }>,
  awaited = false,
): readonly OrderEvent[] => {
  const { proxyIds, at: fulfilledAt } = verdict
  if (!awaited) return [{ type: 'OrderCompleted', data: { order, balanceCents, proxyIds, fulfilledAt } }]
  const { orderId, accountId, planId } = order
  return [
    paidEvent(awaited, order, balanceCents),
    { type: 'OrderFulfilled', data: { orderId, accountId, planId, proxyIds, fulfilledAt } },
  ]
}

/**
 * Decides a wallet order over ledger, arbiter and order stream, written in that order, so that a crash on a log without
 * atomic appends leaves a prefix that `decideCompletion` finishes.
 * Refusals, in the order of docs/http-api.md: the arbiter's (out of stock, plan expired, rental ended),
 * `spend_cap_reached`, `insufficient_balance`, `customer_credit_insufficient`. They append nothing: the key stays free.
 */
export const decidePlacement = (
  states: OrderStates,
  placement: {
    readonly draft: OrderDraft
    readonly capCents: number | null
    /** An order that awaits its payment is paid by what is there; else it is only told. */
    readonly payAwaited?: boolean
  },
  nowMs: number,
): CommandDecision<PlacementAnswer> => {
  const { draft } = placement
  const awaited = placement.payAwaited === true && states.order?.status === 'awaiting_payment'
  const createdAt = states.order?.details.createdAt ?? isoTime(nowMs)
  const order: OrderDetails = { ...draft, createdAt }
  const answer = (value: PlacementAnswer): CommandDecision<PlacementAnswer> => ({
    appends: [],
    answer: value,
  })
  if (states.order && !awaited) {
    const same = states.order.details.fingerprint === draft.fingerprint
    return answer(same ? { kind: 'known', order: states.order } : { kind: 'conflict' })
  }
  const payment = decidePayment(states.ledger, { order, capCents: placement.capCents }, nowMs)
  const paid = payment.outcome === 'decided' ? payment : null
  const unpaid = payment.outcome === 'refused' ? payment.refusal : null
  if (unpaid?.code === 'already_debited')
    return answer({ kind: 'partially-appended', debitRevision: unpaid.revision })
  const allocationOwner = allocationOwnerOf(order) as AllocationOwner<unknown>
  const { events, verdict, isRecorded } = allocationOwner.decide(states.allocationOwner, nowMs)
  if (verdict.outcome === 'refused') {
    const { outcome: _, ...why } = verdict
    return answer({ kind: 'refused', refusal: { code: 'refused_by_arbiter', ...why } })
  }
  if (isRecorded) return answer({ kind: 'expired-key' })
  if (unpaid) return answer({ kind: 'refused', refusal: unpaid })
  if (!paid) throw new Error('a payment is decided or refused')
  const balanceCents = microsToCentsFloor(paid.availableAfterMicros)
  const orderEvents = placedEvents(order, balanceCents, verdict, awaited)
  return {
    appends: [
      { stream: ledgerStream(order.accountId), events: paid.events },
      { stream: allocationOwner.stream, events },
      { stream: orderStream(order.orderId), events: orderEvents },
    ],
    answer: { kind: 'placed', order: orderAfter(states.order, orderEvents) },
  }
}

/** Streams of appends that carry no events are left out: an append of nothing is refused by the log. */
export const dropEmptyAppends = (appends: Appends): Appends =>
  appends.filter(({ events }) => events.length > 0)
