import { isoTime } from '../../kernel/clock.ts'
import { type Appends, type CommandDecision, type Refused, refused } from '../../kernel/decider.ts'
import type { Actor } from '../../kernel/event.ts'
import { deriveId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { approvalLimitsStream, proposalStream } from '../../kernel/streams.ts'
import {
  type ApprovalLimits,
  approvalLimitAt,
  type FourEyesSet,
  type Proposal,
  type ProposalEvent,
  type ProposedAction,
  type ProposedRefund,
} from './approvals.ts'
import { manualStream } from './decide-manual.ts'
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

/**
 * The same movement or refund has the same proposal id. A refund's proposal id comes from its refund id. A proposal of
 * a setting has an id of its own.
 */
export const proposalIdOf = (what: ManualMovement | Pick<ProposedRefund, 'kind' | 'refundId'>): string =>
  what.kind === 'refund'
    ? deriveId('prp', [what.refundId])
    : deriveId('prp', [what.accountId, manualStream(what)])

/** The whole proposed action as text with sorted fields, so that two actions can be compared. */
export const proposedText = (what: ProposedAction): string =>
  JSON.stringify(Object.fromEntries(Object.entries(what).sort(([a], [b]) => (a < b ? -1 : 1))))

/** The amount of a movement, or the larger side of a refund, micro-dollars; null for a setting. */
export const proposedSizeMicros = (what: ProposedAction): number | null => {
  if (what.kind === 'setting') return null
  if (what.kind !== 'refund') return Math.abs(what.amountMicros)
  return centsToMicros(Math.max(what.amountCents, what.costCents ?? 0))
}

export const isOpen = (proposal: Proposal, nowMs: number): proposal is NonNullable<Proposal> =>
  proposal?.status === 'open' && nowMs < proposal.expiresAtMs

/** Nothing moved. The proposal needs the approval of another operator. */
export type ProposedAnswer = {
  readonly outcome: 'proposed'
  readonly proposal: NonNullable<Proposal>
  /** Whether this command made the proposal. */
  readonly now: boolean
}
/**
 * The same reference is already proposed with another amount or another reason. Nothing moved and nothing was proposed.
 */
export type OtherProposed = { readonly outcome: 'other_proposed'; readonly proposal: NonNullable<Proposal> }
export type ApprovalAnswer = ProposedAnswer | OtherProposed

type Moment = { readonly actor: Actor; readonly nowMs: number }
type States = { readonly fourEyes: ApprovalLimits; readonly proposal: Proposal }

const append = (event: ProposalEvent): Appends[number] => ({
  stream: proposalStream(event.data.proposalId),
  events: [event],
})

const propose = (
  proposal: Proposal,
  proposalId: string,
  what: ProposedAction,
  { actor, nowMs }: Moment,
): CommandDecision<ApprovalAnswer> => {
  const by = operatorOf(actor)
  if (by === null) throw new Error(`${JSON.stringify(actor)} is no operator, and moves by hand`)
  if (isOpen(proposal, nowMs)) {
    const same = proposedText(proposal.what) === proposedText(what)
    return {
      appends: [],
      answer: same ? { outcome: 'proposed', proposal, now: false } : { outcome: 'other_proposed', proposal },
    }
  }
  const expiresAtMs = nowMs + proposalLifetimeMs
  const made = { proposalId, what, by } as const
  return {
    appends: [append({ type: 'ProposalMade', data: { ...made, expiresAt: isoTime(expiresAtMs) } })],
    answer: {
      outcome: 'proposed',
      proposal: { ...made, proposedAtMs: nowMs, expiresAtMs, status: 'open' },
      now: true,
    },
  }
}

/**
 * Carries out an operator's decision if one operator may do so, else proposes it. The service's own decisions are
 * carried out, because they are not manual movements. So are decisions that move nothing, such as a refusal, and
 * decisions that finish a recorded movement.
 * @param whatOf returns the new manual movement of a decision; null: none
 */
export const decideWithApproval = <Answer>(
  { fourEyes, proposal }: States,
  moment: Moment,
  decision: CommandDecision<Answer>,
  whatOf: (appends: Appends) => Exclude<ProposedAction, { readonly kind: 'setting' }> | null,
): CommandDecision<Answer | ApprovalAnswer> => {
  const { actor, nowMs } = moment
  const limitCents = approvalLimitAt(fourEyes, nowMs)
  const what = actor.kind === 'system' || limitCents === null ? null : whatOf(decision.appends)
  if (what === null || limitCents === null || (proposedSizeMicros(what) ?? 0) <= centsToMicros(limitCents))
    return decision
  return propose(proposal, proposalIdOf(what), what, moment)
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
 * @param carryOut decides the proposed action as if one operator were enough
 */
export const decideApproval = <Answer>(
  proposal: Proposal,
  { actor, nowMs }: Moment,
  carryOut: (what: ProposedAction) => CommandDecision<Answer>,
  whatOf: (appends: Appends) => ProposedAction | null,
): CommandDecision<Answer | Refused<ApprovalRefusal>> => {
  if (!proposal) return refusedApproval({ code: 'unknown_proposal' })
  const by = operatorOf(actor)
  if (by === null) return refusedApproval({ code: 'not_an_operator' })
  if (by === proposal.by) return refusedApproval({ code: 'own_proposal' })
  const { status, proposalId } = proposal
  if (status === 'declined' || status === 'withdrawn')
    return refusedApproval({ code: 'proposal_closed', status })
  if (status === 'open' && !isOpen(proposal, nowMs))
    return refusedApproval({ code: 'proposal_closed', status: 'expired' })
  const decision = carryOut(proposal.what)
  const what = whatOf(decision.appends)
  // A movement that was recorded without an approval, when one operator was enough, is finished without an approval.
  if (what === null) return decision
  if (proposedText(what) !== proposedText(proposal.what))
    return refusedApproval({ code: 'proposal_outdated' })
  if (status === 'approved') return decision
  return {
    appends: [append({ type: 'ProposalApproved', data: { proposalId, by } }), ...decision.appends],
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
  { actor, nowMs }: Moment,
): CommandDecision<ProposalClosingAnswer> => {
  if (!proposal) return refusedApproval({ code: 'unknown_proposal' })
  const by = operatorOf(actor)
  if (by === null) return refusedApproval({ code: 'not_an_operator' })
  const own = by === proposal.by
  if (reason === 'declined' && own) return refusedApproval({ code: 'own_proposal' })
  if (reason === 'withdrawn' && !own) return refusedApproval({ code: 'not_own_proposal' })
  const { status, proposalId } = proposal
  if (status === reason) return { appends: [], answer: { outcome: 'closed', now: false } }
  if (status !== 'open') return refusedApproval({ code: 'proposal_closed', status })
  if (!isOpen(proposal, nowMs)) return refusedApproval({ code: 'proposal_closed', status: 'expired' })
  return {
    appends: [append({ type: 'ProposalClosed', data: { proposalId, by, reason, note } })],
    answer: { outcome: 'closed', now: true },
  }
}

/** `fromMs`: when the limit takes effect, milliseconds since the epoch. */
export type LimitChangeAnswer = {
  readonly outcome: 'set'
  readonly changed: boolean
  readonly fromMs: number
}

const setting = (
  limits: ApprovalLimits,
  limitCents: number | null,
  proposalId: string | null,
  nowMs: number,
) => {
  const last = limits.at(-1) ?? { limitCents: null, fromMs: 0 }
  const fromMs = nowMs + limitEffectiveDelayMs
  const event: FourEyesSet = { type: 'FourEyesSet', data: { limitCents, from: isoTime(fromMs), proposalId } }
  const changed = last.limitCents !== limitCents
  const decision: CommandDecision<LimitChangeAnswer> = {
    appends: changed ? [{ stream: approvalLimitsStream, events: [event] }] : [],
    answer: { outcome: 'set', changed, fromMs: changed ? fromMs : last.fromMs },
  }
  const allowsMore =
    changed && last.limitCents !== null && (limitCents === null || limitCents > last.limitCents)
  return { decision, allowsMore }
}

/** One operator may set a limit that is not above the last one. A higher limit, or none, needs a second operator. */
export const decideLimit = (
  { fourEyes, proposal }: States,
  { limitCents, proposalId }: { readonly limitCents: number | null; readonly proposalId: string },
  moment: Moment,
): CommandDecision<LimitChangeAnswer | ApprovalAnswer> => {
  const { decision, allowsMore } = setting(fourEyes, limitCents, null, moment.nowMs)
  return allowsMore ? propose(proposal, proposalId, { kind: 'setting', limitCents }, moment) : decision
}

export const decideLimitApproval = (
  { fourEyes, proposal }: States,
  moment: Moment,
): CommandDecision<LimitChangeAnswer | Refused<ApprovalRefusal>> => {
  // No stream shows that the limit was set by this proposal. Setting it again would undo later limits.
  if (proposal?.status === 'approved') return refusedApproval({ code: 'proposal_closed', status: 'approved' })
  return decideApproval<LimitChangeAnswer>(
    proposal,
    moment,
    (what) => {
      if (what.kind !== 'setting' || !proposal) throw new Error('a proposal of a movement sets no limit')
      return setting(fourEyes, what.limitCents, proposal.proposalId, moment.nowMs).decision
    },
    limitIn,
  )
}

const limitIn = (appends: Appends): ProposedAction | null => {
  const set = appends.flatMap(({ events }) => events).find(({ type }) => type === 'FourEyesSet')
  return set === undefined
    ? null
    : { kind: 'setting', limitCents: (set.data as FourEyesSet['data']).limitCents }
}
