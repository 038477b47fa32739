import type { Logger } from 'pino'
import type { CrashHooks } from '../crash.ts'
import { CommandOverload } from '../eventstore/commands/command.ts'
import { type DepositId, newId } from '../ids.ts'
import type { Wallets } from '../ledger/service.ts'
import type { Inbox, InboxEntry } from '../payments/inbox.ts'
import {
  type DisputeReport,
  type Gateways,
  GatewayUnavailable,
  type InvoiceReport,
  type LiveGateway,
} from '../payments/port.ts'
import { type Poller, startPoller } from '../poller.ts'
import { bearDispute } from './disputes.ts'
import type { Deposits } from './service.ts'

type Deps = {
  readonly inbox: Inbox
  readonly gateways: Gateways
  readonly deposits: Deposits
  readonly wallets: Wallets
  readonly hooks: CrashHooks
  readonly logger: Logger
}

/** Callbacks that are worked on at once, and those of one gateway that are begun together. */
const atOnce = 64
const eachAtOnce = 8

const actor = { kind: 'system', name: 'payments' } as const

/** The deposit that the provider says the invoice is for, if it is one of this gateway. */
const ownDeposit = async ({ deposits }: Deps, live: LiveGateway, depositId: string | null) => {
  if (depositId === null) return null
  const cause = { actor, correlationId: newId('run') }
  const deposit = await deposits.read(depositId as DepositId, cause)
  return deposit?.details.gatewayId === live.gatewayId ? deposit : null
}

const takeInvoice = async (deps: Deps, live: LiveGateway, report: InvoiceReport): Promise<string> => {
  const deposit = await ownDeposit(deps, live, report.depositId)
  if (!deposit) return 'not a deposit of this gateway'
  if (report.currency !== 'usd') return `in ${report.currency}: nothing is credited`
  const { depositId } = deposit.details
  // A second invoice of one deposit (its first answer was lost) brings money and says nothing of the first one's state.
  const own = deposit.invoice === null || deposit.invoice.invoiceId === report.invoiceId
  const reported = own ? report : { status: 'open' as const, payments: report.payments }
  const after = await deps.deposits.receive(depositId, reported, { actor, correlationId: newId('run') })
  return after?.status ?? 'unknown'
}

const takeDispute = async (deps: Deps, live: LiveGateway, report: DisputeReport): Promise<string> => {
  const deposit = await ownDeposit(deps, live, report.depositId)
  if (!deposit || report.state === 'inquiry') return 'nothing moved'
  if (report.currency !== 'usd') return `in ${report.currency}: nothing moved`
  const cause = { actor, correlationId: newId('run') }
  const { depositId } = deposit.details
  // It may have overtaken the word of the payment that it takes back.
  const credited = deposit.creditedMicros > 0 ? deposit : await deps.deposits.settle(depositId, cause)
  const outcome = await bearDispute(deps.wallets, credited ?? deposit, report, cause)
  if (outcome !== report.state)
    deps.logger.error({ depositId, disputeId: report.disputeId, outcome }, 'a chargeback did not move')
  return outcome
}

const take = async (deps: Deps, entry: InboxEntry): Promise<string> => {
  const live = await deps.gateways.byId(entry.gatewayId)
  if (!live) throw new GatewayUnavailable(`gateway ${entry.gatewayId} is not to be had here`)
  const report = await live.gateway.fetch(entry.reference)
  deps.hooks.at('invoice-fetched')
  if (!report) return 'the provider knows nothing of it'
  return report.kind === 'invoice' ? takeInvoice(deps, live, report) : takeDispute(deps, live, report)
}

const defaultSweepMs = 3_600_000

/**
 * Works the inbox off: asks the provider what a callback is about and credits what it says. A provider or a log that is
 * down is asked again later; everything else is done with, and logged where money was named and none moved.
 */
export const startCallbackReactor = (
  deps: Deps & { readonly intervalMs?: number; readonly sweepMs?: number },
): Poller & { /** Something was stored: do not wait for the next round. */ wake(): void } => {
  const { inbox, logger } = deps
  const one = async (entry: InboxEntry): Promise<void> => {
    const { gatewayId, reference } = entry
    try {
      const outcome = await take(deps, entry)
      deps.hooks.at('payment-credited')
      await inbox.done(entry, outcome)
      logger.info({ gatewayId, reference, outcome }, 'a payment callback was taken')
    } catch (error) {
      if (!(error instanceof GatewayUnavailable || error instanceof CommandOverload))
        logger.error({ err: error, gatewayId, reference }, 'a payment callback failed and is tried again')
      await inbox.failed(entry, (error as Error).message.slice(0, 200))
    }
  }
  const underWay = new Set<Promise<void>>()
  const busy = new Map<string, number>()
  /** Something may be due that was not begun for want of room. */
  let more = false
  const begin = (entry: InboxEntry): void => {
    const { gatewayId, eventId } = entry
    busy.set(gatewayId, (busy.get(gatewayId) ?? 0) + 1)
    const done = one(entry)
      .catch((error) =>
        logger.error({ err: error, gatewayId, eventId }, 'a payment callback waits for its lease'),
      )
      .finally(() => {
        underWay.delete(done)
        const left = (busy.get(gatewayId) ?? 1) - 1
        if (left === 0) busy.delete(gatewayId)
        else busy.set(gatewayId, left)
        if (more) wake()
      })
    underWay.add(done)
  }
  /** Begins what is due and has room, and waits for none of it: what hangs ends by itself. */
  const work = async (): Promise<void> => {
    woken = false
    for (;;) {
      const total = atOnce - underWay.size
      const without = [...busy].filter(([, count]) => count >= eachAtOnce).map(([gatewayId]) => gatewayId)
      more = total <= 0 || without.length > 0
      if (total <= 0) return
      const entries = await inbox.claim({ total, each: eachAtOnce, without })
      if (entries.length === 0) return
      for (const entry of entries) begin(entry)
    }
  }
  const poller = startPoller({
    name: 'payment-callbacks',
    intervalMs: deps.intervalMs ?? 500,
    work,
    logger,
  })
  const sweeper = startPoller({
    name: 'old-payment-callbacks',
    intervalMs: deps.sweepMs ?? defaultSweepMs,
    work: inbox.sweep,
    logger,
  })
  let woken = false
  let stopped = false
  const wake = (): void => {
    if (woken || stopped) return
    woken = true
    void poller.runNow().catch(() => undefined) // logged by the poller, which comes back to it
  }
  return {
    ...poller,
    stop: async () => {
      stopped = true
      await Promise.all([poller.stop(), sweeper.stop()])
      await Promise.all(underWay)
    },
    wake,
  }
}
