import { isoTime } from '../clock.ts'
import type { Decision } from '../eventstore/commands/command.ts'
import { orderStream } from '../eventstore/streams.ts'
import { deriveId } from '../ids.ts'
import { microsToCentsFloor } from '../ledger/money.ts'
import { type Arbiter, arbiterOf } from './arbiter.ts'
import type { OrderDetails } from './details.ts'
import type { OrderEvent } from './events.ts'
import { type Order, orderAfter } from './fold.ts'
import { type OrderStates, placedEvents, withoutEmpty } from './place.ts'
import { landRefund } from './refund.ts'

/** The one refund of an order that failed after it was paid. */
export const failureRefundId = (orderId: string): string => deriveId('ref', [orderId, 'failed'])

const finishRefunds = (states: OrderStates & { readonly order: Order }, nowMs: number): Decision<Order> => {
  const open = states.order.refunds.find((refund) => !refund.landed)
  if (!open) return { appends: [], answer: states.order }
  const { appends, order } = landRefund(states, open, nowMs)
  return { appends, answer: order }
}

/**
 * The next steps of an order that was paid: whatever a crash or a lost race left, calling it again and again ends in
 * the one final state (the table in docs/architecture.md). The arbiter's first answer stands; a paid order that it
 * refuses is failed and refunded whole.
 * @param debit The order as the debit carries it, and the wallet's available micro-dollars right after it.
 */
export const decideCompletion = (
  states: OrderStates,
  debit: { readonly order: OrderDetails; readonly availableAfterMicros: number },
  nowMs: number,
): Decision<Order> => {
  if (states.order) return finishRefunds({ ...states, order: states.order }, nowMs)
  const { order } = debit
  const balanceCents = microsToCentsFloor(debit.availableAfterMicros)
  const arbiter = arbiterOf(order) as Arbiter<unknown>
  const ruling = arbiter.rule(states.arbiter, nowMs)
  if (ruling.verdict.outcome === 'fulfilled') {
    const events = placedEvents(order, balanceCents, ruling.verdict)
    return {
      appends: withoutEmpty([
        { stream: arbiter.stream, events: ruling.events },
        { stream: orderStream(order.orderId), events },
      ]),
      answer: orderAfter(null, events),
    }
  }
  const { reason } = ruling.verdict
  const whole = {
    refundId: failureRefundId(order.orderId),
    amountCents: order.amountCents,
    ...(order.costCents === undefined ? {} : { costCents: order.costCents }),
    proxyIds: [],
  }
  const failed: readonly OrderEvent[] = [
    { type: 'OrderPlaced', data: { order, balanceCents } },
    {
      type: 'OrderFailed',
      data: { orderId: order.orderId, accountId: order.accountId, reason, failedAt: isoTime(nowMs) },
    },
    {
      type: 'RefundDecided',
      data: { orderId: order.orderId, ...whole, reason: 'order_failed' },
    },
  ]
  const landing = landRefund(
    { ...states, order: orderAfter(null, failed) },
    { ...whole, landed: false },
    nowMs,
  )
  return {
    appends: [
      ...(ruling.standing ? [] : [{ stream: arbiter.stream, events: [arbiter.recordRefusal(reason)] }]),
      { stream: orderStream(order.orderId), events: failed },
      ...landing.appends,
    ],
    answer: landing.order,
  }
}
