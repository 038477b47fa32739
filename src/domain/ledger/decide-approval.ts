import { isoTime } from '../../kernel/clock.ts'
import { type Appends, type CommandDecision, type Refused, refused } from '../../kernel/decider.ts'
import { type Actor, accountOf } from '../../kernel/event.ts'
import { deriveId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { approvalLimitsStream, depositStream, proposalStream } from '../../kernel/streams.ts'
import {
  type ApprovalLimits,
  approvalLimitAt,
  type FourEyesSet,
  type Proposal,
  type ProposalEvent,
  type ProposedAction,
  type ProposedCorrection,
  type ProposedDepositRefund,
  type ProposedRefund,
  type ProposedStatement,
} from './approvals.ts'
import { movementIdOf } from './decide-manual.ts'
import type { ManualMovement } from './manual-movements.ts'

/** How long a proposal can be approved, milliseconds. */
export const proposalLifetimeMs = 7 * 86_400_000
/** A new limit takes effect after this time, milliseconds, because decisions in progress do not use it. */
export const limitEffectiveDelayMs = 60_000

/** The operator's name. Null for keys, accounts and the service itself, which propose and approve nothing. */
export const operatorOf = (actor: Actor): string | null => {
  if (actor.kind === 'operator') return `operator:${actor.name}`
  return actor.kind === 'session' && actor.subjectId.startsWith('stf_') ? actor.subjectId : null
}

/** Who may propose an action: an operator, or a reseller for the credit of its own customer. Null: the actor may not. */
export const proposerOf = (actor: Actor, proposedAction: ProposedAction): string | null => {
  const operatorId = operatorOf(actor)
  if (operatorId !== null || proposedAction.kind !== 'customer') return operatorId
  return accountOf(actor) === proposedAction.accountId ? proposedAction.accountId : null
}

/**
 * The same movement, refund, lines or corrected line have the same proposal id. A refund's proposal id comes from its refund id. A proposal of
 * a setting has an id of its own.
 */
export const proposalIdOf = (
  proposedAction:
    | ManualMovement
    | Pick<ProposedRefund, 'kind' | 'refundId'>
    | Pick<ProposedDepositRefund, 'kind' | 'refundId'>
    | ProposedStatement
    | Pick<ProposedCorrection, 'kind' | 'gateway' | 'reference'>,
): string => {
  switch (proposedAction.kind) {
    case 'refund':
    case 'deposit_refund':
      return deriveId('prp', [proposedAction.refundId])
    case 'statement':
      return deriveId('prp', [proposedAction.gateway, JSON.stringify(proposedAction.lines)])
    case 'statement_correction':
      return deriveId('prp', [proposedAction.gateway, proposedAction.reference])
    default:
      return movementProposalId(proposedAction.accountId, movementIdOf(proposedAction))
  }
}

/** The id of the proposal of a movement. */
export const movementProposalId = (accountId: string, movementId: string): string =>
  deriveId('prp', [accountId, depositStream(movementId)])

/** The whole proposed action as text with sorted fields, so that two actions can be compared. */
export const proposedText = (proposedAction: ProposedAction): string =>
  JSON.stringify(Object.fromEntries(Object.entries(proposedAction).sort(([a], [b]) => (a < b ? -1 : 1))))

const sizeOf = ({
  feeMicros,
  payoutMicros,
}: Pick<ProposedCorrection, 'feeMicros' | 'payoutMicros'>): number =>
  Math.abs(feeMicros) + Math.abs(payoutMicros)

/** The amount of a movement, the fees and payouts of a statement together, or the larger side of a refund, micro-dollars; null for a setting. */
export const proposedSizeMicros = (proposedAction: ProposedAction): number | null => {
  if (proposedAction.kind === 'setting') return null
  if (proposedAction.kind === 'deposit_refund') return centsToMicros(proposedAction.amountCents)
  if (proposedAction.kind === 'statement')
    return proposedAction.lines.reduce((sum, line) => sum + sizeOf(line), 0)
  if (proposedAction.kind === 'statement_correction') return sizeOf(proposedAction)
  if (proposedAction.kind !== 'refund') return Math.abs(proposedAction.amountMicros)
  return centsToMicros(Math.max(proposedAction.amountCents, proposedAction.costCents ?? 0))
}

const hasStatus = <Status extends NonNullable<Proposal>['status']>(
  proposal: Proposal,
  status: Status,
): proposal is NonNullable<Proposal> & { readonly status: Status } => proposal?.status === status

const isOpen = (
  proposal: Proposal,
  nowMs: number,
): proposal is NonNullable<Proposal> & { readonly status: 'open' } =>
  hasStatus(proposal, 'open') && nowMs < proposal.expiresAtMs

/** Nothing moved. The proposal needs the approval of another operator. */
export type ProposedAnswer = {
  readonly outcome: 'proposed'
  readonly proposal: NonNullable<Proposal>
  /** Whether this command made the proposal. */
  readonly now: boolean
}
/**
 * Nothing moved and nothing was proposed. The same reference is proposed with another amount or reason (`open`), or
 * another operator declined it.
 */
export type NotProposed = {
  readonly outcome: 'not_proposed'
  readonly proposal: NonNullable<Proposal> & { readonly status: 'open' | 'declined' }
}
export type ApprovalAnswer = ProposedAnswer | NotProposed

type CommandContext = { readonly actor: Actor; readonly nowMs: number }
type ApprovalStates = { readonly fourEyes: ApprovalLimits; readonly proposal: Proposal }

const append = (event: ProposalEvent): Appends[number] => ({
  stream: proposalStream(event.data.proposalId),
  events: [event],
})

/**
 * Whether a declined proposal refuses this action. A refund of another amount may be proposed again, because what is
 * left of an order or a deposit changes; so may a correction to other amounts. The lines of a statement are refused:
 * another file, or a part of its lines, has another proposal. A movement of a provider without a known deposit may be
 * proposed again, because it has only one reference.
 */
const staysDeclined = (declinedAction: ProposedAction, proposedAction: ProposedAction): boolean => {
  switch (proposedAction.kind) {
    case 'refund':
    case 'deposit_refund':
      return proposedText(declinedAction) === proposedText(proposedAction)
    case 'statement_correction':
      return (
        declinedAction.kind === 'statement_correction' &&
        declinedAction.feeAfterMicros === proposedAction.feeAfterMicros &&
        declinedAction.payoutAfterMicros === proposedAction.payoutAfterMicros
      )
    case 'adjustment':
      return proposedAction.gateway === null
    default:
      return true
  }
}

/** The proposal that prevents an action, whatever its amount; null: none. */
const preventing = (
  proposal: Proposal,
  proposedAction: ProposedAction,
  nowMs: number,
): NotProposed['proposal'] | null => {
  if (isOpen(proposal, nowMs))
    return proposedText(proposal.what) === proposedText(proposedAction) ? null : proposal
  return hasStatus(proposal, 'declined') && staysDeclined(proposal.what, proposedAction) ? proposal : null
}

const notProposed = (proposal: NotProposed['proposal']): CommandDecision<NotProposed> => ({
  appends: [],
  answer: { outcome: 'not_proposed', proposal },
})

const propose = (
  proposal: Proposal,
  proposalId: string,
  proposedAction: ProposedAction,
  { actor, nowMs }: CommandContext,
): CommandDecision<ApprovalAnswer> => {
  const proposer = proposerOf(actor, proposedAction)
  if (proposer === null) throw new Error(`${JSON.stringify(actor)} may not propose ${proposedAction.kind}`)
  const found = preventing(proposal, proposedAction, nowMs)
  if (found) return notProposed(found)
  if (isOpen(proposal, nowMs)) return { appends: [], answer: { outcome: 'proposed', proposal, now: false } }
  const expiresAtMs = nowMs + proposalLifetimeMs
  const proposalFields = { proposalId, what: proposedAction, by: proposer } as const
  return {
    appends: [append({ type: 'ProposalMade', data: { ...proposalFields, expiresAt: isoTime(expiresAtMs) } })],
    answer: {
      outcome: 'proposed',
      proposal: { ...proposalFields, proposedAtMs: nowMs, expiresAtMs, status: 'open', closing: null },
      now: true,
    },
  }
}

/**
 * Carries out an operator's decision if one operator may do so, else proposes it. The service's own decisions are
 * carried out, because they are not manual movements. So are decisions that move nothing, such as a refusal, and
 * decisions that finish a recorded movement. A declined action stays declined with an amount below the limit, too.
 * @param actionOf returns the new manual movement of a decision; null: none
 */
export const decideWithApproval = <Answer>(
  { fourEyes, proposal }: ApprovalStates,
  context: CommandContext,
  decision: CommandDecision<Answer>,
  actionOf: (appends: Appends) => Exclude<ProposedAction, { readonly kind: 'setting' }> | null,
): CommandDecision<Answer | ApprovalAnswer> => {
  const { actor, nowMs } = context
  const limitCents = approvalLimitAt(fourEyes, nowMs)
  const proposedAction = actor.kind === 'system' ? null : actionOf(decision.appends)
  if (proposedAction === null) return decision
  if (limitCents !== null && (proposedSizeMicros(proposedAction) ?? 0) > centsToMicros(limitCents))
    return propose(proposal, proposalIdOf(proposedAction), proposedAction, context)
  const found = preventing(proposal, proposedAction, nowMs)
  return found ? notProposed(found) : decision
}

export type ApprovalRefusal =
  | { readonly code: 'unknown_proposal' }
  /** Only staff and operators of the command line can approve. */
  | { readonly code: 'not_an_operator' }
  /** The operator who made a proposal cannot approve or decline it. */
  | { readonly code: 'own_proposal' }
  /** Only the operator who made a proposal can withdraw it. */
  | { readonly code: 'not_own_proposal' }
  | { readonly code: 'proposal_closed'; readonly status: 'approved' | 'declined' | 'withdrawn' | 'expired' }
  /** The decision differs from the proposal, because part of it moved meanwhile. It must be proposed again. */
  | { readonly code: 'proposal_outdated' }

const refusedApproval = (
  code: ApprovalRefusal,
): { readonly appends: []; readonly answer: Refused<ApprovalRefusal> } => ({
  appends: [],
  answer: refused(code),
})

/**
 * Approves a proposal and carries it out in one decision. The stream of the movement or the order refuses a second
 * time, so it is carried out at most once. If a log lost the events after the approval, another approval finishes them.
 * An action that cannot be carried out now leaves the proposal open, and the answer has the reason.
 * @param execute decides the proposed action as if one operator were enough
 */
export const decideApproval = <Answer>(
  proposal: Proposal,
  { actor, nowMs }: CommandContext,
  execute: (proposedAction: ProposedAction) => CommandDecision<Answer>,
  actionOf: (appends: Appends) => ProposedAction | null,
): CommandDecision<Answer | Refused<ApprovalRefusal>> => {
  if (!proposal) return refusedApproval({ code: 'unknown_proposal' })
  const operatorId = operatorOf(actor)
  if (operatorId === null) return refusedApproval({ code: 'not_an_operator' })
  if (operatorId === proposal.by) return refusedApproval({ code: 'own_proposal' })
  const { status, proposalId } = proposal
  if (status === 'declined' || status === 'withdrawn')
    return refusedApproval({ code: 'proposal_closed', status })
  if (status === 'open' && !isOpen(proposal, nowMs))
    return refusedApproval({ code: 'proposal_closed', status: 'expired' })
  const decision = execute(proposal.what)
  const proposedAction = actionOf(decision.appends)
  // A movement that was recorded without an approval, when one operator was enough, is finished without an approval.
  if (proposedAction === null) return decision
  if (proposedText(proposedAction) !== proposedText(proposal.what))
    return refusedApproval({ code: 'proposal_outdated' })
  if (status === 'approved') return decision
  return {
    appends: [
      append({ type: 'ProposalApproved', data: { proposalId, by: operatorId } }),
      ...decision.appends,
    ],
    answer: decision.answer,
  }
}

export type ProposalClosingAnswer =
  | { readonly outcome: 'closed'; readonly now: boolean }
  | Refused<ApprovalRefusal>

/** Another operator declines a proposal. The operator who made it withdraws it. */
export const decideClosing = (
  proposal: Proposal,
  { reason, note }: { readonly reason: 'declined' | 'withdrawn'; readonly note: string | null },
  { actor, nowMs }: CommandContext,
): CommandDecision<ProposalClosingAnswer> => {
  if (!proposal) return refusedApproval({ code: 'unknown_proposal' })
  const operatorId = operatorOf(actor)
  if (operatorId === null) return refusedApproval({ code: 'not_an_operator' })
  const isOwnProposal = operatorId === proposal.by
  if (reason === 'declined' && isOwnProposal) return refusedApproval({ code: 'own_proposal' })
  if (reason === 'withdrawn' && !isOwnProposal) return refusedApproval({ code: 'not_own_proposal' })
  const { status, proposalId } = proposal
  if (status === reason) return { appends: [], answer: { outcome: 'closed', now: false } }
  if (status !== 'open') return refusedApproval({ code: 'proposal_closed', status })
  if (!isOpen(proposal, nowMs)) return refusedApproval({ code: 'proposal_closed', status: 'expired' })
  return {
    appends: [append({ type: 'ProposalClosed', data: { proposalId, by: operatorId, reason, note } })],
    answer: { outcome: 'closed', now: true },
  }
}

/** `fromMs`: when the limit takes effect, milliseconds since the epoch. */
export type LimitChangeAnswer = {
  readonly outcome: 'set'
  readonly changed: boolean
  readonly fromMs: number
}

const changeLimit = (
  limits: ApprovalLimits,
  limitCents: number | null,
  proposalId: string | null,
  nowMs: number,
) => {
  const current = limits.at(-1) ?? { limitCents: null, fromMs: 0 }
  const fromMs = nowMs + limitEffectiveDelayMs
  const event: FourEyesSet = { type: 'FourEyesSet', data: { limitCents, from: isoTime(fromMs), proposalId } }
  const changed = current.limitCents !== limitCents
  const decision: CommandDecision<LimitChangeAnswer> = {
    appends: changed ? [{ stream: approvalLimitsStream, events: [event] }] : [],
    answer: { outcome: 'set', changed, fromMs: changed ? fromMs : current.fromMs },
  }
  const allowsMore =
    changed && current.limitCents !== null && (limitCents === null || limitCents > current.limitCents)
  return { decision, allowsMore }
}

/** One operator may set a limit that is not above the last one. A higher limit, or none, needs a second operator. */
export const decideLimit = (
  { fourEyes, proposal }: ApprovalStates,
  { limitCents, proposalId }: { readonly limitCents: number | null; readonly proposalId: string },
  context: CommandContext,
): CommandDecision<LimitChangeAnswer | ApprovalAnswer> => {
  const { decision, allowsMore } = changeLimit(fourEyes, limitCents, null, context.nowMs)
  return allowsMore ? propose(proposal, proposalId, { kind: 'setting', limitCents }, context) : decision
}

export const decideLimitApproval = (
  { fourEyes, proposal }: ApprovalStates,
  context: CommandContext,
): CommandDecision<LimitChangeAnswer | Refused<ApprovalRefusal>> => {
  // No stream shows that the limit was set by this proposal. Setting it again would undo later limits.
  if (proposal?.status === 'approved') return refusedApproval({ code: 'proposal_closed', status: 'approved' })
  return decideApproval<LimitChangeAnswer>(
    proposal,
    context,
    (proposedAction) => {
      if (proposedAction.kind !== 'setting' || !proposal)
        throw new Error('a proposal of a movement sets no limit')
      return changeLimit(fourEyes, proposedAction.limitCents, proposal.proposalId, context.nowMs).decision
    },
    limitIn,
  )
}

const limitIn = (appends: Appends): ProposedAction | null => {
  const limitEvent = appends.flatMap(({ events }) => events).find(({ type }) => type === 'FourEyesSet')
  return limitEvent === undefined
    ? null
    : { kind: 'setting', limitCents: (limitEvent.data as FourEyesSet['data']).limitCents }
}
