import { isoTime } from '../../kernel/clock.ts'
import type { CommandDecision } from '../../kernel/decider.ts'
import { deriveId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { orderStream } from '../../kernel/streams.ts'
import type { OrderDetails } from '../shared/order-terms.ts'
import {
  type AllocationOwner,
  allocationOwnerOf,
  dropEmptyAppends,
  type OrderStates,
  paidEvent,
  placedEvents,
} from './decide-placement.ts'
import type { OrderEvent } from './events.ts'
import { type NeedsEvidence, noEvidence, type RefundEvidence } from './extended-rentals.ts'
import { type Order, orderAfter } from './fold.ts'
import { settleRefund } from './land-refund.ts'

/** The id of the only refund of an order that failed after it was paid. */
const failureRefundId = (orderId: string): string => deriveId('ref', [orderId, 'failed'])

/** `order`: the state after this step. */
type CompletionAnswer = { readonly kind: 'completed'; readonly order: Order } | NeedsEvidence

const completed = (order: Order): CompletionAnswer => ({ kind: 'completed', order })

const finishRefunds = (
  states: OrderStates & { readonly order: Order },
  nowMs: number,
  evidence: RefundEvidence,
): CommandDecision<CompletionAnswer> => {
  const openRefund = states.order.refunds.find((refund) => !refund.landed)
  if (!openRefund) return { appends: [], answer: completed(states.order) }
  const settlement = settleRefund(states, openRefund, nowMs, evidence)
  if (settlement.kind === 'needs') return { appends: [], answer: settlement }
  return { appends: settlement.appends, answer: completed(settlement.order) }
}

/**
 * Takes the next steps of a paid order. Repeated calls end in the same final state, whatever a crash or a lost race
 * left (the table in docs/architecture.md). The first answer of the allocation owner is final. A paid order that it
 * refuses fails and is refunded in full.
 * @param debit The order as in the debit event, and the wallet's available micro-dollars right after the debit.
 */
export const decideCompletion = (
  states: OrderStates,
  debit: { readonly order: OrderDetails; readonly availableAfterMicros: number },
  nowMs: number,
  evidence: RefundEvidence = noEvidence,
): CommandDecision<CompletionAnswer> => {
  const existing = states.order
  if (existing?.paid) return finishRefunds({ ...states, order: existing }, nowMs, evidence)
  const { order } = debit
  const { orderId, accountId } = order
  const balanceCents = microsToCentsFloor(debit.availableAfterMicros)
  const allocationOwner = allocationOwnerOf(order) as AllocationOwner<unknown>
  const allocation = allocationOwner.decide(states.allocationOwner, nowMs)
  const { verdict } = allocation
  // If the order failed or was canceled before its debit was known, the whole debit is refunded (docs/architecture.md,
  // "An order").
  const canFulfil = existing === null || existing.status === 'awaiting_payment'
  if (canFulfil && verdict.outcome === 'fulfilled') {
    const events = placedEvents(order, balanceCents, verdict, existing !== null)
    return {
      appends: dropEmptyAppends([
        { stream: allocationOwner.stream, events: allocation.events },
        { stream: orderStream(orderId), events },
      ]),
      answer: completed(orderAfter(existing, events)),
    }
  }
  const reason = verdict.outcome === 'refused' ? verdict.reason : 'out_of_stock'
  const fullRefund = {
    refundId: failureRefundId(orderId),
    amountCents: order.amountCents,
    ...(order.costCents === undefined ? {} : { costCents: order.costCents }),
    proxyIds: verdict.outcome === 'fulfilled' && allocation.isRecorded ? verdict.proxyIds : [],
  }
  const events: readonly OrderEvent[] = [
    paidEvent(existing !== null, order, balanceCents),
    ...(canFulfil
      ? [{ type: 'OrderFailed', data: { orderId, accountId, reason, failedAt: isoTime(nowMs) } } as const]
      : []),
    { type: 'RefundDecided', data: { orderId, ...fullRefund, reason: 'order_failed' } },
  ]
  const settlement = settleRefund(
    { ...states, order: orderAfter(existing, events, nowMs) },
    { ...fullRefund, decidedAtMs: nowMs, landed: false },
    nowMs,
    evidence,
  )
  if (settlement.kind === 'needs') return { appends: [], answer: settlement }
  return {
    appends: [
      ...(allocation.isRecorded
        ? []
        : [{ stream: allocationOwner.stream, events: [allocationOwner.recordRefusal(reason)] }]),
      { stream: orderStream(orderId), events },
      ...settlement.appends,
    ],
    answer: completed(settlement.order),
  }
}
