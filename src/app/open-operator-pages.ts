import { hot, groups as verified } from '../../projections/groups.ts'
import { sealKeyOf } from '../audit/seals/seal-key.ts'
import { runVerification } from '../audit/verification-runs.ts'
import { serviceBook } from '../domain/ledger/postings.ts'
import { createProposals } from '../features/approvals/approval-service.ts'
import { createRebuildRuns } from '../features/console/projection-pages.ts'
import { createExitLogins } from '../features/exits/exit-logins.ts'
import { createExitService } from '../features/exits/exit-service.ts'
import { exportLedger } from '../features/exports/export-log.ts'
import { createExportRuns } from '../features/exports/export-runs.ts'
import { closingMicros, createJournalHead } from '../features/finance/journal-sums.ts'
import { createMoments } from '../features/finance/moment.ts'
import { createPeriods } from '../features/finance/period-service.ts'
import { createFinanceReader } from '../features/finance/reader.ts'
import { checkReplay } from '../features/finance/replay.ts'
import { refundOrder } from '../features/orders/refund-order.ts'
import { createMeter } from '../features/plans/meter-traffic.ts'
import { createStockLogins } from '../features/stock/stock-logins.ts'
import { createWallets } from '../features/wallet/wallet-service.ts'
import { retryWork } from '../features/webhooks/retry-work.ts'
import type { Core, Projecting } from '../platform/feature/core.ts'
import { rebuild } from '../platform/projections/rebuild.ts'
import { createVault } from '../platform/vault/seal.ts'
import type { CustomerDeps, FinanceDeps, OperatorDeps } from './console-pages.ts'
import { createFinanceWork } from './finance-work.ts'
import { enabledGroups } from './projections.ts'
import { queues } from './queues.ts'
import { effectiveSettings } from './settings-command.ts'

/** How long a list over all accounts waits for what happened a moment ago. */
const caughtUpMs = 1_000

export type OperatorPageParts = Pick<OperatorDeps, 'people' | 'findAccount'> & {
  readonly core: Core
  readonly customer: Omit<CustomerDeps, 'island'>
  readonly gateways: OperatorDeps['gateways']
  readonly callbackUrl: OperatorDeps['callbackUrl']
  readonly projecting: Pick<Projecting, 'progress' | 'lag' | 'health'>
}

/** What the rooms of staff read from and act through. */
export const openOperatorPages = ({
  core,
  customer,
  gateways,
  callbackUrl,
  projecting,
  people,
  findAccount,
}: OperatorPageParts): {
  readonly operator: Omit<OperatorDeps, 'island'>
  readonly finance: Omit<FinanceDeps, 'island'>
} => {
  const { pool, log, runner, clock, codec, backgroundScheduler } = core
  const meter = createMeter(core)
  const { progress } = projecting
  const headOfJournal = createJournalHead({ log, progress })
  const moments = createMoments({ pool, log, clock })
  const trail = {
    pool,
    log,
    moments,
    /** Things are found in the tables that customers read, what they booked in the journal: both have come so far. */
    journalHead: async () => {
      const head = await headOfJournal()
      await progress.reached(hot.name, head, caughtUpMs)
      return head
    },
  }
  // A fold of the whole log beside the work of this process gives way to it after each page that it reads.
  const givingWay = {
    ...log,
    readAll: async (...asked: Parameters<typeof log.readAll>) => {
      await backgroundScheduler.yieldToCommands()
      return log.readAll(...asked)
    },
  }
  const { decode } = codec
  const periods = createPeriods({ log: givingWay, runner, decode })
  const finance: Omit<FinanceDeps, 'island'> = {
    ...trail,
    clock,
    reader: createFinanceReader({ pool, log, moments }),
    exports: createExportRuns((sink, asked) => exportLedger({ log, decode, clock }, sink, asked)),
    periods,
    work: createFinanceWork({
      verify: async (asked) => {
        const { publicKey } = sealKeyOf(core.keys.seal)
        const logInPostgres = core.config.eventStoreUrl === null
        const deps = {
          pool,
          log: givingWay,
          groups: verified,
          logInPostgres,
          clock,
          master: core.keys.master,
        }
        return (await runVerification(deps, { ...asked, publicKey, exported: null })).run
      },
      replay: (until, head, onPage) => checkReplay(pool, { log: givingWay, decode, head, until, onPage }),
      close: periods.close,
      head: () => log.head(),
    }),
  }
  const groups = enabledGroups(core.config)
  const modelsOf = (group: string): readonly string[] =>
    groups.find(({ name }) => name === group)?.models.map(({ name }) => name) ?? []
  const rebuilds = createRebuildRuns(async (group, options) => {
    const context = { pool, log: givingWay, decode, groups }
    return (await rebuild(context, modelsOf(group), options))[0]
  })
  const operator: Omit<OperatorDeps, 'island'> = {
    ...trail,
    stockLogins: createStockLogins({ pool, master: core.keys.master }),
    gateways,
    callbackUrl,
    deposits: customer.deposits,
    origin: customer.origin,
    floats: async () => {
      const asked = { book: serviceBook, account: 'assets:gateway' }
      const { accounts } = await finance.reader.account({}, await headOfJournal(), asked)
      return new Map(accounts.map((sums) => [sums.account, closingMicros(sums)]))
    },
    rebuilds,
    modelsOf,
    db: customer.db,
    reads: customer.reads,
    accounts: customer.accounts,
    people,
    runner,
    wallets: createWallets(core),
    catalog: customer.catalog,
    findAccount,
    refund: (refund) => refundOrder({ log, runner, settleTraffic: meter.settle }, refund),
    proposals: createProposals({ log, runner, settleTraffic: meter.settle }),
    queues,
    retry: (queue, items, cause) => retryWork(core, queue, items, cause),
    projections: projecting,
    caughtUp: async () => {
      await projecting.progress.reached(hot.name, await log.head(), caughtUpMs)
    },
    clock,
    setExitState: createExitService({
      runner,
      logins: createExitLogins({ pool, vault: createVault(core.keys.master) }),
    }).setState,
    settings: () => effectiveSettings(process.env),
  }
  return { operator, finance }
}
