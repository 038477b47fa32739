import { type ProposalRow, proposalAfter } from '../../../projections/proposals.ts'
import type { DepositRefundAnswer } from '../../domain/deposits/decide-refund.ts'
import type { ResolutionAnswer } from '../../domain/deposits/unmatched-movements.ts'
import {
  type ApprovalLimits,
  approvalLimitsRef,
  type ProposalEvent,
  type ProposedAction,
  type ProposedCorrection,
  proposalRef,
} from '../../domain/ledger/approvals.ts'
import {
  type ApprovalAnswer,
  type ApprovalRefusal,
  decideClosing,
  decideLimit,
  decideLimitApproval,
  type LimitChangeAnswer,
  type ProposalClosingAnswer,
} from '../../domain/ledger/decide-approval.ts'
import type { ManualAnswer } from '../../domain/ledger/decide-manual.ts'
import type { RefundAnswer } from '../../domain/orders/refunds.ts'
import { type Refused, refused } from '../../kernel/decider.ts'
import type { Cause, RecordedEvent } from '../../kernel/event.ts'
import { pluralize } from '../../kernel/formats.ts'
import { newId, type OrderId, type PlanId } from '../../kernel/ids.ts'
import { amountWriter, microsToCentsFloor } from '../../kernel/money.ts'
import { proposalStream } from '../../kernel/streams.ts'
import { dollars } from '../../platform/cli/output.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { readState } from '../../platform/commands/command.ts'
import type { EventCodec } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { type Db, sql } from '../../platform/postgres/kysely.ts'
import { approveDepositRefund, approveUnmatched } from '../deposits/index.ts'
import { refundOrder, refundRequestOf } from '../orders/index.ts'
import { approveCorrection, approveStatement, type CorrectionAnswer, createWallets } from '../wallet/index.ts'

type Approved =
  | { readonly of: 'movement'; readonly answer: ManualAnswer }
  | { readonly of: 'refund'; readonly answer: RefundAnswer }
  | { readonly of: 'deposit_refund'; readonly answer: DepositRefundAnswer }
  | { readonly of: 'unmatched'; readonly answer: ResolutionAnswer }
  | { readonly of: 'statement'; readonly lines: number }
  | { readonly of: 'statement_correction'; readonly answer: CorrectionAnswer }
  | { readonly of: 'setting'; readonly answer: LimitChangeAnswer }

/** Actions that need two operators: the limit above which they do, and the proposals (docs/decisions/0072). */
export type Proposals = {
  /** The limits by the time from which they are valid. */
  limits(cause: Cause): Promise<ApprovalLimits>
  /** Sets the limit, cents; null: any amount. A limit that allows more than the last one becomes a proposal. */
  setLimit(limitCents: number | null, cause: Cause): Promise<LimitChangeAnswer | ApprovalAnswer>
  /** Approves a proposal and executes it, once. If the execution is refused, the proposal stays open. */
  approve(proposalId: string, cause: Cause): Promise<Approved | Refused<ApprovalRefusal>>
  close(
    proposalId: string,
    closure: { readonly reason: 'declined' | 'withdrawn'; readonly note: string | null },
    cause: Cause,
  ): Promise<ProposalClosingAnswer>
}

export const createProposals = (dependencies: {
  readonly runner: CommandRunner
  readonly log: EventLog
  readonly db: Db
  /** The ids of the service's payment gateways. */
  readonly ownGatewayIds: readonly string[]
  readonly settleTraffic: (planId: PlanId) => Promise<void>
}): Proposals => {
  const { runner } = dependencies
  const wallets = createWallets({ runner })

  const approveLimit = async (proposalId: string, { actor, correlationId }: Cause) => {
    const { answer } = await runner.run({
      name: 'approve-limit',
      streams: { fourEyes: approvalLimitsRef, proposal: proposalRef(proposalId) },
      decide: (states, { nowMs }) => decideLimitApproval(states, { actor, nowMs }),
      actor,
      correlationId,
    })
    return answer
  }

  return {
    limits: (cause) => readState(runner, { ...cause, name: 'read-limit' }, approvalLimitsRef),

    async setLimit(limitCents, { actor, correlationId }) {
      const proposalId = newId<string>('prp')
      const { answer } = await runner.run({
        name: 'set-limit',
        streams: { fourEyes: approvalLimitsRef, proposal: proposalRef(proposalId) },
        decide: (states, { nowMs }) => decideLimit(states, { limitCents, proposalId }, { actor, nowMs }),
        actor,
        correlationId,
      })
      return answer
    },

    async approve(proposalId, cause) {
      const proposal = await readState(runner, { ...cause, name: 'read-proposal' }, proposalRef(proposalId))
      if (proposal === null) return refused({ code: 'unknown_proposal' })
      const { what } = proposal
      if (what.kind === 'setting') {
        const answer = await approveLimit(proposalId, cause)
        return answer.outcome === 'refused' ? answer : { of: 'setting', answer }
      }
      if (what.kind === 'refund') {
        const { orderId, refundId } = what
        const refund = {
          orderId: orderId as OrderId,
          refundId,
          request: refundRequestOf(what),
          approving: true,
        }
        const answer = await refundOrder(dependencies, { ...refund, ...cause })
        if (answer === null || answer.kind === 'four_eyes') throw new Error(`${proposalId} refunds no order`)
        return answer.kind === 'not_approved' ? refused(answer.refusal) : { of: 'refund', answer }
      }
      if (what.kind === 'deposit_refund') {
        const answer = await approveDepositRefund(dependencies, what, cause)
        return isApprovalRefusal(answer) ? answer : { of: 'deposit_refund', answer }
      }
      if (what.kind === 'statement') {
        const answer = await approveStatement(runner, proposalId, what, cause)
        return answer.outcome === 'refused' ? answer : { of: 'statement', lines: answer.lines }
      }
      if (what.kind === 'statement_correction') {
        const answer = await approveCorrection(runner, proposalId, what, cause)
        return answer.outcome === 'refused' ? answer : { of: 'statement_correction', answer }
      }
      const booked = await approveUnmatched(runner, proposal, what, cause)
      if (booked !== null) return isApprovalRefusal(booked) ? booked : { of: 'unmatched', answer: booked }
      const answer = await wallets.approve(proposal, what, cause)
      return isApprovalRefusal(answer) ? answer : { of: 'movement', answer }
    },

    async close(proposalId, closure, { actor, correlationId }) {
      const { answer } = await runner.run({
        name: 'close-proposal',
        streams: { proposal: proposalRef(proposalId) },
        decide: ({ proposal }, { nowMs }) => decideClosing(proposal, closure, { actor, nowMs }),
        actor,
        correlationId,
      })
      return answer
    },
  }
}

const approvalCodes: ReadonlySet<string> = new Set<ApprovalRefusal['code']>([
  'unknown_proposal',
  'not_an_operator',
  'own_proposal',
  'not_own_proposal',
  'proposal_closed',
  'proposal_outdated',
])
const isApprovalRefusal = (
  answer: ManualAnswer | DepositRefundAnswer | ResolutionAnswer | Refused<ApprovalRefusal>,
): answer is Refused<ApprovalRefusal> =>
  answer.outcome === 'refused' && approvalCodes.has(answer.refusal.code)

/** `expired`: the proposal was neither approved nor closed in time. */
export const statusOf = (
  { status, expiresAt }: Pick<ProposalRow, 'status' | 'expiresAt'>,
  nowMs: number,
): ProposalRow['status'] | 'expired' =>
  status === 'open' && Date.parse(expiresAt) <= nowMs ? 'expired' : status

/**
 * Up to `limit` proposals, newest first, that follow `after`; null: from the newest on. `waiting`: only those that may
 * be approved.
 */
export const proposalsAfter = (
  db: Db,
  {
    waiting,
    after,
    limit,
    nowMs,
  }: {
    readonly waiting: boolean
    readonly after: { readonly at: string; readonly id: string } | null
    readonly limit: number
    readonly nowMs: number
  },
): Promise<readonly ProposalRow[]> => {
  let proposalQuery = db.selectFrom('read.proposals').selectAll()
  if (waiting)
    proposalQuery = proposalQuery
      .where('status', '=', 'open')
      .where('expiresAt', '>', new Date(nowMs).toISOString())
  if (after !== null)
    proposalQuery = proposalQuery.where(
      sql<boolean>`(proposed_at, proposal_id) < (${after.at}::timestamptz, ${after.id}::text)`,
    )
  return proposalQuery.orderBy('proposedAt', 'desc').orderBy('proposalId', 'desc').limit(limit).execute()
}

/** One proposal with its current state in the log; null: no proposal has this id. */
export const readProposal = async (
  { log, codec }: { readonly log: EventLog; readonly codec: EventCodec },
  proposalId: string,
): Promise<ProposalRow | null> => {
  let row: ProposalRow | null = null
  for await (const stored of log.readStream(proposalStream(proposalId)))
    row = proposalAfter(row, codec.decode(stored) as RecordedEvent<ProposalEvent>)
  return row
}

/** A limit in words. */
export const limitText = (limitCents: number | null): string =>
  limitCents === null ? 'off' : `above ${dollars(limitCents)}`

const linesText = (lines: readonly Pick<ProposedCorrection, 'feeMicros' | 'payoutMicros'>[]): string => {
  const sum = (microsOf: (line: (typeof lines)[number]) => number): bigint =>
    lines.reduce((total, line) => total + BigInt(microsOf(line)), 0n)
  const [fees, payouts] = [sum(({ feeMicros }) => feeMicros), sum(({ payoutMicros }) => payoutMicros)]
  const write = amountWriter([fees, payouts])
  return `fees ${write(fees)}, payouts ${write(payouts)}`
}

/** The proposed action in words. */
export const whatText = (what: ProposedAction): string => {
  switch (what.kind) {
    case 'setting':
      return `four eyes ${limitText(what.limitCents)}`
    case 'refund':
      return `refund ${dollars(what.amountCents)} of ${what.orderId} for "${what.reference}"`
    case 'deposit_refund':
      return `refund ${dollars(what.amountCents)} of ${what.depositId} to the payer for "${what.reference}"`
    case 'statement': {
      const files = [...new Set(what.lines.map(({ file }) => file?.name))].join(', ')
      return `post ${pluralize(what.lines.length, 'line')} of ${files} to ${what.gateway}: ${linesText(what.lines)}`
    }
    case 'statement_correction':
      return `correct ${what.reference} of ${what.gateway} for "${what.reason}": ${linesText([what])}`
    case 'credit':
      return `credit ${dollars(microsToCentsFloor(what.amountMicros))} for "${what.reference}"`
    default: {
      const whose = what.kind === 'customer' ? ` of ${what.customerId}` : ''
      return `${what.reason} ${dollars(microsToCentsFloor(what.amountMicros))}${whose} for "${what.reference}"`
    }
  }
}
