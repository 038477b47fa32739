import type { Logger } from 'pino'
import type {
  ChangeReport,
  DisputeReport,
  GatewayChange,
  InvoiceReport,
} from '../../domain/payments/payments.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import { type DepositId, newId } from '../../kernel/ids.ts'
import { amountIn } from '../../kernel/money.ts'
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
} from '../payments/index.ts'
import type { Wallets } from '../wallet/index.ts'
import type { Deposits } from './deposit-service.ts'
import { applyDispute } from './disputes.ts'
import { inOtherCurrency } from './settle-deposit.ts'

type Dependencies = {
  readonly gateways: Gateways
  readonly deposits: Deposits
  readonly wallets: Wallets
  readonly hooks: CrashHooks
  readonly logger: Logger
}

const actor = { kind: 'system', name: 'payments' } as const

/** The deposit of the reported invoice; null if it is not one of this gateway. */
const ownDeposit = async ({ deposits }: Dependencies, liveGateway: LiveGateway, depositId: string | null) => {
  if (depositId === null) return null
  const cause = { actor, correlationId: newId('run') }
  const deposit = await deposits.read(depositId as DepositId, cause)
  return deposit?.details.gatewayId === liveGateway.gatewayId ? deposit : null
}

const takeInvoice = async (
  dependencies: Dependencies,
  liveGateway: LiveGateway,
  report: InvoiceReport,
): Promise<string> => {
  const deposit = await ownDeposit(dependencies, liveGateway, report.depositId)
  if (!deposit) return 'not a deposit of this gateway'
  if (report.currency !== 'usd') {
    await dependencies.deposits.report(deposit, inOtherCurrency(report), {
      actor,
      correlationId: newId('run'),
    })
    return `in ${report.currency}: nothing is credited`
  }
  const { depositId } = deposit.details
  // A second invoice of a deposit (its first answer was lost) brings payments, but not the state of the first one.
  const isOwnInvoice = deposit.invoice === null || deposit.invoice.invoiceId === report.invoiceId
  const reported = isOwnInvoice ? report : { ...report, status: 'open' as const }
  const after = await dependencies.deposits.receive(depositId, reported, {
    actor,
    correlationId: newId('run'),
  })
  return after?.status ?? 'unknown'
}

const takeDispute = async (
  dependencies: Dependencies,
  liveGateway: LiveGateway,
  report: DisputeReport,
): Promise<string> => {
  const deposit = await ownDeposit(dependencies, liveGateway, report.depositId)
  if (!deposit) return 'nothing moved'
  const cause = { actor, correlationId: newId('run') }
  const { depositId } = deposit.details
  const { disputeId: reference, state, currency, amountMicros, adjusted } = report
  const reportChange = (change: GatewayChange['change'], amount: string) =>
    dependencies.deposits.report(deposit, [{ change, reference, amount }], cause)
  if (adjusted !== undefined) await reportChange('dispute_adjusted', adjusted)
  if (state === 'inquiry') return 'nothing moved'
  const amount = amountIn(amountMicros, currency)
  if (currency !== 'usd') {
    await reportChange('other_currency', amount)
    return `in ${currency}: nothing moved`
  }
  // The dispute may arrive before the payment's own callback.
  const credited = deposit.creditedMicros > 0 ? deposit : await dependencies.deposits.settle(depositId, cause)
  const outcome = await applyDispute(dependencies.wallets, credited ?? deposit, report, cause)
  // The wallet returns its credited amount. The service or its reseller loses the rest.
  const { creditedMicros } = credited ?? deposit
  if (creditedMicros > 0 && amountMicros > creditedMicros) await reportChange('dispute_adjusted', amount)
  if (outcome !== state) {
    dependencies.logger.error({ depositId, disputeId: reference, outcome }, 'a chargeback did not move')
    await reportChange('chargeback_not_moved', amount)
  }
  return outcome
}

const takeChange = async (
  dependencies: Dependencies,
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
  dependencies: Dependencies,
  entry: Pick<InboxEntry, 'gateway_id' | 'reference'>,
): Promise<string> => {
  const liveGateway = await dependencies.gateways.byId(entry.gateway_id)
  if (!liveGateway) throw new GatewayUnavailable(`gateway ${entry.gateway_id} is not configured here`)
  const report = await liveGateway.gateway.fetch(entry.reference)
  dependencies.hooks.at('invoice-fetched')
  if (!report) return 'the provider knows nothing of it'
  switch (report.kind) {
    case 'invoice':
      return takeInvoice(dependencies, liveGateway, report)
    case 'dispute':
      return takeDispute(dependencies, liveGateway, report)
    case 'change':
      return takeChange(dependencies, liveGateway, report)
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
  dependencies: Dependencies & {
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
