import { isoTime } from '../../kernel/clock.ts'
import type { Appends, CommandDecision } from '../../kernel/decider.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { ledgerStream, orderStream } from '../../kernel/streams.ts'
import type { AccountState } from '../accounts/fold.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { customerPurse, type LedgerState } from '../ledger/fold.ts'
import { movementKey, recallMovement } from '../ledger/movements.ts'
import { isCustomerOrder, type OrderDetails } from '../shared/order-terms.ts'
import { type AllocationOwner, allocationOwnerOf } from './allocation-owner.ts'
import { decidePayment, dropEmptyAppends, type OrderStates, placedEvents } from './decide-placement.ts'
import type { CancelReason, OrderEvent, OrderFailureReason } from './events.ts'
import { type Order, type OrderState, orderAfter } from './fold.ts'

/**
 * How long an order whose customer paid waits for the reseller's wallet (docs/http-api.md, "Resellers and finance").
 */
export const resellerFundsTimeoutMs = 24 * 60 * 60 * 1000

/** The order that an invoice was raised for, as it is to be paid. */
export type AwaitedOrder = {
  readonly order: OrderDetails
  readonly depositId: string
  /** Whether the product can be ordered just now. */
  readonly orderable: boolean
}

export type AwaitedStates = OrderStates & { readonly account: AccountState }

export type AwaitedAnswer =
  | { readonly kind: 'placed' | 'failed' | 'held'; readonly order: Order }
  /** What is there does not pay it yet; nothing happened. */
  | { readonly kind: 'short'; readonly shortfallCents: number }
  /** It was placed, failed or canceled before, waits for another invoice, or its debit stands and is completed. */
  | { readonly kind: 'over' }

export type AwaitedDecision = {
  /** The payment: for the ledger, in the same append as the credit that made it possible. */
  readonly payment: readonly LedgerEvent[]
  /** What is written after it. */
  readonly appends: Appends
  readonly answer: AwaitedAnswer
}

/** What the payer is short of, whole cents: the customer's credit, or one's own wallet. */
const shortfallOf = (ledger: LedgerState, order: OrderDetails): number => {
  const payer = isCustomerOrder(order) ? customerPurse(ledger, order.customerId) : ledger
  return Math.max(0, order.amountCents - microsToCentsFloor(payer.availableMicros))
}

const stopOf = (states: AwaitedStates, { orderable }: AwaitedOrder): OrderFailureReason | null => {
  if (states.account === null || states.account.blocked) return 'account_blocked'
  return orderable ? null : 'product_unavailable'
}

const capOf = ({ account }: AwaitedStates, { keyId }: OrderDetails): number | null =>
  keyId === null ? null : (account?.keys.get(keyId)?.dailyCapCents ?? null)

/** The facts on the order's own stream, which may not have got its first one before a crash. */
const orderEventDefinitions = (
  { order: standing, ledger }: AwaitedStates,
  { order, depositId }: AwaitedOrder,
  events: readonly OrderEvent[],
): { readonly events: readonly OrderEvent[]; readonly after: Order } => {
  const balanceCents = microsToCentsFloor(ledger.availableMicros)
  const first: readonly OrderEvent[] = standing
    ? []
    : [{ type: 'OrderAwaitingPayment', data: { order, depositId, balanceCents } }]
  const all = [...first, ...events]
  return { events: all, after: orderAfter(standing, all) }
}

const nothing = (answer: AwaitedAnswer): AwaitedDecision => ({ payment: [], appends: [], answer })

/** Whether the order still waits for this invoice, or for its first fact. */
const waitsFor = (order: OrderState, depositId: string): boolean =>
  order === null || (order.status === 'awaiting_payment' && order.awaiting?.depositId === depositId)

/**
 * Places an order whose payment came, once, whoever asks. It stays as it is while its payer is short. Sold out, parked,
 * blocked and capped end it at once; a reseller's short wallet holds it for a day and ends it then, also when its
 * customer spent the credit on something else meanwhile. The money stays where it was credited in each case
 * (docs/http-api.md, "Resellers and finance").
 */
export const decideAwaited = (
  states: AwaitedStates,
  awaited: AwaitedOrder,
  nowMs: number,
): AwaitedDecision => {
  const { depositId } = awaited
  if (!waitsFor(states.order, depositId)) return nothing({ kind: 'over' })
  const order = states.order?.details ?? awaited.order
  const { orderId, accountId } = order
  const stream = orderStream(orderId)
  const put = (kind: 'failed' | 'held', events: readonly OrderEvent[]): AwaitedDecision => {
    const facts = orderEventDefinitions(states, awaited, events)
    return {
      payment: [],
      appends: dropEmptyAppends([{ stream, events: facts.events }]),
      answer: { kind, order: facts.after },
    }
  }
  const fail = (reason: OrderFailureReason): AwaitedDecision =>
    put('failed', [{ type: 'OrderFailed', data: { orderId, accountId, reason, failedAt: isoTime(nowMs) } }])

  const payment = decidePayment(states.ledger, { order, capCents: capOf(states, order) }, nowMs)
  const refusal = payment.outcome === 'refused' ? payment.refusal : null
  if (refusal?.code === 'already_debited') return nothing({ kind: 'over' })
  const heldUntil = states.order?.awaiting?.heldUntil ?? null
  const dayIsOver = heldUntil !== null && nowMs >= Date.parse(heldUntil)
  const shortfallCents = shortfallOf(states.ledger, order)
  if (shortfallCents > 0)
    return dayIsOver ? fail('insufficient_balance') : nothing({ kind: 'short', shortfallCents })
  const stop = stopOf(states, awaited)
  if (stop) return fail(stop)
  const allocationOwner = allocationOwnerOf(order) as AllocationOwner<unknown>
  const allocation = allocationOwner.decide(states.allocationOwner, nowMs)
  if (allocation.verdict.outcome === 'refused') return fail(allocation.verdict.reason)
  // Fulfilled, and the ledger forgot the debit: nothing of it is open.
  if (allocation.isRecorded) return nothing({ kind: 'over' })
  if (refusal?.code === 'spend_cap_reached') return fail('spend_cap_reached')
  if (payment.outcome === 'refused') {
    if (dayIsOver) return fail('insufficient_balance')
    const until = isoTime(nowMs + resellerFundsTimeoutMs)
    return put('held', heldUntil ? [] : [{ type: 'OrderHeld', data: { orderId, accountId, until } }])
  }
  const balanceCents = microsToCentsFloor(payment.availableAfterMicros)
  const facts = orderEventDefinitions(
    states,
    awaited,
    placedEvents(order, balanceCents, allocation.verdict, true),
  )
  return {
    payment: payment.events,
    appends: [
      { stream: allocationOwner.stream, events: allocation.events },
      { stream, events: facts.events },
    ],
    answer: { kind: 'placed', order: facts.after },
  }
}

/** `decideAwaited` as a command of its own, without a payment that came with it. */
export const decideAwaitedAlone = (
  states: AwaitedStates,
  awaited: AwaitedOrder,
  nowMs: number,
): CommandDecision<AwaitedAnswer> => {
  const { payment, appends, answer } = decideAwaited(states, awaited, nowMs)
  const stream = ledgerStream(awaited.order.accountId)
  return { appends: [...dropEmptyAppends([{ stream, events: payment }]), ...appends], answer }
}

/** The order as it is then: one that was placed meanwhile stays placed. `made`: this request is the one that made it. */
export type AwaitInvoiceAnswer = { readonly order: Order; readonly created: boolean }

/** Notes the invoice that an order waits for, once it is open. */
export const decideAwaiting = (
  states: Pick<OrderStates, 'order' | 'ledger'>,
  { order, depositId }: Pick<AwaitedOrder, 'order' | 'depositId'>,
): CommandDecision<AwaitInvoiceAnswer> => {
  const standing = states.order
  if (standing && (standing.status !== 'awaiting_payment' || standing.awaiting?.depositId === depositId))
    return { appends: [], answer: { order: standing, created: false } }
  const balanceCents = microsToCentsFloor(states.ledger.availableMicros)
  const event: OrderEvent = { type: 'OrderAwaitingPayment', data: { order, depositId, balanceCents } }
  return {
    appends: [{ stream: orderStream(order.orderId), events: [event] }],
    answer: { order: orderAfter(standing, [event]), created: standing === null },
  }
}

/** Cancels an own order whose invoice closed; one whose debit stands is completed instead. */
export const decideCancellation = (
  { order, ledger }: Pick<OrderStates, 'order' | 'ledger'>,
  { depositId, reason }: { readonly depositId: string; readonly reason: CancelReason | null },
  nowMs: number,
): CommandDecision<{ readonly canceled: boolean }> => {
  const keep: CommandDecision<{ readonly canceled: boolean }> = { appends: [], answer: { canceled: false } }
  if (!order || reason === null || order.details.customerId !== null || !waitsFor(order, depositId))
    return keep
  const { orderId, accountId } = order.details
  if (recallMovement(ledger, movementKey.debit(orderId))) return keep
  const event: OrderEvent = {
    type: 'OrderCanceled',
    data: { orderId, accountId, canceledAt: isoTime(nowMs), reason },
  }
  return { appends: [{ stream: orderStream(orderId), events: [event] }], answer: { canceled: true } }
}
