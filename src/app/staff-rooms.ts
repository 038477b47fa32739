import { rebuild } from '../../projections/engine/rebuild.ts'
import { hot, groups as verified } from '../../projections/groups.ts'
import { sealKeyOf } from '../books/audit/seal-key.ts'
import { runVerification } from '../books/audit/verify-run.ts'
import { exportLedger } from '../books/exports/export.ts'
import { createJournalHead } from '../books/finance/journal-head.ts'
import { closingMicros } from '../books/finance/journal-sums.ts'
import { createMoments } from '../books/finance/moment.ts'
import { createFinanceReader } from '../books/finance/reader.ts'
import { checkReplay } from '../books/finance/replay-check.ts'
import { createPeriods } from '../books/periods/service.ts'
import type { CustomerDeps } from '../console/customer/deps.ts'
import type { FinanceDeps } from '../console/finance/deps.ts'
import { createExportRuns } from '../console/finance/export-runs.ts'
import { createFinanceWork } from '../console/finance/work.ts'
import type { OperatorDeps } from '../console/operator/deps.ts'
import { createRebuildRuns } from '../console/operator/rebuild-runs.ts'
import { createExitService } from '../gateway/exits/service.ts'
import { createExitLogins } from '../gateway/exits/vault.ts'
import { createProposals } from '../market/orders/proposals.ts'
import { refundOrder } from '../market/orders/refund-service.ts'
import { createMeter } from '../market/plans/metering.ts'
import { createStockLogins } from '../market/stock/logins.ts'
import { serviceBook } from '../money/ledger/postings.ts'
import { createWallets } from '../money/ledger/service.ts'
import { createVault } from '../platform/vault/seal.ts'
import type { Core } from './core.ts'
import { groupsOf } from './groups.ts'
import type { Projecting } from './projecting.ts'
import { queues } from './queues.ts'
import { retryWork } from './retry-work.ts'
import { settingsInForce } from './settings-command.ts'

/** How long a list over all accounts waits for what happened a moment ago. */
const caughtUpMs = 1_000

export type StaffParts = Pick<OperatorDeps, 'people' | 'findAccount'> & {
  readonly core: Core
  readonly customer: Omit<CustomerDeps, 'island'>
  readonly gateways: OperatorDeps['gateways']
  readonly callbackUrl: OperatorDeps['callbackUrl']
  readonly projecting: Pick<Projecting, 'progress' | 'lag' | 'health'>
}

/** What the rooms of staff read from and act through. */
export const openStaffRooms = ({
  core,
  customer,
  gateways,
  callbackUrl,
  projecting,
  people,
  findAccount,
}: StaffParts): {
  readonly operator: Omit<OperatorDeps, 'island'>
  readonly finance: Omit<FinanceDeps, 'island'>
} => {
  const { pool, log, runner, clock, codec, lulls } = core
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
      await lulls.giveWay()
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
  const groups = groupsOf(core.config)
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
    settings: () => settingsInForce(process.env),
  }
  return { operator, finance }
}
