import { approvalLimitsRef, type ProposedRefund, proposalRef } from '../../domain/ledger/approvals.ts'
import {
  type ApprovalAnswer,
  type ApprovalRefusal,
  decideApproval,
  decideWithApproval,
  proposalIdOf,
} from '../../domain/ledger/decide-approval.ts'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { orderStreams } from '../../domain/orders/allocation-owner.ts'
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
import { readStreamState } from '../../platform/commands/handle.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'

/** An order as its stream tells it now, or null. */
export const readOrder = async (log: EventLog, orderId: OrderId): Promise<Order | null> =>
  (await readStreamState(log, orderRef(orderId))).state

/** Whether a wallet's stream has the money of a refund. Reads all of it: this is asked once in a long while. */
const moneyMoved = async (log: EventLog, ledger: StreamName, refundId: string): Promise<boolean> => {
  for await (const stored of log.readStream(ledger)) {
    if (stored.type !== 'WalletCredited' && stored.type !== 'CustomerRefunded') continue
    const { type, data } = decode(stored) as LedgerEvent
    if (type === 'WalletCredited' && data.source === 'refund' && data.reference === refundId) return true
    if (type === 'CustomerRefunded' && data.reference === refundId) return true
  }
  return false
}

/** An extension that its own stream does not know yet was paid a moment ago. */
const isPaid = async (log: EventLog, orderId: string): Promise<boolean> => {
  const order = await readOrder(log, orderId as OrderId)
  return order === null || hasUnrefundedAmount(order)
}

/**
 * Runs what lands refunds until it needs nothing more. Where the wallet has forgotten whether one was paid, its whole
 * stream is looked through: a refund is paid once, however late it is finished. Where rentals were extended, the streams
 * of the extensions are read.
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
    if (missing.length === 0) throw new Error('evidence that was looked up is asked for again')
    for (const id of answer.refundIds) evidence.set(id, await moneyMoved(log, ledger, id))
    for (const id of answer.extensionIds) evidence.set(id, await isPaid(log, id))
  }
}

const isNeeds = (answer: { readonly kind: string }): answer is NeedsEvidence => answer.kind === 'needs'

/** The refund that a reference names: the same reference is refunded once. */
export const refundIdOf = (orderId: OrderId, reference: string): string =>
  deriveId('ref', [orderId, 'operator', reference])

/** `four_eyes`: proposed, and nothing moved. `not_approved`: why the approval of a proposal is refused. */
export type RefundOutcome =
  | RefundAnswer
  | { readonly kind: 'four_eyes'; readonly answer: ApprovalAnswer }
  | { readonly kind: 'not_approved'; readonly refusal: ApprovalRefusal }

type Outcome = RefundAnswer | NeedsEvidence | ApprovalAnswer | Refused<ApprovalRefusal>

const named = ({
  appends,
  answer,
}: CommandDecision<Outcome>): CommandDecision<RefundOutcome | NeedsEvidence> => {
  if ('kind' in answer) return { appends, answer }
  return answer.outcome === 'refused'
    ? { appends, answer: { kind: 'not_approved', refusal: answer.refusal } }
    : { appends, answer: { kind: 'four_eyes', answer } }
}

/** What a decision newly refunds by hand; null: nothing. */
const refundIn =
  ({ accountId }: Pick<OrderDetails, 'accountId'>, { kind: asked, reference }: RefundRequest) =>
  (appends: Appends): ProposedRefund | null => {
    const event = appends.flatMap(({ events }) => events).find(({ type }) => type === 'RefundDecided')
    if (event === undefined) return null
    const { orderId, refundId, amountCents, costCents, proxyIds } = event.data as RefundDecided['data']
    const cost = costCents === undefined ? {} : { costCents }
    const paid = { accountId, orderId, refundId, amountCents, ...cost, proxyIds }
    return { kind: 'refund', ...paid, reference: reference ?? '', asked }
  }

/** The request that a proposal was made of. */
export const refundRequestOf = ({
  asked,
  amountCents,
  proxyIds,
  reference,
}: ProposedRefund): RefundRequest => {
  if (asked === 'whole') return { kind: 'whole', reference }
  if (asked === 'cents') return { kind: 'cents', cents: amountCents, reference }
  return { kind: 'proxies', proxyIds: proxyIds as readonly ProxyId[], reference }
}

/** The same command again is the same proposal, and whoever approves it reads what it is for. */
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
  /** Writes the counted traffic of a plan to the log: a refund takes back what is unused. */
  readonly settleTraffic: (planId: PlanId) => Promise<void>
}

type Refund = Cause & {
  readonly orderId: OrderId
  readonly refundId: string
  readonly request: RefundRequest
  /** It was proposed by another operator: this one approves it. */
  readonly approving?: boolean
}

/** Refunds an order as `refundOrder` does. */
export type RefundOrder = (refund: Refund) => Promise<RefundOutcome | null>

/**
 * Refunds an order by an operator's word: whole, an amount, or some of its addresses; by the system's whole, and never
 * refused for extended rentals. Null when there is no such order.
 * Above the limit of four eyes it is proposed, and nothing moves. Rejects as the command runner does.
 */
export const refundOrder = async (
  deps: RefundDependencies,
  refund: Refund,
): Promise<RefundOutcome | null> => {
  const { orderId, refundId, actor, correlationId, approving = false } = refund
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
  const moment = (nowMs: number) => ({ actor, nowMs })
  const whatOf = refundIn(details, request)
  const { answer } = await withRefundEvidence(deps.log, streams.ledger.stream, (evidence) =>
    deps.runner.run({
      name: 'refund-order',
      streams: {
        ...streams,
        fourEyes: approvalLimitsRef,
        proposal: proposalRef(proposalIdOf({ kind: 'refund', refundId })),
      },
      decide: (states, { nowMs }): CommandDecision<RefundOutcome | NeedsEvidence> => {
        const carryOut = () => decideRefund(states, refundId, request, nowMs, evidence)
        if (approving) return named(decideApproval(states.proposal, moment(nowMs), carryOut, whatOf))
        const decision = named(decideWithApproval(states, moment(nowMs), carryOut(), whatOf))
        const isProposed = decision.answer.kind === 'four_eyes'
        return isProposed && request.reference === undefined ? referenceNeeded : decision
      },
      correlationId,
      actor,
      account: details.accountId,
    }),
  )
  // The total may have changed, and with it what the counter looks out for; a sweep finds that out within five minutes.
  await settle().catch(() => undefined)
  return answer
}
