import type pg from 'pg'
import type { Logger } from 'pino'
import { createReadPurse } from '../../../projections/balances.ts'
import { accountRef } from '../../domain/accounts/fold.ts'
import type {
  AdjustmentReason,
  CreditKind,
  CustomerAdjustmentReason,
} from '../../domain/ledger/adjustment-reasons.ts'
import { approvalLimitsRef, type Proposal, proposalRef } from '../../domain/ledger/approvals.ts'
import {
  type ApprovalAnswer,
  type ApprovalRefusal,
  decideApproval,
  decideWithApproval,
  proposalIdOf,
} from '../../domain/ledger/decide-approval.ts'
import { decideManual, type ManualAnswer, manualStream } from '../../domain/ledger/decide-manual.ts'
import { decideReversal, type ReversalAnswer } from '../../domain/ledger/decide-reversal.ts'
import { customerPurse, type LedgerState, ledgerRef } from '../../domain/ledger/fold.ts'
import {
  type ManualMovement,
  type ManualMovementRecorded,
  manualFold,
} from '../../domain/ledger/manual-movements.ts'
import type { Purse } from '../../domain/ledger/movements.ts'
import type { ReversalReason } from '../../domain/payments/payments.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Appends, Refused, StreamRefs } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, type CustomerId, newId } from '../../kernel/ids.ts'
import { centsToMicros, microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { readState } from '../../platform/commands/command.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { handlerGraceMs, worklist, worklistRound } from '../../platform/work/worklist.ts'

/** The path of a proposal's page. */
export const proposalPath = (proposalId: string): string => `/console/operator/proposals/${proposalId}`

type OpenMovement = { movement_id: string; movement: ManualMovement; opened_at: string }

export const openMovements = worker({
  name: 'open-movements',
  about: 'Finishes manual movements of wallets that a crash left open',
  trigger: { everyMs: 5_000, quietMs: 20_000 },
  per: 'process',
  process: 'server',
})

/**
 * Finishes manual movements that a crash left recorded: the wallet moves, or a movement that the wallet cannot cover is
 * withdrawn. Several processes may run it; finishing a movement twice changes nothing.
 */
export const startMovementReactor = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly wallets: Wallets
  readonly clock: Clock
  readonly logger: Logger
  readonly intervalMs?: number
}): RunningWorker => {
  const { scheduler, pool, wallets, clock, logger } = dependencies
  const actor = { kind: 'system', name: 'open-movements' } as const
  const open = worklist<OpenMovement>({
    name: 'open-movements',
    read: 'select movement_id, movement, opened_at from read.open_movements where opened_at <= $1::timestamptz',
    values: () => [isoTime(clock() - handlerGraceMs)],
    key: { opened_at: 'timestamptz', movement_id: 'text' },
    limit: 100,
    work: async ({ movement_id: movementId, movement }) => {
      const answer = await wallets.resume(movement, { actor, correlationId: newId('run') })
      const outcome = answer.outcome === 'refused' ? answer.refusal.code : answer.outcome
      const fields = { movementId, accountId: movement.accountId as AccountId, outcome }
      if (outcome === 'unconfirmed')
        logger.error(fields, 'a movement by hand must be looked up by an operator')
      else logger.info(fields, 'an open movement by hand was finished')
    },
  })
  return scheduler.start(openMovements, worklistRound(pool, [open]), { everyMs: dependencies.intervalMs })
}

export type ManualCredit = {
  readonly accountId: AccountId
  /** Whole cents above 0. */
  readonly amountCents: number
  /** The purpose. A wallet is moved only once per reference, without a time limit. */
  readonly reference: string
}

export type ManualAdjustment = ManualCredit & {
  readonly reason: AdjustmentReason
  /** The gateway of a chargeback or a refund at the provider, else null. */
  readonly gateway: string | null
  /** The deposit of a returned payment; left out for an operator's adjustment. */
  readonly depositId?: string
}

export type ManualCustomerAdjustment = ManualCredit & {
  readonly customerId: CustomerId
  readonly reason: CustomerAdjustmentReason
  /** The reseller's gateway of a chargeback or a refund at the provider, else null. */
  readonly gateway: string | null
  /** As for a wallet. */
  readonly depositId?: string
}

/** A credit by hand of a kind. */
export type KindOfCredit = ManualCredit & { readonly kind: CreditKind }

/** A refund or a dispute at a provider. It is not manual, so it needs no approval. */
export type DepositReversal = Pick<ManualCredit, 'accountId'> & {
  /** Null: the account's own wallet. */
  readonly customerId: CustomerId | null
  readonly reason: ReversalReason
  readonly gateway: string
  readonly depositId: string
  /** What the deposit was credited. More is not taken. */
  readonly creditedMicros: number
  /** The hold that ends now; null: there is none. */
  readonly heldBy: string | null
  /** All movements so far, in signed micro-dollars. */
  readonly movements: readonly (Pick<ManualCredit, 'reference'> & { readonly amountMicros: number })[]
}

/** The result of a manual movement. Above the approval limit it is only proposed, and nothing moves. */
export type ManualMovementAnswer = ManualAnswer | ApprovalAnswer

/** Moves wallets and the credit of resellers' customers manually. */
export type Wallets = {
  /**
   * A payment that was received elsewhere. Refusals: `unknown_account`, `already_applied`, `invalid_amount` (above a
   * wallet's maximum), `unconfirmed`.
   */
  credit(credit: ManualCredit, cause: Cause): Promise<ManualMovementAnswer>
  /**
   * `amountCents` is signed. A chargeback blocks the account. Refusals: `unknown_account`, `already_applied`,
   * `insufficient_balance` (never for a chargeback or a refund at the provider), `invalid_amount`, `unconfirmed`.
   */
  adjust(adjustment: ManualAdjustment, cause: Cause): Promise<ManualMovementAnswer>
  /** Writes off what the account owes, to the micro-dollar. Refusals: as for `adjust`, and `not_owed`. */
  writeOff(debt: Pick<ManualCredit, 'accountId' | 'reference'>, cause: Cause): Promise<ManualMovementAnswer>
  /**
   * `amountCents` is signed, `accountId` the reseller's. Refusals: `unknown_account`, `not_a_reseller`,
   * `already_applied`, `insufficient_balance` (never for a chargeback or a refund at the provider), `invalid_amount`,
   * `unconfirmed`.
   */
  adjustCustomer(adjustment: ManualCustomerAdjustment, cause: Cause): Promise<ManualMovementAnswer>
  /**
   * Books what a provider took from the payment of a deposit, or returned. A missing amount becomes a debt. A chargeback
   * of a wallet blocks the account. `refused`: `unknown_account`, `not_a_reseller`, `invalid_amount`, `unconfirmed`.
   */
  reverse(reversal: DepositReversal, cause: Cause): Promise<ReversalAnswer>
  /** Executes a movement that another operator proposed. Refusals as for `adjust`, and `ApprovalRefusal`. */
  approve(
    proposal: NonNullable<Proposal>,
    movement: ManualMovement,
    cause: Cause,
  ): Promise<ManualAnswer | Refused<ApprovalRefusal>>
  /** Finishes a recorded movement that a crash interrupted. A finished one is not changed. */
  resume(movement: ManualMovement, cause: Cause): Promise<ManualAnswer>
  /** The credit and debt of each customer of the reseller, current in the log. */
  customerCredit(reseller: AccountId, cause: Cause): Promise<(customerId: string) => Purse>
  /** Available micro-dollars and open holds, current in the log. */
  read(
    accountId: AccountId,
    cause: Cause,
  ): Promise<{
    readonly availableMicros: number
    readonly heldMicros: number
    readonly receivableMicros: number
  }>
}

const movementNames = {
  credit: 'credit-wallet',
  adjustment: 'adjust-wallet',
  customer: 'adjust-customer',
} as const satisfies Record<ManualMovement['kind'], string>

/** The manual movement in a decision's events; null if there is none. */
export const movementIn = (appends: Appends): ManualMovement | null => {
  const recorded = appends
    .flatMap(({ events }) => events)
    .find(({ type }) => type === 'ManualMovementRecorded')
  return (recorded as ManualMovementRecorded | undefined)?.data ?? null
}

export const createWallets = ({ runner }: { readonly runner: CommandRunner }): Wallets => {
  const streamsOf = (movement: ManualMovement) => ({
    account: accountRef(movement.accountId as AccountId),
    movement: { stream: manualStream(movement), fold: manualFold },
    ledger: ledgerRef(movement.accountId as AccountId),
  })
  const commandOf = (movement: ManualMovement, { actor, correlationId }: Cause) => ({
    name: movementNames[movement.kind],
    actor,
    correlationId,
    account: movement.accountId as AccountId,
  })
  const requestMovement = async (movement: ManualMovement, cause: Cause): Promise<ManualMovementAnswer> => {
    const { answer } = await runner.run({
      ...commandOf(movement, cause),
      streams: {
        ...streamsOf(movement),
        fourEyes: approvalLimitsRef,
        proposal: proposalRef(proposalIdOf(movement)),
      },
      decide: (states, { nowMs }) =>
        decideWithApproval<ManualAnswer>(
          states,
          { actor: cause.actor, nowMs },
          decideManual(states, movement),
          movementIn,
        ),
    })
    return answer
  }
  const resumeMovement = async (movement: ManualMovement, cause: Cause): Promise<ManualAnswer> => {
    const { answer } = await runner.run({
      ...commandOf(movement, cause),
      streams: streamsOf(movement),
      decide: (states) => decideManual(states, movement),
    })
    return answer
  }
  const stateOf = (accountId: AccountId, cause: Cause): Promise<LedgerState> =>
    readState(runner, { ...cause, name: 'read-wallet' }, ledgerRef(accountId))
  return {
    credit: ({ accountId, amountCents, reference }, cause) =>
      requestMovement(
        { kind: 'credit', accountId, reference, amountMicros: centsToMicros(amountCents) },
        cause,
      ),
    adjust: ({ amountCents, ...adjustment }, cause) =>
      requestMovement({ kind: 'adjustment', ...adjustment, amountMicros: centsToMicros(amountCents) }, cause),
    writeOff: async (debt, cause) => {
      const { receivableMicros } = await stateOf(debt.accountId, cause)
      const reason = { reason: 'bad_debt', gateway: null } as const
      return requestMovement(
        { kind: 'adjustment', ...debt, ...reason, amountMicros: receivableMicros },
        cause,
      )
    },
    adjustCustomer: ({ amountCents, ...adjustment }, cause) =>
      requestMovement({ kind: 'customer', ...adjustment, amountMicros: centsToMicros(amountCents) }, cause),
    approve: async ({ proposalId }, movement, cause) => {
      const { answer } = await runner.run({
        ...commandOf(movement, cause),
        streams: { ...streamsOf(movement), proposal: proposalRef(proposalId) },
        decide: (states, { nowMs }) =>
          decideApproval<ManualAnswer>(
            states.proposal,
            { actor: cause.actor, nowMs },
            () => decideManual(states, movement),
            movementIn,
          ),
      })
      return answer
    },
    resume: resumeMovement,
    async reverse({ customerId, creditedMicros, heldBy, movements, ...reversal }, cause) {
      const requested = movements.map(
        (movement): ManualMovement =>
          customerId === null
            ? { kind: 'adjustment', ...reversal, ...movement }
            : { kind: 'customer', customerId, ...reversal, ...movement },
      )
      const guards = requested.map((movement) => ({ stream: manualStream(movement), fold: manualFold }))
      const { answer } = await runner.run({
        name: 'reverse-deposit',
        ...cause,
        account: reversal.accountId,
        streams: {
          ...Object.fromEntries(guards.entries()),
          account: accountRef(reversal.accountId),
          ledger: ledgerRef(reversal.accountId),
        } as StreamRefs,
        decide: ({ account, ledger, ...states }, { nowMs }) => {
          const guardStates = guards.map((_, index) => states[index])
          return decideReversal(
            { account, ledger, movements: guardStates },
            { ...reversal, creditedMicros, heldBy, movements: requested },
            nowMs,
          )
        },
      })
      return answer
    },
    customerCredit: async (reseller, cause) => {
      const ledger = await stateOf(reseller, cause)
      return (customerId) => customerPurse(ledger, customerId)
    },
    async read(accountId, cause) {
      const answer = await stateOf(accountId, cause)
      const { availableMicros, heldMicros, receivableMicros } = answer
      return { availableMicros, heldMicros, receivableMicros }
    },
  }
}

/** Credits a wallet by hand. A payment that was received elsewhere is money. A gift is an expense. */
export const creditByHand = (
  wallets: Pick<Wallets, 'credit' | 'adjust'>,
  { kind, ...credit }: KindOfCredit,
  cause: Cause,
): Promise<ManualMovementAnswer> =>
  kind === 'payment'
    ? wallets.credit(credit, cause)
    : wallets.adjust({ ...credit, reason: kind, gateway: null }, cause)

/** The spendable balance and the debt of an account, whole cents. */
export type WalletFigures = { readonly balanceCents: number; readonly owedCents: number }
/** Includes the account's own latest changes. */
export type ReadBalance = (account: AccountId) => Promise<WalletFigures>

export const createReadBalance = ({
  db,
  reads,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
}): ReadBalance => {
  const readPurse = createReadPurse(db)
  return async (account) => {
    await reads.settled(account)
    const { availableMicros, receivableMicros } = await readPurse(account)
    return {
      balanceCents: microsToCentsFloor(availableMicros),
      owedCents: microsToCentsCeil(receivableMicros),
    }
  }
}
