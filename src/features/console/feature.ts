import type { LiveStock } from '../../domain/catalog/availability.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { Family } from '../../domain/shared/order-terms.ts'
import { type ServerCore, yieldingLog } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Probe } from '../../platform/http/health.ts'
import { readStoppedModels } from '../../platform/projections/checkpoint.ts'
import type { ReadModelGroup } from '../../platform/projections/read-model.ts'
import { rebuild } from '../../platform/projections/rebuild.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { Accounts, Contact, FindAccount } from '../accounts/index.ts'
import { createDepositPages, type OpenDepositByForm } from '../deposits/index.ts'
import type { LocationsByCountry } from '../exits/index.ts'
import type { LiveList } from '../free-list/index.ts'
import type { Gateways, OwnGateway } from '../payments/index.ts'
import type { People } from '../sign-in/index.ts'
import type { Wallets } from '../wallet/index.ts'
import { homePages } from './home-page.ts'
import { operatorAccountPages } from './operator-account-pages.ts'
import { overviewPages } from './overview-page.ts'
import { createOwnGateways, ownGatewayPages } from './payment-gateway-pages.ts'
import { createRebuildRuns, projectionPages } from './projection-pages.ts'
import { retryWork } from './retry-work.ts'
import { searchPages } from './search-page.ts'
import { type StaffReads, staffPages } from './staff-page.ts'
import { serviceParts, statusPages } from './status-page.ts'
import { type ListedSetting, queuePages, systemPages } from './system-pages.ts'

export type ConsoleNeeds = {
  /** The name of the service on its pages. */
  readonly name: string
  /** Where customers get help; null: no address is set. */
  readonly contact: Contact
  /** The probes of `/readyz`. */
  readonly probes: readonly Probe[]
  readonly groups: readonly ReadModelGroup[]
  readonly queues: readonly QueueTable[]
  /** Every setting, with masked secrets. */
  readonly settings: () => readonly ListedSetting[]
  readonly accounts: Accounts
  readonly findAccount: FindAccount
  readonly catalog: { current(): Catalog }
  readonly stock: LiveStock
  readonly wallets: Wallets
  readonly gateways: Gateways & { own(): readonly OwnGateway[] }
  readonly callbackUrl: (gatewayId: string) => string
  /** From the finance feature. */
  readonly floats: () => Promise<ReadonlyMap<string, bigint>>
  readonly financeSummary: StaffReads['financeSummary']
  readonly periods: StaffReads['periods']
  readonly lastVerification: StaffReads['lastVerification']
  readonly openDeposit: OpenDepositByForm
  readonly locations: (family: Family | null) => LocationsByCountry
  readonly list: LiveList
  /** The number of scrapers that have a serving provider now. */
  readonly liveScrapers: () => number
  readonly people: People
}

export const open = (core: ServerCore, needs: ConsoleNeeds): Feature => {
  const { pool, db, log, clock, reads, codec, projecting, caughtUp, probing } = core
  const { name, accounts, findAccount, catalog, stock, wallets, liveScrapers, people, queues } = needs
  const modelsOf = (group: string): readonly string[] =>
    needs.groups.find((each) => each.name === group)?.models.map((model) => model.name) ?? []
  const rebuilds = createRebuildRuns(async (group, options) => {
    const context = { pool, log: yieldingLog(core), decode: codec.decode, groups: needs.groups }
    return (await rebuild(context, modelsOf(group), options))[0]
  })
  core.closing.add(rebuilds.stop)
  const ownGateways = createOwnGateways({ gateways: needs.gateways, db, pool, floats: needs.floats })
  const parts = serviceParts({ pool: probing.pool, clock, ...needs })
  return {
    pages: [
      ...overviewPages({ db, pool, reads, catalog, contact: needs.contact }),
      ...homePages({ catalog, stock, liveScrapers, name }),
      ...staffPages({ db, pool, ownGateways, ...needs }),
      ...statusPages({ parts, clock }),
      ...searchPages({ db, pool, log, findAccount, caughtUp, catalog }),
      ...operatorAccountPages({ accounts, pool, caughtUp, db, reads, log, wallets, catalog }),
      ...ownGatewayPages({
        ownGateways,
        callbackUrl: needs.callbackUrl,
        db,
        depositPages: createDepositPages(core),
        reads,
        findAccount,
        openDeposit: needs.openDeposit,
      }),
      ...queuePages({
        pool,
        db,
        queues,
        people,
        retryWork: (queue, items, cause) => retryWork(core, queue, items, cause),
      }),
      ...projectionPages({
        projections: projecting,
        stoppedModels: () => readStoppedModels(pool),
        modelsOf,
        rebuilds,
      }),
      ...systemPages({ settings: needs.settings }),
    ],
  }
}
