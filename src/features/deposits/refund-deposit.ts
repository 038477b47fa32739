import type pg from 'pg'
import type { Logger } from 'pino'
import {
  type DepositRefundAnswer,
  type DepositRefundRefusal,
  decideMissingHold,
  decideRefundMade,
  decideRefundRefusal,
  decideRefundRequest,
  depositRefundIdOf,
  proposedRefundIn,
} from '../../domain/deposits/decide-refund.ts'
import { approvalLimitsRef, type ProposedDepositRefund, proposalRef } from '../../domain/ledger/approvals.ts'
import {
  type ApprovalAnswer,
  type ApprovalRefusal,
  decideApproval,
  decideWithApproval,
  proposalIdOf,
} from '../../domain/ledger/decide-approval.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import type { Refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import { type DepositId, newId } from '../../kernel/ids.ts'
import { dollars } from '../../platform/cli/output.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { worklist, worklistRound } from '../../platform/work/worklist.ts'
import { GatewayUnavailable } from '../payments/index.ts'
import { depositRef, readDeposit } from './settle-deposit.ts'
import { type CallbackDependencies, takeCallback } from './take-callbacks.ts'

/** What refunds at the provider and disputes have taken of a deposit, micro-dollars; undefined: there is no such deposit. */
export const reversedOf = (db: Db, depositId: string) =>
  db
    .selectFrom('read.deposits')
    .select(['refundedMicros', 'chargedBackMicros'])
    .where('depositId', '=', depositId)
    .executeTakeFirst()

export const reversedMicros = ({
  refundedMicros,
  chargedBackMicros,
}: {
  readonly refundedMicros: number
  readonly chargedBackMicros: number
}): number => refundedMicros + chargedBackMicros

const toRefundAtStripe = 'refund it in the dashboard of Stripe; Farebox books that refund automatically'

/** Why a refund was refused, and what to do. */
export const refundRefusalText = (refusal: DepositRefundRefusal): string => {
  switch (refusal.code) {
    case 'unknown_deposit':
      return 'no deposit has this id; "deposits list" shows them'
    case 'not_paid':
      return 'nothing was paid for this deposit, so there is nothing to refund'
    case 'provider_cannot_refund':
      return `a payment by ${refusal.provider} cannot be refunded from here: send the money to the payer yourself, and take it from the wallet with "wallet adjust --reason deposit_refund --gateway ${refusal.provider}"`
    case 'gateway_of_reseller':
      return "the customer paid at the reseller's own gateway: the reseller refunds it there, and Farebox books that refund automatically"
    case 'gateway_not_configured':
      return `the payment was made at the gateway ${refusal.gatewayId}, which is not configured; configured: ${refusal.configured.join(', ') || 'none'}. Configure it, or refund the payment at the provider and take it from the wallet with "wallet adjust --reason deposit_refund"`
    case 'several_payments':
      return `this deposit was paid more than once: ${toRefundAtStripe}`
    case 'above_refundable':
      return `${dollars(refusal.leftCents)} of this deposit are left to refund`
    case 'insufficient_balance':
      return `the wallet has ${dollars(refusal.balanceCents)} and cannot give ${dollars(refusal.amountCents)}: refund orders to the wallet first, or refund less`
    case 'already_applied':
      return `this reason was used for a refund of ${dollars(refusal.amountCents)}, which was ${refusal.status}; nothing was requested now; use another reason for another refund`
    default:
      return refusal satisfies never
  }
}

type RefundDependencies = {
  readonly runner: CommandRunner
  readonly db: Db
  /** The ids of the service's gateways. */
  readonly ownGatewayIds: readonly string[]
}

export type DepositRefundInput = {
  readonly depositId: DepositId
  /** Whole cents above 0; null: all that is left. */
  readonly amountCents: number | null
  readonly reference: string
}

const unknownDeposit = { outcome: 'refused', refusal: { code: 'unknown_deposit' } } as const

/** The command of a refund, for its request and its approval. Null: there is no such deposit. */
const commandOf = async (
  { runner, db, ownGatewayIds }: RefundDependencies,
  input: DepositRefundInput,
  cause: Cause,
) => {
  const { depositId, amountCents, reference } = input
  // The table is read first, because a movement by hand has an id and a stream in the same form.
  const reversed = await reversedOf(db, depositId)
  const deposit = reversed === undefined ? null : await readDeposit(runner, depositId, cause)
  if (deposit === null || reversed === undefined) return null
  const { accountId } = deposit.details
  const refundId = depositRefundIdOf(depositId, reference)
  return {
    request: { refundId, amountCents, reference, reversedMicros: reversedMicros(reversed), ownGatewayIds },
    command: {
      name: 'refund-deposit',
      streams: {
        ...depositRef(depositId),
        ledger: ledgerRef(accountId),
        fourEyes: approvalLimitsRef,
        proposal: proposalRef(proposalIdOf({ kind: 'deposit_refund', refundId })),
      },
      ...cause,
      account: accountId,
    },
  }
}

/**
 * Requests a refund of a deposit to its payer. Above the approval limit it is only proposed. The server calls the
 * provider after the request is in the log.
 */
export const requestDepositRefund = async (
  dependencies: RefundDependencies,
  input: DepositRefundInput,
  cause: Cause,
): Promise<DepositRefundAnswer | ApprovalAnswer> => {
  const refund = await commandOf(dependencies, input, cause)
  if (refund === null) return unknownDeposit
  const { answer } = await dependencies.runner.run({
    ...refund.command,
    decide: (states, { nowMs }) =>
      decideWithApproval<DepositRefundAnswer>(
        states,
        { actor: cause.actor, nowMs },
        decideRefundRequest(states, refund.request),
        proposedRefundIn,
      ),
  })
  return answer
}

/** Requests a refund that another operator proposed. */
export const approveDepositRefund = async (
  dependencies: RefundDependencies,
  { depositId, amountCents, reference }: ProposedDepositRefund,
  cause: Cause,
): Promise<DepositRefundAnswer | Refused<ApprovalRefusal>> => {
  const input = { depositId: depositId as DepositId, amountCents, reference }
  const refund = await commandOf(dependencies, input, cause)
  if (refund === null) return unknownDeposit
  const { answer } = await dependencies.runner.run({
    ...refund.command,
    decide: (states, { nowMs }) =>
      decideApproval<DepositRefundAnswer>(
        states.proposal,
        { actor: cause.actor, nowMs },
        () => decideRefundRequest(states, refund.request),
        proposedRefundIn,
      ),
  })
  return answer
}

type SendDependencies = CallbackDependencies & { readonly runner: CommandRunner }

const actor = { kind: 'system', name: 'deposit-refunds' } as const

/**
 * Makes a requested refund at the provider and books it. It can be repeated after a crash at any point.
 *
 * The invariant: for each request in the log the provider makes at most one refund. The request is in the log before
 * the first call. The provider is called only if the payment has no refund with the id of the request, and every call
 * has this id as its idempotency key, so two processes make one refund. A provider that forgot the key has the refund
 * in its list by then.
 *
 * The refund is booked by the function that books refunds of the provider's dashboard, under the provider's id, so the
 * callback about it books nothing twice.
 * @throws GatewayUnavailable, CommandOverload
 */
export const makeDepositRefund = async (
  dependencies: SendDependencies,
  { depositId, refundId }: { readonly depositId: DepositId; readonly refundId: string },
): Promise<'made' | 'refused' | 'done before'> => {
  const { runner, gateways, hooks, logger } = dependencies
  const cause = { actor, correlationId: newId('run') }
  const deposit = await readDeposit(runner, depositId, cause)
  const request = deposit?.refunds.get(refundId)
  if (!deposit || request?.status !== 'requested') return 'done before'
  const { gatewayId, accountId } = deposit.details
  const [paymentId = ''] = deposit.payments.keys()
  const refunds = (await gateways.byId(gatewayId))?.gateway.refunds
  if (!refunds) throw new GatewayUnavailable(`gateway ${gatewayId} is gone, or cannot refund`)
  const { amountCents } = request
  const streams = { ...depositRef(depositId), ledger: ledgerRef(accountId) }
  const refuse = async (code: string): Promise<'refused'> => {
    await runner.run({
      name: 'refuse-deposit-refund',
      streams,
      decide: (states) => decideRefundRefusal(states, refundId, code),
      ...cause,
      account: accountId,
    })
    logger.error({ depositId, refundId, code }, 'a requested refund was not made')
    return 'refused'
  }
  const found = await refunds.find({ paymentId, refundId })
  if (found === null) {
    const { answer: refusal } = await runner.run({
      name: 'hold-deposit-refund',
      streams,
      decide: (states) => decideMissingHold(states, refundId),
      ...cause,
      account: accountId,
    })
    if (refusal !== null) return refuse(refusal)
  }
  const made = found ?? (await refunds.create({ paymentId, refundId, amountCents }))
  if ('refused' in made) return refuse(made.refused)
  hooks.at('refund-made')
  const booked = await takeCallback(dependencies, { gateway_id: gatewayId, reference: made.reference })
  await runner.run({
    name: 'record-deposit-refund',
    streams: depositRef(depositId),
    decide: ({ deposit }) => decideRefundMade(deposit, refundId, made),
    ...cause,
    account: accountId,
  })
  logger.info({ depositId, refundId, booked }, 'a refund was made')
  return 'made'
}

export const refundWorker = worker({
  name: 'deposit-refunds',
  about: 'Makes the requested refunds of deposits at their providers',
  trigger: { everyMs: 2_000, quietMs: 20_000 },
  per: 'process',
  process: 'server',
})

type OpenRefund = { deposit_id: DepositId; refund_id: string; requested_at: string }

/** Makes requested refunds. While a provider does not answer, they are tried again in each round. */
export const startRefundReactor = (
  dependencies: SendDependencies & {
    readonly scheduler: Scheduler
    readonly pool: pg.Pool
    readonly logger: Logger
    readonly intervalMs?: number
  },
): RunningWorker => {
  const { scheduler, pool, logger } = dependencies
  const open = worklist<OpenRefund>({
    name: 'open-deposit-refunds',
    read: 'select deposit_id, refund_id, requested_at from read.open_deposit_refunds',
    values: () => [],
    key: { requested_at: 'timestamptz', refund_id: 'text' },
    limit: 100,
    work: async ({ deposit_id: depositId, refund_id: refundId }) => {
      try {
        await makeDepositRefund(dependencies, { depositId, refundId })
      } catch (error) {
        if (!(error instanceof GatewayUnavailable)) throw error
        logger.warn({ err: error, depositId, refundId }, 'a payment gateway did not answer for a refund')
      }
    },
  })
  return scheduler.start(refundWorker, worklistRound(pool, [open]), { everyMs: dependencies.intervalMs })
}
