import { approvalLimitsRef, type ProposedRefund, proposalRef } from '../../domain/ledger/approvals.ts'
import {
  type ApprovalAnswer,
  type ApprovalRefusal,
  decideApproval,
  decideWithApproval,
  proposalIdOf,
} from '../../domain/ledger/decide-approval.ts'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { orderStreams } from '../../domain/orders/decide-placement.ts'
import type { RefundDecided } from '../../domain/orders/events.ts'
import {
  hasUnrefundedAmount,
  type NeedsEvidence,
  type RefundEvidence,
} from '../../domain/orders/extended-rentals.ts'
import { type Order, orderRef } from '../../domain/orders/fold.ts'
import { decideRefund, type RefundAnswer, type RefundRequest } from '../../domain/orders/refunds.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import type { Appends, CommandDecision, Refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import { deriveId, type OrderId, type PlanId, type ProxyId } from '../../kernel/ids.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { CommandOutcome, CommandRunner } from '../../platform/commands/command.ts'
import { readStreamState } from '../../platform/commands/command.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'

/** The current state of an order in its stream, or null. */
export const readOrder = async (log: EventLog, orderId: OrderId): Promise<Order | null> =>
  (await readStreamState(log, orderRef(orderId))).state

/** Whether a wallet's stream has the money of a refund. Reads the whole stream, which is needed rarely. */
const moneyMoved = async (log: EventLog, ledger: StreamName, refundId: string): Promise<boolean> => {
  for await (const stored of log.readStream(ledger)) {
    if (stored.type !== 'WalletCredited' && stored.type !== 'CustomerRefunded') continue
    const { type, data } = decode(stored) as LedgerEvent
    if (type === 'WalletCredited' && data.source === 'refund' && data.reference === refundId) return true
    if (type === 'CustomerRefunded' && data.reference === refundId) return true
  }
  return false
}

/** Whether an extension is paid and not fully refunded. An extension without a stream was paid a moment ago. */
const isPaid = async (log: EventLog, orderId: string): Promise<boolean> => {
  const order = await readOrder(log, orderId as OrderId)
  return order === null || hasUnrefundedAmount(order)
}

/**
 * Runs a refund decision until it needs no more evidence. If the wallet no longer remembers whether a refund was paid,
 * its whole stream is searched, so that a refund is paid once, however late it is finished. If rentals were extended,
 * the streams of the extensions are read.
 */
export const withRefundEvidence = async <Answer extends { readonly kind: string }>(
  log: EventLog,
  ledger: StreamName,
  run: (evidence: RefundEvidence) => Promise<CommandOutcome<Answer | NeedsEvidence>>,
): Promise<CommandOutcome<Exclude<Answer, NeedsEvidence>>> => {
  const evidence = new Map<string, boolean>()
  for (;;) {
    const outcome = await run(evidence)
    const { answer } = outcome
    if (!isNeeds(answer)) return { ...outcome, answer: answer as Exclude<Answer, NeedsEvidence> }
    const missing = [...answer.refundIds, ...answer.extensionIds].filter((id) => !evidence.has(id))
    if (missing.length === 0) throw new Error('the decision requests evidence that was already read')
    for (const id of answer.refundIds) evidence.set(id, await moneyMoved(log, ledger, id))
    for (const id of answer.extensionIds) evidence.set(id, await isPaid(log, id))
  }
}

const isNeeds = (answer: { readonly kind: string }): answer is NeedsEvidence => answer.kind === 'needs'

/** The id of the refund with this reference: a reference is refunded once per order. */
export const refundIdOf = (orderId: OrderId, reference: string): string =>
  deriveId('ref', [orderId, 'operator', reference])

/** `four_eyes`: the refund was proposed, and nothing moved. `not_approved`: the approval of a proposal is refused. */
type RefundOutcome =
  | RefundAnswer
  | { readonly kind: 'four_eyes'; readonly answer: ApprovalAnswer }
  | { readonly kind: 'not_approved'; readonly refusal: ApprovalRefusal }

type Outcome = RefundAnswer | NeedsEvidence | ApprovalAnswer | Refused<ApprovalRefusal>

const withAnswerKind = ({
  appends,
  answer,
}: CommandDecision<Outcome>): CommandDecision<RefundOutcome | NeedsEvidence> => {
  if ('kind' in answer) return { appends, answer }
  return answer.outcome === 'refused'
    ? { appends, answer: { kind: 'not_approved', refusal: answer.refusal } }
    : { appends, answer: { kind: 'four_eyes', answer } }
}

/** The manual refund in a decision's events; null if there is none. */
const refundIn =
  ({ accountId }: Pick<OrderDetails, 'accountId'>, { kind, reference }: RefundRequest) =>
  (appends: Appends): ProposedRefund | null => {
    const event = appends.flatMap(({ events }) => events).find(({ type }) => type === 'RefundDecided')
    if (event === undefined) return null
    const { orderId, refundId, amountCents, costCents, proxyIds } = event.data as RefundDecided['data']
    const cost = costCents === undefined ? {} : { costCents }
    const paid = { accountId, orderId, refundId, amountCents, ...cost, proxyIds }
    return { kind: 'refund', ...paid, reference: reference ?? '', asked: kind }
  }

/** The request of a proposal. */
export const refundRequestOf = ({
  asked: kind,
  amountCents,
  proxyIds,
  reference,
}: ProposedRefund): RefundRequest => {
  if (kind === 'whole') return { kind: 'whole', reference }
  if (kind === 'cents') return { kind: 'cents', cents: amountCents, reference }
  return { kind: 'proxies', proxyIds: proxyIds as readonly ProxyId[], reference }
}

/** A reference identifies a repeated proposal, and informs the approver of its purpose. */
const referenceNeeded: CommandDecision<RefundOutcome> = {
  appends: [],
  answer: {
    kind: 'refused',
    reason:
      'it is above what one operator may refund alone; give a reference that says what it is for, and it is proposed',
  },
}

export type RefundDependencies = {
  readonly log: EventLog
  readonly runner: CommandRunner
  /** Writes a plan's counted traffic to the log, because a refund takes back the unused traffic. */
  readonly settleTraffic: (planId: PlanId) => Promise<void>
}

type Refund = Cause & {
  readonly orderId: OrderId
  readonly refundId: string
  readonly request: RefundRequest
  /** Whether this operator approves a proposal of another one. */
  readonly approving?: boolean
}

/** Refunds an order as `refundOrder` does. */
export type RefundOrder = (refund: Refund) => Promise<RefundOutcome | null>

/**
 * Refunds an order. An operator refunds the whole order, an amount, or some of its addresses. The system refunds whole
 * orders, and is never refused because of extended rentals. Null if the order does not exist.
 * Above the approval limit the refund is only proposed, and nothing moves.
 * @throws errors of the command runner
 */
export const refundOrder = async (
  dependencies: RefundDependencies,
  refund: Refund,
): Promise<RefundOutcome | null> => {
  const { orderId, refundId, actor, correlationId, approving = false } = refund
  const isAutomatic = actor.kind === 'system' && refund.request.kind === 'whole'
  const request: RefundRequest = isAutomatic ? { kind: 'whole', unasked: isAutomatic } : refund.request
  const order = await readOrder(dependencies.log, orderId)
  if (!order) return null
  const { details } = order
  const streams = orderStreams(details)
  const settle = async (): Promise<void> => {
    if (details.planId !== null) await dependencies.settleTraffic(details.planId)
  }
  await settle()
  const moment = (nowMs: number) => ({ actor, nowMs })
  const proposedRefundOf = refundIn(details, request)
  const { answer } = await withRefundEvidence(dependencies.log, streams.ledger.stream, (evidence) =>
    dependencies.runner.run({
      name: 'refund-order',
      streams: {
        ...streams,
        fourEyes: approvalLimitsRef,
        proposal: proposalRef(proposalIdOf({ kind: 'refund', refundId })),
      },
      decide: (states, { nowMs }): CommandDecision<RefundOutcome | NeedsEvidence> => {
        const decideNow = () => decideRefund(states, refundId, request, nowMs, evidence)
        if (approving)
          return withAnswerKind(decideApproval(states.proposal, moment(nowMs), decideNow, proposedRefundOf))
        const decision = withAnswerKind(
          decideWithApproval(states, moment(nowMs), decideNow(), proposedRefundOf),
        )
        const isProposed = decision.answer.kind === 'four_eyes'
        return isProposed && request.reference === undefined ? referenceNeeded : decision
      },
      correlationId,
      actor,
      account: details.accountId,
    }),
  )
  // The plan's total may have changed, and with it the counter's alarms. If this fails, a sweep does it within five
  // minutes.
  await settle().catch(() => undefined)
  return answer
}
