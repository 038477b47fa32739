import type { Logger } from 'pino'
import { reportedOf } from '../../domain/deposits/decide.ts'
import { decideRefundCancellation } from '../../domain/deposits/decide-refund.ts'
import type { Deposit } from '../../domain/deposits/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import type {
  ChangeReport,
  GatewayChange,
  InvoiceReport,
  Reversal,
  ReversalReport,
} from '../../domain/payments/payments.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import type { Cause } from '../../kernel/event.ts'
import { type DepositId, newId } from '../../kernel/ids.ts'
import { amountIn } from '../../kernel/money.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { exponentialBackoff, type Outcome } from '../../platform/work/standard-queue.ts'
import { worker } from '../../platform/work/worker.ts'
import {
  type Gateways,
  GatewayUnavailable,
  type Inbox,
  type InboxEntry,
  inboxQueue,
  type LiveGateway,
  UnreadableAnswer,
} from '../payments/index.ts'
import { bookStatementLine, type Wallets } from '../wallet/index.ts'
import { saveCard } from './auto-topup.ts'
import type { Deposits } from './deposit-service.ts'
import { bookReversal } from './reversals.ts'
import { depositRef } from './settle-deposit.ts'
import { reportUnmatched, reportUnreadable } from './unmatched-movements.ts'

export type CallbackDependencies = {
  readonly gateways: Pick<Gateways, 'byId'>
  readonly deposits: Pick<Deposits, 'read' | 'report' | 'settle' | 'receive'>
  readonly wallets: Pick<Wallets, 'reverse'>
  readonly runner: CommandRunner
  readonly hooks: CrashHooks
  readonly logger: Logger
}

const actor = { kind: 'system', name: 'payments' } as const

/** The deposit of the reported invoice; null if it is not one of this gateway. */
const ownDeposit = async (
  { deposits }: CallbackDependencies,
  liveGateway: LiveGateway,
  depositId: string | null,
) => {
  if (depositId === null) return null
  const cause = { actor, correlationId: newId('run') }
  const deposit = await deposits.read(depositId as DepositId, cause)
  return deposit?.details.gatewayId === liveGateway.gatewayId ? deposit : null
}

const takeInvoice = async (
  dependencies: CallbackDependencies,
  liveGateway: LiveGateway,
  report: InvoiceReport,
): Promise<string> => {
  const deposit = await ownDeposit(dependencies, liveGateway, report.depositId)
  if (!deposit) return 'not a deposit of this gateway'
  const { depositId } = deposit.details
  // A second invoice of a deposit (its first answer was lost) brings payments, but not the state of the first one.
  const isOwnInvoice = deposit.invoice === null || deposit.invoice.invoiceId === report.invoiceId
  const invoice = reportedOf(report)
  const reported = isOwnInvoice ? invoice : { ...invoice, status: 'open' as const, isOther: true }
  const after = await dependencies.deposits.receive(depositId, reported, {
    actor,
    correlationId: newId('run'),
  })
  return after?.status ?? 'unknown'
}

/** Books the fees of a refund or a dispute at a gateway of the service. The books of resellers have no fees of their gateways. */
const bookFees = async (
  { runner }: CallbackDependencies,
  { details: { customerId, provider } }: Deposit,
  { reason, movements }: Reversal,
  cause: Cause,
): Promise<void> => {
  if (customerId !== null) return
  for (const { transactionId, feeMicros, at } of movements)
    if (feeMicros !== 0)
      await bookStatementLine(
        runner,
        {
          gateway: provider,
          reference: transactionId,
          category: reason,
          feeMicros,
          payoutMicros: 0,
          happenedAt: at,
          file: null,
          proposalId: null,
        },
        cause,
      )
}

const takeReversal = async (
  dependencies: CallbackDependencies,
  deposit: Deposit,
  reversal: Reversal,
  cause: Cause,
): Promise<string> => {
  const { deposits, wallets, runner, logger } = dependencies
  const { movements, reversalId: reference, request } = reversal
  const [first] = movements
  if (first === undefined) {
    if (!request?.isOver) return 'nothing moved'
    const { depositId, accountId } = deposit.details
    await runner.run({
      name: 'cancel-deposit-refund',
      streams: { ...depositRef(depositId), ledger: ledgerRef(accountId) },
      decide: (states) => decideRefundCancellation(states, request.refundId, reference),
      ...cause,
      account: accountId,
    })
    return 'nothing moved'
  }
  const amount = amountIn(
    movements.reduce((sum, { amountMicros }) => sum + amountMicros, 0),
    first.currency,
  )
  const reportChange = (change: GatewayChange['change'], changeAmount: string) =>
    deposits.report(deposit, [{ change, reference, amount: changeAmount }], cause)
  if (movements.some(({ currency }) => currency !== 'usd')) {
    await reportChange('other_currency', amount)
    await bookReversal(wallets, deposit, { ...reversal, movements: [] }, cause)
    return `in ${first.currency}: nothing moved`
  }
  await bookFees(dependencies, deposit, reversal, cause)
  const booked = await bookReversal(wallets, deposit, reversal, cause)
  if (booked.uncoveredMicros !== 0)
    await reportChange('above_credit', amountIn(booked.uncoveredMicros, 'usd'))
  if (booked.refused === null) return 'booked'
  logger.error(
    { depositId: deposit.details.depositId, reference, refused: booked.refused },
    'a refund or a dispute was not booked',
  )
  await reportChange(reversal.reason === 'chargeback' ? 'chargeback_not_moved' : 'refunded', amount)
  return `refused: ${booked.refused}`
}

const takeReversals = async (
  dependencies: CallbackDependencies,
  liveGateway: LiveGateway,
  report: ReversalReport,
): Promise<string> => {
  const deposit = await ownDeposit(dependencies, liveGateway, report.depositId)
  const cause = { actor, correlationId: newId('run') }
  if (!deposit) {
    // What a reseller's own gateway moves outside of Farebox is not in the books of the service.
    if (liveGateway.owner !== null) return 'not a deposit of this gateway'
    for (const reversal of report.reversals)
      await reportUnmatched(dependencies.runner, liveGateway.provider, reversal, cause)
    return 'no deposit is known: an operator must resolve it'
  }
  // A refund or a dispute may arrive before the payment's own callback.
  const credited =
    deposit.creditedMicros > 0
      ? deposit
      : ((await dependencies.deposits.settle(deposit.details.depositId, cause)) ?? deposit)
  const outcomes = new Set<string>()
  for (const reversal of report.reversals)
    outcomes.add(await takeReversal(dependencies, credited, reversal, cause))
  return [...outcomes].join(', ') || 'nothing moved'
}

const takeChange = async (
  dependencies: CallbackDependencies,
  liveGateway: LiveGateway,
  report: ChangeReport,
): Promise<string> => {
  const deposit = await ownDeposit(dependencies, liveGateway, report.depositId)
  if (!deposit) return 'not a deposit of this gateway'
  const { change, reference, amount } = report
  const cause = { actor, correlationId: newId('run') }
  await dependencies.deposits.report(deposit, [{ change, reference, amount }], cause)
  return change
}

/**
 * Asks the provider about a callback and applies the answer. Returns the outcome, for the inbox.
 * @throws GatewayUnavailable, CommandOverload
 */
export const takeCallback = async (
  dependencies: CallbackDependencies,
  entry: Pick<InboxEntry, 'gateway_id' | 'reference'>,
): Promise<string> => {
  const liveGateway = await dependencies.gateways.byId(entry.gateway_id)
  if (!liveGateway) throw new GatewayUnavailable(`gateway ${entry.gateway_id} is not configured here`)
  const { gateway, owner, provider } = liveGateway
  const reportItems = (ids: readonly string[]) =>
    reportUnreadable(dependencies.runner, provider, ids, { actor, correlationId: newId('run') })
  let report: Awaited<ReturnType<typeof gateway.fetch>>
  try {
    report = await gateway.fetch(entry.reference)
  } catch (error) {
    // The server of a reseller is not trusted: it could fill the log with items.
    if (!(error instanceof UnreadableAnswer) || owner !== null) throw error
    await reportItems([entry.reference])
    return 'it cannot be read: an operator must resolve it'
  }
  dependencies.hooks.at('invoice-fetched')
  if (!report) return 'the provider knows nothing of it'
  if ('unreadable' in report && report.unreadable && owner === null) await reportItems(report.unreadable)
  switch (report.kind) {
    case 'invoice':
      return takeInvoice(dependencies, liveGateway, report)
    case 'reversals':
      return takeReversals(dependencies, liveGateway, report)
    case 'change':
      return takeChange(dependencies, liveGateway, report)
    case 'setup':
      return saveCard(dependencies, liveGateway, report)
    default:
      return report satisfies never
  }
}

export const callbackWorker = worker({
  name: inboxQueue.name,
  about: 'Reads the payments that callbacks report from their gateway, and credits them',
  trigger: { everyMs: 500, quietMs: 60_000, or: 'a callback arrives' },
  per: 'process',
  process: 'server',
})

export const oldCallbacks = worker({
  name: 'old-payment-callbacks',
  about: 'Deletes payment callbacks that were processed a month ago',
  trigger: { everyMs: 3_600_000 },
  per: 'process',
  process: 'server',
})

/**
 * Processes the inbox: asks the provider about each callback and credits the reported payments. If a provider or the
 * log is down, the callback is retried without limit. Every other callback is finished, and logged if it named money
 * and nothing moved.
 */
export const startCallbackReactor = (
  dependencies: CallbackDependencies & {
    readonly scheduler: Scheduler
    readonly workers: Workers
    readonly inbox: Inbox
    readonly pollMs?: number
    readonly sweepMs?: number
  },
): Pick<RunningQueue, 'wake' | 'stop'> => {
  const { inbox, logger } = dependencies
  const processEntry = async (entry: InboxEntry): Promise<Outcome> => {
    const { gateway_id: gatewayId, reference } = entry
    try {
      const result = await takeCallback(dependencies, entry)
      dependencies.hooks.at('payment-credited')
      logger.info({ gatewayId, reference, outcome: result }, 'a payment callback was taken')
      return { kind: 'done', result }
    } catch (error) {
      if (error instanceof GatewayUnavailable) return { kind: 'again', why: error.message }
      throw error
    }
  }
  const queue = dependencies.workers.start<InboxEntry>({
    worker: callbackWorker,
    queue: inboxQueue,
    atOnce: { total: 64, each: 8 },
    longestMs: 60_000,
    schedule: exponentialBackoff(1_000, 300_000),
    pollMs: dependencies.pollMs,
    work: processEntry,
  })
  const sweeper = dependencies.scheduler.start(oldCallbacks, inbox.sweep, { everyMs: dependencies.sweepMs })
  return {
    wake: queue.wake,
    stop: async () => {
      await Promise.all([queue.stop(), sweeper.stop()])
    },
  }
}
