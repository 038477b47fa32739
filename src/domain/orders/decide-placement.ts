import { isoTime } from '../../kernel/clock.ts'
import type { Appends, CommandDecision, Fold } from '../../kernel/decider.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { findRemembered } from '../../kernel/recent-ids.ts'
import type { KeyCap } from '../../kernel/scopes.ts'
import { ledgerStream, orderStream, planStream, type StreamName, stockStream } from '../../kernel/streams.ts'
import {
  type DebitRefusal,
  decideDebit,
  type InsufficientBalance,
  type LedgerDecision,
  type SpendCapReached,
} from '../ledger/decide.ts'
import { type CustomerCreditInsufficient, decideCustomerCharge } from '../ledger/decide-customer.ts'
import type { CustomerCharged, WalletDebited } from '../ledger/events.ts'
import { type LedgerState, ledgerRef } from '../ledger/fold.ts'
import { decidePlanOrder, decideWithdrawal, recordRefusal as refusePlan } from '../plans/decide.ts'
import { type PlanState, planFold } from '../plans/fold.ts'
import type { OrderDetails } from '../shared/order-terms.ts'
import {
  decideAllocation,
  decideExtension,
  decideRelease,
  extensionsOf,
  recordRefusal as refuseStock,
} from '../stock/decide.ts'
import { type StockState, stockFold } from '../stock/fold.ts'
import type { AllocationRefusalReason, OrderEvent } from './events.ts'
import { isCustomerOrder, type Order, type OrderState, orderAfter, orderRef, type Refund } from './fold.ts'

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
 * at once. Refusals come in the order of docs/reference/api.md.
 */
export const decidePayment = (
  ledger: LedgerState,
  { order, cap }: { readonly order: OrderDetails; readonly cap: KeyCap | null },
  nowMs: number,
): LedgerDecision<WalletDebited | CustomerCharged, DebitRefusal | CustomerCreditInsufficient> =>
  isCustomerOrder(order)
    ? decideCustomerCharge(ledger, { order, cap }, nowMs)
    : decideDebit(ledger, { order, cap }, nowMs)

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
 * Refusals, in the order of docs/reference/api.md: those of the allocation owner (out of stock, plan expired, rental
 * ended), `spend_cap_reached`, `insufficient_balance`, `customer_credit_insufficient`. A refusal appends nothing, so
 * the key can be used again.
 */
export const decidePlacement = (
  states: OrderStates,
  placement: {
    readonly draft: OrderDraft
    readonly cap: KeyCap | null
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
  const payment = decidePayment(states.ledger, { order, cap: placement.cap }, nowMs)
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

/** What the allocation owner answered to an order. */
type AllocationResult =
  | { readonly outcome: 'fulfilled'; readonly at: string; readonly proxyIds: readonly ProxyId[] }
  | {
      readonly outcome: 'refused'
      readonly reason: AllocationRefusalReason
      /** As in `StockAnswer`. */
      readonly free?: number
    }

type AllocationDecision = {
  /** Empty if the verdict is already recorded, and for a refusal that is not recorded. */
  readonly events: readonly DomainEvent[]
  readonly verdict: AllocationResult
  /** Whether the allocation owner's stream has the verdict. */
  readonly isRecorded: boolean
}

/** The stream that alone decides whether an order is fulfilled (docs/architecture.md, "An order"). */
export type AllocationOwner<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: stock and plan events occur only in their own allocation owner
  readonly fold: Fold<State, any>
  decide(state: State, nowMs: number): AllocationDecision
  /** The event that records a refusal. It is appended before the order fails and is refunded. */
  recordRefusal(reason: AllocationRefusalReason): DomainEvent
  /**
   * Of the rentals that a refund would end, those that later orders have paid for, with the ids of these orders.
   * `nowMs` is in milliseconds since the epoch.
   */
  paidForSince(
    state: State,
    refund: Pick<Refund, 'proxyIds'>,
    nowMs: number,
  ): ReadonlyMap<ProxyId, readonly string[]>
  /** The events that take back what the refund pays for. `isFullRefund`: the refund leaves nothing of the order. */
  takeBack(state: State, refund: Refund, isFullRefund: boolean, nowMs: number): readonly DomainEvent[]
}

const stockAllocationOwner = (order: OrderDetails): AllocationOwner<StockState> => {
  if (!order.target) throw new Error(`order ${order.orderId} has no target`)
  const decide = order.kind === 'extension' ? decideExtension : decideAllocation
  return {
    stream: stockStream(order.productId, order.target.country),
    fold: stockFold,
    decide: (state, nowMs) => {
      const { events, answer } = decide(state, order, nowMs)
      const verdict: AllocationResult =
        answer.outcome === 'fulfilled'
          ? { outcome: 'fulfilled', at: answer.at, proxyIds: answer.proxyIds }
          : answer
      return { events, verdict, isRecorded: findRemembered(state.answers, order.orderId) !== undefined }
    },
    recordRefusal: (reason) =>
      refuseStock(order.orderId, reason === 'plan_expired' ? 'out_of_stock' : reason),
    paidForSince: (state, refund, nowMs) =>
      order.kind === 'extension' ? new Map() : extensionsOf(state, refund.proxyIds, nowMs),
    // A refunded extension leaves the rentals as they are, because they may have been extended since.
    takeBack: (state, refund, _isFullRefund, nowMs) =>
      order.kind === 'extension' ? [] : decideRelease(state, refund.proxyIds, 'refunded', nowMs),
  }
}

const planAllocationOwner = (order: OrderDetails): AllocationOwner<PlanState> => {
  if (order.planId === null) throw new Error(`order ${order.orderId} names no plan`)
  return {
    stream: planStream(order.planId),
    fold: planFold,
    decide: (state, nowMs) => {
      const { events, answer } = decidePlanOrder(state, order, nowMs)
      const verdict: AllocationResult =
        answer.outcome === 'fulfilled' ? { outcome: 'fulfilled', at: answer.at, proxyIds: [] } : answer
      return { events, verdict, isRecorded: findRemembered(state.answers, order.orderId) !== undefined }
    },
    recordRefusal: () => refusePlan(order.orderId),
    paidForSince: () => new Map(),
    takeBack: (state, refund, isFullRefund, nowMs) =>
      isFullRefund ? decideWithdrawal(state, { order, refundId: refund.refundId }, nowMs) : [],
  }
}

/** The allocation owner of an order: the stock of its product and country, or its plan. */
// biome-ignore lint/suspicious/noExplicitAny: callers pass an allocation owner only states of its own stream
export const allocationOwnerOf = (order: OrderDetails): AllocationOwner<any> =>
  order.delivery === 'addresses' ? stockAllocationOwner(order) : planAllocationOwner(order)

/** The streams that an order is decided on, keyed as in the command. Events are appended in this order of streams. */
export const orderStreams = (order: Omit<OrderDetails, 'createdAt'>) => {
  // No stream name depends on `createdAt`.
  const { stream, fold } = allocationOwnerOf(order as OrderDetails)
  return {
    ledger: ledgerRef(order.accountId),
    allocationOwner: { stream, fold },
    order: orderRef(order.orderId),
  }
}
