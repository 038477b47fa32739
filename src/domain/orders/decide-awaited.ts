import { isoTime } from '../../kernel/clock.ts'
import type { Appends, CommandDecision } from '../../kernel/decider.ts'
import { centsToMicros, microsToCentsFloor } from '../../kernel/money.ts'
import type { KeyCap } from '../../kernel/scopes.ts'
import { ledgerStream, orderStream } from '../../kernel/streams.ts'
import { type AccountState, capOf } from '../accounts/fold.ts'
import { shortfallOf } from '../ledger/decide.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { customerPurse, type LedgerState } from '../ledger/fold.ts'
import { movementKey, type Purse, recallMovement, take } from '../ledger/movements.ts'
import { type OrderDetails, walletCents } from '../shared/order-terms.ts'
import {
  type AllocationOwner,
  allocationOwnerOf,
  decidePayment,
  dropEmptyAppends,
  type OrderStates,
  placedEvents,
} from './decide-placement.ts'
import type { CancelReason, OrderEvent, OrderFailureReason } from './events.ts'
import { isCustomerOrder, type Order, type OrderState, orderAfter, waitsFor } from './fold.ts'

/**
 * How long an order whose customer paid waits for money in the reseller's wallet, milliseconds (docs/reference/api.md,
 * "Resellers and finance").
 */
export const resellerFundsTimeoutMs = 24 * 60 * 60 * 1000

/** An order with an open invoice. */
type AwaitedOrder = {
  readonly order: OrderDetails
  readonly depositId: string
  /** Whether the product can be ordered at the moment. */
  readonly orderable: boolean
}

type AwaitedStates = OrderStates & { readonly account: AccountState }

type AwaitedAnswer =
  | { readonly kind: 'placed' | 'failed' | 'held' | 'canceled'; readonly order: Order }
  /** The payer does not have enough yet. Nothing is appended. */
  | { readonly kind: 'short' }
  /**
   * Nothing to do: the order was placed, failed or canceled before, or its debit exists and `decideCompletion` finishes
   * it.
   */
  | { readonly kind: 'over' }

type AwaitedDecision = {
  /** The payment. It belongs in the same ledger append as the credit that makes it possible. */
  readonly payment: readonly LedgerEvent[]
  /** Appended after the payment. */
  readonly appends: Appends
  readonly answer: AwaitedAnswer
}

/** The purse that pays the price: the customer's credit, or the account's own wallet. */
export const payerOf = (ledger: LedgerState, order: OrderDetails): Purse =>
  isCustomerOrder(order) ? customerPurse(ledger, order.customerId) : ledger

/** What the wallet lacks for its part of an order, whole cents, with the debt of the wallet; 0: it has enough. */
export const walletShortfallOf = (
  wallet: Purse,
  order: Pick<OrderDetails, 'amountCents' | 'costCents'>,
): number => Math.max(0, shortfallOf(wallet, centsToMicros(walletCents(order))).shortfallCents)

/**
 * What the payer lacks for an order after the payment of its invoice, whole cents, with its debt; 0: nothing. A debt may
 * arise, and credit may be spent, after the invoice is opened.
 */
export const shortfallAfterPayment = (
  payer: Purse,
  { amountCents }: Pick<OrderDetails, 'amountCents'>,
  chargeCents: number,
): number => Math.max(0, shortfallOf(payer, centsToMicros(amountCents)).shortfallCents - chargeCents)

const failureReasonOf = (states: AwaitedStates, { orderable }: AwaitedOrder): OrderFailureReason | null => {
  if (states.account === null || states.account.blocked) return 'account_blocked'
  return orderable ? null : 'product_unavailable'
}

const capOfOrder = ({ account }: AwaitedStates, { keyId }: OrderDetails): KeyCap | null => {
  const key = keyId === null ? undefined : account?.keys.get(keyId)
  return key ? capOf(key) : null
}

/** Whether the payer has the price. */
const isCovered = (ledger: LedgerState, order: OrderDetails): boolean =>
  take(payerOf(ledger, order), centsToMicros(order.amountCents)) !== null

const canceledEvent = (
  { orderId, accountId }: OrderDetails,
  reason: CancelReason,
  nowMs: number,
): OrderEvent => ({
  type: 'OrderCanceled',
  data: { orderId, accountId, canceledAt: isoTime(nowMs), reason },
})

/** The events of the order's own stream. If a crash lost the first one, it is added. */
const awaitedOrderEvents = (
  { order: existing, ledger }: AwaitedStates,
  { order, depositId }: AwaitedOrder,
  events: readonly OrderEvent[],
): { readonly events: readonly OrderEvent[]; readonly after: Order } => {
  const balanceCents = microsToCentsFloor(ledger.availableMicros)
  const openingEvents: readonly OrderEvent[] = existing
    ? []
    : [{ type: 'OrderAwaitingPayment', data: { order, depositId, balanceCents } }]
  const allEvents = [...openingEvents, ...events]
  return { events: allEvents, after: orderAfter(existing, allEvents) }
}

const noChange = (answer: AwaitedAnswer): AwaitedDecision => ({ payment: [], appends: [], answer })

/** Whether the order waits, for this invoice or for a later one, or has no event yet. */
const awaitsPayment = (order: OrderState): boolean => order === null || order.status === 'awaiting_payment'

/**
 * Places an order whose payment arrived, by any invoice of the order that is still open, at most once.
 *
 * - If the payer does not have enough, the order keeps waiting.
 * - If the stock is sold out, the product cannot be ordered, the account is blocked or the spend cap is reached, the
 *   order fails at once.
 * - If the reseller's wallet does not have enough, the order waits for one day and then fails. It is canceled as soon as
 *   the credit no longer covers it, because the customer spent the credit or took the payment back.
 *
 * In each case the money stays where it was credited (docs/reference/api.md, "Resellers and finance").
 */
export const decideAwaited = (
  states: AwaitedStates,
  awaited: AwaitedOrder,
  nowMs: number,
): AwaitedDecision => {
  if (!awaitsPayment(states.order)) return noChange({ kind: 'over' })
  const order = states.order?.details ?? awaited.order
  // An earlier invoice has the plan of its time. The payment is credited, and a retry places the order on its plan.
  if (allocationOwnerOf(order).stream !== allocationOwnerOf(awaited.order).stream)
    return noChange({ kind: 'short' })
  const { orderId, accountId } = order
  const stream = orderStream(orderId)
  const decideOrderOnly = (
    kind: 'failed' | 'held' | 'canceled',
    events: readonly OrderEvent[],
  ): AwaitedDecision => {
    const orderChange = awaitedOrderEvents(states, awaited, events)
    return {
      payment: [],
      appends: dropEmptyAppends([{ stream, events: orderChange.events }]),
      answer: { kind, order: orderChange.after },
    }
  }
  const fail = (reason: OrderFailureReason): AwaitedDecision =>
    decideOrderOnly('failed', [
      { type: 'OrderFailed', data: { orderId, accountId, reason, failedAt: isoTime(nowMs) } },
    ])

  const payment = decidePayment(states.ledger, { order, cap: capOfOrder(states, order) }, nowMs)
  const refusal = payment.outcome === 'refused' ? payment.refusal : null
  if (refusal?.code === 'already_debited') return noChange({ kind: 'over' })
  const heldUntil = states.order?.awaiting?.heldUntil ?? null
  const isFundsTimeoutOver = heldUntil !== null && nowMs >= Date.parse(heldUntil)
  if (!isCovered(states.ledger, order))
    return heldUntil === null
      ? noChange({ kind: 'short' })
      : decideOrderOnly('canceled', [canceledEvent(order, 'insufficient_balance', nowMs)])
  const failureReason = failureReasonOf(states, awaited)
  if (failureReason) return fail(failureReason)
  const allocationOwner = allocationOwnerOf(order) as AllocationOwner<unknown>
  const allocation = allocationOwner.decide(states.allocationOwner, nowMs)
  if (allocation.verdict.outcome === 'refused') return fail(allocation.verdict.reason)
  // The order is fulfilled and the ledger state no longer has its debit. Nothing is left to do.
  if (allocation.isRecorded) return noChange({ kind: 'over' })
  if (refusal?.code === 'spend_cap_reached') return fail('spend_cap_reached')
  if (payment.outcome === 'refused') {
    if (isFundsTimeoutOver) return fail('insufficient_balance')
    const until = isoTime(nowMs + resellerFundsTimeoutMs)
    const missingCents = walletShortfallOf(states.ledger, order)
    return decideOrderOnly(
      'held',
      heldUntil ? [] : [{ type: 'OrderHeld', data: { orderId, accountId, missingCents, until } }],
    )
  }
  const balanceCents = microsToCentsFloor(payment.availableAfterMicros)
  const orderChange = awaitedOrderEvents(
    states,
    awaited,
    placedEvents(order, balanceCents, allocation.verdict, true),
  )
  return {
    payment: payment.events,
    appends: [
      { stream: allocationOwner.stream, events: allocation.events },
      { stream, events: orderChange.events },
    ],
    answer: { kind: 'placed', order: orderChange.after },
  }
}

/** `decideAwaited` as a command without a new payment. */
export const decideAwaitedAlone = (
  states: AwaitedStates,
  awaited: AwaitedOrder,
  nowMs: number,
): CommandDecision<AwaitedAnswer> => {
  const { payment, appends, answer } = decideAwaited(states, awaited, nowMs)
  const stream = ledgerStream(awaited.order.accountId)
  return { appends: [...dropEmptyAppends([{ stream, events: payment }]), ...appends], answer }
}

/**
 * The present state of the order: an order that was placed meanwhile stays placed. `created`: this request created it.
 */
type AwaitInvoiceAnswer = { readonly order: Order; readonly created: boolean }

/** Records the invoice that an order waits for, once it is open. */
export const decideAwaiting = (
  states: Pick<OrderStates, 'order' | 'ledger'>,
  { order, depositId }: Pick<AwaitedOrder, 'order' | 'depositId'>,
): CommandDecision<AwaitInvoiceAnswer> => {
  const existing = states.order
  if (existing && (existing.status !== 'awaiting_payment' || existing.awaiting?.depositId === depositId))
    return { appends: [], answer: { order: existing, created: false } }
  const balanceCents = microsToCentsFloor(states.ledger.availableMicros)
  const event: OrderEvent = { type: 'OrderAwaitingPayment', data: { order, depositId, balanceCents } }
  return {
    appends: [{ stream: orderStream(order.orderId), events: [event] }],
    answer: { order: orderAfter(existing, [event]), created: existing === null },
  }
}

/** The answer of a cancellation: the order after it. It may have been placed, or have failed, meanwhile. */
type CancellationAnswer = { readonly canceled: boolean; readonly order: OrderState }

/**
 * Cancels an order that waits. An order whose debit exists is not canceled: `decideCompletion` finishes it. Money that
 * was credited stays, and later payments are credited.
 */
export const decideCancellation = (
  { order, ledger }: Pick<OrderStates, 'order' | 'ledger'>,
  reason: CancelReason,
  nowMs: number,
): CommandDecision<CancellationAnswer> => {
  const unchanged: CommandDecision<CancellationAnswer> = { appends: [], answer: { canceled: false, order } }
  if (order?.status !== 'awaiting_payment') return unchanged
  const { orderId } = order.details
  if (recallMovement(ledger, movementKey.debit(orderId))) return unchanged
  const event = canceledEvent(order.details, reason, nowMs)
  return {
    appends: [{ stream: orderStream(orderId), events: [event] }],
    answer: { canceled: true, order: orderAfter(order, [event]) },
  }
}

/**
 * Cancels an order whose invoice closed without placing it.
 * @param closed the invoice, and the reason; null: the invoice is open. An order that waits for the reseller's wallet, or
 * for another invoice, is not canceled.
 */
export const decideCancellationOfClosed = (
  states: Pick<OrderStates, 'order' | 'ledger'>,
  closed: { readonly depositId: string; readonly reason: CancelReason | null },
  nowMs: number,
): CommandDecision<CancellationAnswer> => {
  const { order } = states
  const { depositId, reason } = closed
  const waits = order?.awaiting?.depositId === depositId && waitsFor(order) === 'payment'
  return waits && reason !== null
    ? decideCancellation(states, reason, nowMs)
    : { appends: [], answer: { canceled: false, order } }
}

/** Cancels an order that waits for the reseller's wallet, if the credit of its customer no longer covers it. */
export const decideCancellationOfUncovered = (
  states: Pick<OrderStates, 'order' | 'ledger'>,
  nowMs: number,
): CommandDecision<CancellationAnswer> => {
  const { order, ledger } = states
  return order !== null && waitsFor(order) === 'wallet' && !isCovered(ledger, order.details)
    ? decideCancellation(states, 'insufficient_balance', nowMs)
    : { appends: [], answer: { canceled: false, order } }
}
