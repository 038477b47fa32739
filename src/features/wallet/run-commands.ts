import type { ApprovalAnswer, ApprovalRefusal, NotProposed } from '../../domain/ledger/decide-approval.ts'
import type { ManualRefusal } from '../../domain/ledger/decide-manual.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { CliMisuse, type CliOutput, CliRefusal, dollars, notFound } from '../../platform/cli/output.ts'
import { createAccounts } from '../accounts/index.ts'
import type { adjustInput, creditInput } from './commands.ts'
import { createWallets, creditByHand, type ManualMovementAnswer } from './wallet-service.ts'

/** The largest amount of a wallet or a customer, whole cents: micro-dollars are safe integers. */
const maxSafeCents = microsToCentsFloor(Number.MAX_SAFE_INTEGER)

/** The refusal of a manual movement; `holderName` names the owner of the money, e.g. `the wallet`. */
export const refusalOf = (refusal: ManualRefusal, holderName = 'the wallet'): CliRefusal => {
  switch (refusal.code) {
    case 'unknown_account':
      return notFound('no account has this id; "accounts create" makes one')
    case 'not_a_reseller':
      return new CliMisuse('this account is no reseller, it has no customers', {}, 'reseller_forbidden')
    case 'already_applied': {
      const amountCents = microsToCentsFloor(refusal.amountMicros)
      return new CliRefusal(
        'already_applied',
        `this reference moved ${dollars(amountCents)} before, nothing moved now; use another reference for another movement`,
        { amountCents },
      )
    }
    case 'insufficient_balance': {
      const { code, ...figures } = refusal
      const { balanceCents, amountCents } = figures
      return new CliRefusal(
        code,
        `${holderName} has ${dollars(balanceCents)} and cannot give ${dollars(amountCents)}; take less, or credit it first`,
        figures,
      )
    }
    case 'invalid_amount':
      return new CliRefusal(
        refusal.code,
        `this would leave ${holderName} with more than ${dollars(maxSafeCents)} or owing more: that is the most that is counted`,
        { maxCents: maxSafeCents },
      )
    case 'not_owed': {
      const owedCents = microsToCentsCeil(refusal.owedMicros)
      return new CliRefusal(
        refusal.code,
        `${holderName} owes ${dollars(owedCents)}: no more than that is written off`,
        { owedCents },
      )
    }
    case 'unconfirmed':
      return new CliRefusal(
        'unconfirmed',
        `this reference was recorded on ${isoTime(refusal.recordedAtMs)} and never confirmed; search the wallet's transactions for it, and use another reference if it is not there`,
      )
    default:
      return refusal satisfies never
  }
}

/** What may be proposed instead of a declined action. */
const insteadOf = ({ kind }: NotProposed['proposal']['what']): string => {
  if (kind === 'statement')
    return 'a changed file, or a part of its lines (--from and --to), is another proposal'
  return kind === 'statement_correction'
    ? 'other amounts may be proposed'
    : 'give another reason to propose it again'
}

/** Why a reference cannot be proposed, and what the operator can do. */
export const notProposedText = (proposal: NotProposed['proposal']): string => {
  const { status, proposalId, by, closing, what } = proposal
  if (status === 'open')
    return `this reason waits for approval with another amount (${proposalId}, by ${by}); have it withdrawn or declined first`
  const why = closing?.note == null ? '' : ` ("${closing.note}")`
  return `${closing?.by} declined it as ${proposalId}${why}; ${insteadOf(what)}`
}

/** The movement needs another operator's approval; it was proposed now or before. */
export const approvalNeeded = ({ outcome, proposal }: ApprovalAnswer): CliRefusal => {
  const { proposalId, by, expiresAtMs } = proposal
  const extra = { proposalId, proposedBy: by, expiresAt: isoTime(expiresAtMs) }
  if (outcome === 'not_proposed')
    return new CliRefusal(
      proposal.status === 'open' ? 'other_proposed' : 'proposal_declined',
      `nothing moved: ${notProposedText(proposal)}`,
      extra,
    )
  return new CliRefusal(
    'approval_needed',
    `nothing moved yet: this is above the limit of one operator, and was proposed as ${proposalId} of ${by} until ${isoTime(expiresAtMs)}; another operator runs "proposals approve ${proposalId}"`,
    extra,
  )
}

const approvalRefusals: Readonly<Record<ApprovalRefusal['code'], string>> = {
  unknown_proposal: 'no proposal has this id; "proposals list" shows them',
  not_an_operator: 'only operators and staff approve',
  own_proposal:
    'you proposed it: another operator approves or declines it; "proposals withdraw" withdraws it',
  not_own_proposal: 'only its proposer withdraws it; "proposals decline" declines it',
  proposal_closed: 'it cannot be approved any more',
  proposal_outdated: 'the amount has changed since it was proposed; propose it again',
}

/** The refusal to approve, decline or withdraw a proposal. */
export const approvalRefusal = (refusal: ApprovalRefusal): CliRefusal => {
  const { code } = refusal
  if (code === 'unknown_proposal') return notFound(approvalRefusals[code])
  const status = code === 'proposal_closed' ? { status: refusal.status } : {}
  const statusText = code === 'proposal_closed' ? `: it is ${refusal.status}` : ''
  return new CliRefusal(code, `nothing moved: ${approvalRefusals[code]}${statusText}`, status)
}

const output = (accountId: AccountId, reference: string, answer: ManualMovementAnswer): CliOutput => {
  if (answer.outcome === 'proposed' || answer.outcome === 'not_proposed') throw approvalNeeded(answer)
  if (answer.outcome === 'refused') throw refusalOf(answer.refusal)
  const amountCents = microsToCentsFloor(answer.amountMicros)
  const { balanceCents } = answer
  return {
    json: { accountId, reference, amountCents, balanceCents, currency: 'USD' },
    text: `moved ${dollars(amountCents)}; ${accountId} has ${dollars(balanceCents)}`,
  }
}

export const credit = async (
  context: CliContext,
  { account, cents, kind, reference }: InputOf<typeof creditInput>,
) => {
  const credit = { accountId: account, amountCents: cents, reference, kind }
  return output(account, reference, await creditByHand(createWallets(context), credit, context))
}

export const adjust = async (
  context: CliContext,
  { account, cents, reference, reason, gateway }: InputOf<typeof adjustInput>,
) => {
  const adjustment = {
    accountId: account,
    amountCents: cents,
    reference,
    reason,
    gateway: gateway ?? null,
  }
  return output(account, reference, await createWallets(context).adjust(adjustment, context))
}

export const writeOff = async (
  context: CliContext,
  { account, reference }: Pick<InputOf<typeof adjustInput>, 'account' | 'reference'>,
) =>
  output(
    account,
    reference,
    await createWallets(context).writeOff({ accountId: account, reference }, context),
  )

export const setLowBalance = async (
  context: CliContext,
  { account, cents }: { readonly account: AccountId; readonly cents?: number },
): Promise<CliOutput> => {
  const thresholdCents = cents ?? null
  const set = await createAccounts(context).setLowBalance(account, thresholdCents, context)
  if (set.outcome === 'refused') throw notFound('no account has this id; "accounts create" makes one')
  return {
    json: { accountId: account, thresholdCents, currency: 'USD', changed: set.changed },
    text:
      thresholdCents === null
        ? `${account} is not notified of a low balance`
        : `${account} is notified when its balance falls below ${dollars(thresholdCents)}`,
  }
}
