import { accountRef } from '../../domain/accounts/fold.ts'
import {
  bookingOf,
  decideBooking,
  decideResolution,
  decideUnmatched,
  isRead,
  type ResolutionAnswer,
  type UnmatchedMovement,
  unmatchedIdOf,
  unmatchedRef,
  unreadableItem,
} from '../../domain/deposits/unmatched-movements.ts'
import { approvalLimitsRef, type Proposal, proposalRef } from '../../domain/ledger/approvals.ts'
import {
  type ApprovalAnswer,
  type ApprovalRefusal,
  decideApproval,
  decideWithApproval,
  proposalIdOf,
} from '../../domain/ledger/decide-approval.ts'
import { manualStream } from '../../domain/ledger/decide-manual.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import { type ManualMovement, manualFold } from '../../domain/ledger/manual-movements.ts'
import type { Provider, Reversal } from '../../domain/payments/payments.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Refused, refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { amountIn } from '../../kernel/money.ts'
import { CliRefusal, notFound } from '../../platform/cli/output.ts'
import { type CommandRunner, readState } from '../../platform/commands/command.ts'
import { movementIn, refusalOf } from '../wallet/index.ts'
import { namedMovements } from './reversals.ts'

/** Reports the movements of a refund or a dispute without a known deposit as open items, each once. */
export const reportUnmatched = async (
  runner: CommandRunner,
  gateway: Provider,
  reversal: Reversal,
  cause: Cause,
): Promise<void> => {
  for (const { reference, currency, amountMicros, at: happenedAt } of namedMovements(gateway, reversal)) {
    if (amountMicros === 0) continue
    const named = { gateway, reference }
    const itemId = unmatchedIdOf(named)
    const { reason } = reversal
    await runner.run({
      name: 'report-unmatched-movement',
      streams: { item: unmatchedRef(itemId) },
      decide: ({ item }) =>
        decideUnmatched(item, { itemId, ...named, reason, currency, amountMicros, happenedAt }),
      ...cause,
    })
  }
}

/** Reports objects of a gateway of the service that cannot be read as open items, each once. */
export const reportUnreadable = async (
  runner: CommandRunner,
  gateway: Provider,
  ids: readonly string[],
  cause: Cause,
): Promise<void> => {
  for (const id of ids) {
    const item = unreadableItem(gateway, id)
    await runner.run({
      name: 'report-unreadable-object',
      streams: { item: unmatchedRef(item.itemId) },
      decide: (states) => decideUnmatched(states.item, item),
      ...cause,
    })
  }
}

/** The amount of an item, for people. */
export const itemAmount = ({
  amountMicros,
  currency,
}: Pick<UnmatchedMovement, 'amountMicros' | 'currency'>): string =>
  amountMicros === null || currency === null ? 'cannot be read' : amountIn(amountMicros, currency)

const bookingStreams = (itemId: string, movement: ManualMovement) => ({
  item: unmatchedRef(itemId),
  account: accountRef(movement.accountId as AccountId),
  movement: { stream: manualStream(movement), fold: manualFold },
  ledger: ledgerRef(movement.accountId as AccountId),
  proposal: proposalRef(proposalIdOf(movement)),
})

/**
 * Resolves an open item with a reason. With an account, its wallet moves in the same decision; above the approval limit
 * that is only proposed.
 */
export const resolveUnmatched = async (
  runner: CommandRunner,
  {
    itemId,
    accountId,
    note,
  }: { readonly itemId: string; readonly accountId: AccountId | null; readonly note: string },
  cause: Cause,
): Promise<ResolutionAnswer | ApprovalAnswer> => {
  const unknown = refused({ code: 'unknown_item' } as const)
  if (!/^umv_[0-9a-f]{32}$/.test(itemId)) return unknown
  if (accountId === null) {
    const { answer } = await runner.run({
      name: 'resolve-unmatched-movement',
      streams: { item: unmatchedRef(itemId) },
      decide: ({ item }, { nowMs }) => decideResolution(item, { note, resolvedAt: isoTime(nowMs) }),
      ...cause,
    })
    return answer
  }
  const item = await readState(runner, { ...cause, name: 'read-unmatched-movement' }, unmatchedRef(itemId))
  if (item === null) return unknown
  const { movement } = item
  if (!isRead(movement)) return refused({ code: 'unreadable' })
  const { answer } = await runner.run({
    name: 'book-unmatched-movement',
    streams: { ...bookingStreams(itemId, bookingOf(movement, accountId)), fourEyes: approvalLimitsRef },
    decide: (states, { nowMs }) =>
      decideWithApproval<ResolutionAnswer>(
        states,
        { actor: cause.actor, nowMs },
        decideBooking(states, { accountId, note, resolvedAt: isoTime(nowMs) }),
        movementIn,
      ),
    ...cause,
    account: accountId,
  })
  return answer
}

/**
 * Books an item by a proposal of another operator, and resolves it. Null: the proposed movement books no item.
 */
export const approveUnmatched = async (
  runner: CommandRunner,
  { proposalId }: NonNullable<Proposal>,
  movement: ManualMovement,
  cause: Cause,
): Promise<ResolutionAnswer | Refused<ApprovalRefusal> | null> => {
  if (movement.kind !== 'adjustment' || movement.gateway === null) return null
  const { gateway, reference, accountId } = movement
  const itemId = unmatchedIdOf({ gateway: gateway as Provider, reference })
  const item = await readState(runner, { ...cause, name: 'read-unmatched-movement' }, unmatchedRef(itemId))
  if (item === null) return null
  const { answer } = await runner.run({
    name: 'approve-unmatched-movement',
    streams: bookingStreams(itemId, movement),
    decide: (states, { nowMs }) =>
      decideApproval<ResolutionAnswer>(
        states.proposal,
        { actor: cause.actor, nowMs },
        () =>
          decideBooking(states, {
            accountId,
            note: `approved as ${proposalId}`,
            resolvedAt: isoTime(nowMs),
          }),
        movementIn,
      ),
    ...cause,
    account: accountId as AccountId,
  })
  return answer
}

/** The refusal to resolve an item. */
export const resolutionRefusal = (
  refusal: Extract<ResolutionAnswer, { readonly outcome: 'refused' }>['refusal'],
): CliRefusal => {
  switch (refusal.code) {
    case 'unknown_item':
      return notFound('no open item has this id; "deposits unmatched" shows them')
    case 'resolved_before':
      return new CliRefusal(
        refusal.code,
        refusal.accountId === null
          ? 'it was resolved before, without a booking'
          : `it was booked to ${refusal.accountId} before`,
        { accountId: refusal.accountId },
      )
    case 'other_currency':
      return new CliRefusal(
        refusal.code,
        `it moved ${refusal.currency}, and wallets are in dollars: adjust the wallet by the amount in dollars, then resolve the item without an account`,
        { currency: refusal.currency },
      )
    case 'unreadable':
      return new CliRefusal(
        refusal.code,
        'its amount cannot be read: look it up at the provider and adjust the wallet by it, then resolve the item without an account',
        {},
      )
    default:
      return refusalOf(refusal)
  }
}
