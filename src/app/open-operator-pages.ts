import { hot, groups as verified } from '../../projections/groups.ts'
import { sealKeyOf } from '../audit/seals/seal-key.ts'
import { runVerification } from '../audit/verification-runs.ts'
import { serviceBook } from '../domain/ledger/postings.ts'
import { createProposals } from '../features/approvals/approval-service.ts'
import { createOwnGateways } from '../features/console/own-gateways.ts'
import { createRebuildRuns } from '../features/console/projection-pages.ts'
import type { RetryWork } from '../features/console/system-pages.ts'
import { createExitLogins } from '../features/exits/exit-logins.ts'
import { createExitService } from '../features/exits/exit-service.ts'
import { exportLedger } from '../features/exports/export-log.ts'
import { createExportRuns } from '../features/exports/export-runs.ts'
import { closingMicros, createJournalHead } from '../features/finance/journal-sums.ts'
import { createMoments } from '../features/finance/moment.ts'
import { createPeriods } from '../features/finance/period-service.ts'
import { createFinanceReader } from '../features/finance/reader.ts'
import { checkReplay } from '../features/finance/replay.ts'
import { createNotices } from '../features/notices/notice-service.ts'
import { type RefundOrder, refundOrder } from '../features/orders/refund-order.ts'
import { createMeter } from '../features/plans/meter-traffic.ts'
import { createStockLogins } from '../features/stock/stock-logins.ts'
import { createWallets } from '../features/wallet/wallet-service.ts'
import { retryWork } from '../features/webhooks/retry-work.ts'
import type { Core, Projecting } from '../platform/feature/core.ts'
import { rebuild } from '../platform/projections/rebuild.ts'
import { createVault } from '../platform/vault/seal.ts'
import { createFinanceWork } from './finance-work.ts'
import type { Payments } from './open-payments.ts'
import { enabledGroups } from './projections.ts'
import { queues } from './queues.ts'
import { effectiveSettings } from './settings-command.ts'

/** How long a list over all accounts waits for what happened a moment ago. */
const caughtUpMs = 1_000

/** What the pages of finance and of operators read from and act through, beside what customers' pages have. */
export const openOperatorPages = ({
  core,
  gateways,
  projecting,
}: {
  readonly core: Core
  /** The service's own gateways. */
  readonly gateways: Payments['gateways']
  readonly projecting: Pick<Projecting, 'progress' | 'lag' | 'health'>
}) => {
  const { pool, log, runner, clock, codec, backgroundScheduler } = core
  const meter = createMeter(core)
  const { progress } = projecting
  const headOfJournal = createJournalHead({ log, progress })
  const moments = createMoments({ pool, log, clock })
  /** Things are found in the tables that customers read, what they booked in the journal: both have come so far. */
  const journalHead = async () => {
    const head = await headOfJournal()
    await progress.reached(hot.name, head, caughtUpMs)
    return head
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
  const reader = createFinanceReader({ pool, log, moments })
  const work = createFinanceWork({
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
  })
  const groups = enabledGroups(core.config)
  const modelsOf = (group: string): readonly string[] =>
    groups.find(({ name }) => name === group)?.models.map(({ name }) => name) ?? []
  const rebuilds = createRebuildRuns(async (group, options) => {
    const context = { pool, log: givingWay, decode, groups }
    return (await rebuild(context, modelsOf(group), options))[0]
  })
  const ownGateways = createOwnGateways({
    gateways,
    pool,
    floats: async () => {
      const asked = { book: serviceBook, account: 'assets:gateway' }
      const { accounts } = await reader.account({}, await headOfJournal(), asked)
      return new Map(accounts.map((sums) => [sums.account, closingMicros(sums)]))
    },
  })
  const refund: RefundOrder = (asked) => refundOrder({ log, runner, settleTraffic: meter.settle }, asked)
  const retry: RetryWork = (queue, items, cause) => retryWork(core, queue, items, cause)
  const { stop, ...runs } = work
  return {
    services: {
      ...runs,
      moments,
      journalHead,
      reader,
      periods,
      exports: createExportRuns((sink, asked) => exportLedger({ log, decode, clock }, sink, asked)),
      stockLogins: createStockLogins({ pool, master: core.keys.master }),
      ownGateways,
      rebuilds,
      modelsOf,
      runner,
      wallets: createWallets(core),
      notices: createNotices(core),
      refundOrder: refund,
      proposals: createProposals({ log, runner, settleTraffic: meter.settle }),
      queues,
      retryWork: retry,
      projections: projecting,
      caughtUp: async () => {
        await projecting.progress.reached(hot.name, await log.head(), caughtUpMs)
      },
      setExitState: createExitService({
        runner,
        logins: createExitLogins({ pool, vault: createVault(core.keys.master) }),
      }).setState,
      settings: () => effectiveSettings(process.env),
    },
    stop: async (): Promise<void> => {
      await Promise.all([rebuilds.stop(), stop()])
    },
  }
}
