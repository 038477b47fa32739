import { type Proposal, proposalRef } from '../../domain/ledger/approvals.ts'
import { movementProposalId } from '../../domain/ledger/decide-approval.ts'
import {
  type CustomerMovement,
  type ManualMovementEvent,
  type ManualState,
  manualFold,
} from '../../domain/ledger/manual-movements.ts'
import type { Fold } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { depositStream } from '../../kernel/streams.ts'
import { readStreamState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Customers } from '../accounts/index.ts'
import type { ManualMovementAnswer, Wallets } from '../wallet/index.ts'

type Movement = Omit<Parameters<Wallets['adjustCustomer']>[0], 'accountId'> & {
  /** The reseller's own id; null: the customer exists. */
  readonly ref: string | null
}

/** Moves the credit of a reseller's customer once per reference. The first movement creates the customer. */
export const moveCredit = async (
  {
    wallets,
    customers,
  }: {
    readonly wallets: Pick<Wallets, 'adjustCustomer'>
    readonly customers: Pick<Customers, 'ensure'>
  },
  accountId: AccountId,
  { ref, ...movement }: Movement,
  cause: Cause,
): Promise<ManualMovementAnswer> => {
  const answer = await wallets.adjustCustomer({ accountId, ...movement }, cause)
  // If an earlier movement stopped in between, this one stores the relation.
  const isRefused = answer.outcome === 'refused' && answer.refusal.code !== 'already_applied'
  if (ref !== null && !isRefused) await customers.ensure(accountId, ref)
  return answer
}

/** The states of a movement: `recorded` becomes `applied` within seconds, `withdrawn` if the credit is too low. */
export const movementStates = ['applied', 'recorded', 'proposed', 'declined', 'withdrawn', 'expired'] as const

/** The movement of a customer's credit with its state. */
type MovementReport = {
  readonly movement: CustomerMovement
  readonly status: (typeof movementStates)[number]
  readonly proposalId: string | null
  readonly decision: NonNullable<Proposal>['closing']
}

/** Streams of payments have the same names as streams of movements. Their events are not read. */
const movementFold: Fold<ManualState, ManualMovementEvent> = {
  ...manualFold,
  evolve: (state, event) =>
    event.type.startsWith('ManualMovement') ? manualFold.evolve(state, event) : state,
}

const statusOf = (recorded: ManualState, proposal: Proposal, nowMs: number): MovementReport['status'] => {
  const isProposedAgain = recorded?.status === 'withdrawn' && proposal?.status === 'open'
  if (recorded !== null && !isProposedAgain) return recorded.status
  if (proposal === null || proposal.status === 'approved') return 'recorded'
  if (proposal.status !== 'open') return proposal.status
  return proposal.expiresAtMs <= nowMs ? 'expired' : 'proposed'
}

/** The movement of a customer of this reseller with this id. Null: there is none. */
export const readMovement = async (
  log: EventLog,
  reseller: AccountId,
  movementId: string,
  nowMs: number,
): Promise<MovementReport | null> => {
  const proposalId = movementProposalId(reseller, movementId)
  const [{ state: recorded }, { state: proposal }] = await Promise.all([
    readStreamState(log, { stream: depositStream(movementId), fold: movementFold }),
    readStreamState(log, proposalRef(proposalId)),
  ])
  const movement = recorded?.movement ?? proposal?.what
  if (movement?.kind !== 'customer' || movement.accountId !== reseller) return null
  return {
    movement,
    status: statusOf(recorded, proposal, nowMs),
    proposalId: proposal?.proposalId ?? null,
    decision: proposal?.closing ?? null,
  }
}
