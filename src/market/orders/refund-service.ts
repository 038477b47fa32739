import { deriveId, type OrderId, type PlanId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { orderStreams } from './arbiter.ts'
import { readOrder } from './read-order.ts'
import { decideRefund, type RefundAnswer } from './refund.ts'
import { withRefundEvidence } from './refund-evidence.ts'
import type { RefundRequest } from './refund-share.ts'

/** The refund that a reference names: the same reference is refunded once. */
export const refundIdOf = (orderId: OrderId, reference: string): string =>
  deriveId('ref', [orderId, 'operator', reference])

/**
 * Refunds an order by an operator's word: whole, an amount, or some of its addresses; by the system's whole, and never
 * refused for extended rentals. Null when there is no such order.
 * Rejects as the command runner does.
 */
export const refundOrder = async (
  deps: {
    readonly log: EventLog
    readonly runner: CommandRunner
    /** Brings what was counted of a plan's traffic to the log: a refund takes back what is unused. */
    readonly settleTraffic: (planId: PlanId) => Promise<void>
  },
  refund: Cause & {
    readonly orderId: OrderId
    readonly refundId: string
    readonly request: RefundRequest
  },
): Promise<RefundAnswer | null> => {
  const { orderId, refundId, actor, correlationId } = refund
  const unasked = actor.kind === 'system' && refund.request.kind === 'whole'
  const request: RefundRequest = unasked ? { kind: 'whole', unasked } : refund.request
  const order = await readOrder(deps.log, orderId)
  if (!order) return null
  const { details } = order
  const streams = orderStreams(details)
  const settle = async (): Promise<void> => {
    if (details.planId !== null) await deps.settleTraffic(details.planId)
  }
  await settle()
  const { answer } = await withRefundEvidence(deps.log, streams.ledger.stream, (evidence) =>
    deps.runner.run({
      name: 'refund-order',
      streams,
      decide: (states, { nowMs }) => decideRefund(states, refundId, request, nowMs, evidence),
      correlationId,
      actor,
      account: details.accountId,
    }),
  )
  // The total may have changed, and with it what the counter looks out for; a sweep finds that out within five minutes.
  await settle().catch(() => undefined)
  return answer
}
