import type { Kysely } from 'kysely'
import type pg from 'pg'
import type { ReadDatabase } from '../../projections/database.ts'
import type {
  DepositPagesDatabase,
  LabelDatabase,
  ReadMarkDatabase,
  TrafficDatabase,
} from '../../projections/other-tables.ts'
import { sealPages } from '../audit/seal-pages.ts'
import { verificationPages } from '../audit/verification-pages.ts'
import type { LiveStock } from '../domain/catalog/availability.ts'
import type { Catalog } from '../domain/catalog/catalog.ts'
import type { TermsOf } from '../domain/catalog/pricing.ts'
import type { Family } from '../domain/shared/order-terms.ts'
import type { Accounts } from '../features/accounts/account-service.ts'
import type { Customers } from '../features/accounts/customer-service.ts'
import { keyPages } from '../features/accounts/key-pages.ts'
import { proposalPages } from '../features/approvals/approval-pages.ts'
import type { Proposals } from '../features/approvals/approval-service.ts'
import { operatorCataloguePages } from '../features/catalog/catalogue-import-pages.ts'
import { pricePages } from '../features/catalog/price-pages.ts'
import { type HomeDeps, homePages } from '../features/console/home-page.ts'
import { accountPages } from '../features/console/operator-account-pages.ts'
import { overviewPages } from '../features/console/overview-page.ts'
import { gatewayPages as paymentGatewayPages } from '../features/console/payment-gateway-pages.ts'
import { projectionPages, type RebuildRuns } from '../features/console/projection-pages.ts'
import { searchPages } from '../features/console/search-page.ts'
import { type StatusDeps, statusPages } from '../features/console/status-page.ts'
import { queuePages, systemPages } from '../features/console/system-pages.ts'
import { topUpPages } from '../features/deposits/deposit-pages.ts'
import type { Deposits } from '../features/deposits/deposit-service.ts'
import { exitPages } from '../features/exits/exit-pages.ts'
import type { ExitService } from '../features/exits/exit-service.ts'
import type { LocationsByCountry } from '../features/exits/locations.ts'
import { exportPages } from '../features/exports/export-pages.ts'
import type { ExportRuns } from '../features/exports/export-runs.ts'
import { balancePages } from '../features/finance/pages/balance-pages.ts'
import { bookAccountPages } from '../features/finance/pages/book-account-pages.ts'
import { closePeriodPages } from '../features/finance/pages/close-period-pages.ts'
import { moneyPages } from '../features/finance/pages/money-pages.ts'
import { periodPages } from '../features/finance/pages/period-pages.ts'
import { replayPages } from '../features/finance/pages/replay-pages.ts'
import type { createPeriods } from '../features/finance/period-service.ts'
import type { FinanceReader } from '../features/finance/reader.ts'
import { type TrailDeps, trailPages } from '../features/finance/trail-pages.ts'
import { freeProxyPages } from '../features/free-list/free-proxy-pages.ts'
import type { LiveList } from '../features/free-list/live-list.ts'
import type { CheckProxies } from '../features/free-tools/check-proxies.ts'
import type { LookUp } from '../features/free-tools/ip-lookup.ts'
import { ipLookupPages } from '../features/free-tools/ip-lookup-page.ts'
import { networkPages } from '../features/free-tools/network-pages.ts'
import { proxyCheckerPages } from '../features/free-tools/proxy-checker-page.ts'
import type { Networks } from '../features/free-tools/rank-networks.ts'
import { linePages } from '../features/lines/line-pages.ts'
import type { LineService } from '../features/lines/line-service.ts'
import type { AddToWhitelist, Whitelist } from '../features/lines/whitelist.ts'
import { whitelistPages } from '../features/lines/whitelist-pages.ts'
import { operatorNoticePages } from '../features/notices/notice-admin-pages.ts'
import { noticePages } from '../features/notices/notice-pages.ts'
import { cataloguePages } from '../features/orders/catalogue-pages.ts'
import { orderPages as orderAdminPages } from '../features/orders/order-admin-pages.ts'
import { orderPages } from '../features/orders/order-pages.ts'
import type { OrderService } from '../features/orders/place-order.ts'
import type { RefundOutcome, refundOrder } from '../features/orders/refund-order.ts'
import type { OwnGateway } from '../features/payments/gateways.ts'
import type { Gateways } from '../features/payments/payment-port.ts'
import { onePlanPages, planListPages } from '../features/plans/plan-pages.ts'
import type { Gateway } from '../features/plans/plan-record.ts'
import { planTopUpPages } from '../features/plans/plan-top-up-pages.ts'
import { type AddressPagesDeps, addressPages } from '../features/proxies/proxy-pages.ts'
import { resellerCustomerPages } from '../features/resellers/customer-pages.ts'
import { marginPages } from '../features/resellers/margin-pages.ts'
import { gatewayPages } from '../features/resellers/reseller-gateway-pages.ts'
import { shopPages, termsPages } from '../features/resellers/shop-pages.ts'
import { statementPages } from '../features/resellers/statement-pages.ts'
import type { Resellers } from '../features/resellers/terms.ts'
import { type ScraperPagesDeps, scraperPages } from '../features/scrapers/scraper-pages.ts'
import { confirmPages } from '../features/sign-in/confirm-pages.ts'
import { passkeyPages } from '../features/sign-in/passkey-pages.ts'
import type { People } from '../features/sign-in/people.ts'
import { sessionPages, timePages } from '../features/sign-in/session-pages.ts'
import type { SignInDeps } from '../features/sign-in/sign-in.ts'
import { signInPages } from '../features/sign-in/sign-in-pages.ts'
import { type StaffDeps, staffPages } from '../features/sign-in/staff-pages.ts'
import type { StockLogins } from '../features/stock/stock-logins.ts'
import { stockingPages, stockPages } from '../features/stock/stock-pages.ts'
import {
  type SubscriptionPagesDeps,
  subscriptionPages,
} from '../features/subscriptions/subscription-pages.ts'
import { transactionPages } from '../features/wallet/transaction-pages.ts'
import type { Wallets } from '../features/wallet/wallet-service.ts'
import { type WebhookPagesDeps, webhookPages } from '../features/webhooks/webhook-pages.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Cause } from '../kernel/event.ts'
import type { AccountId } from '../kernel/ids.ts'
import type { CommandRunner } from '../platform/commands/command.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import type { RouteLimit } from '../platform/http/route.ts'
import type { GroupHealth, GroupLag } from '../platform/projections/projection-runner.ts'
import type { Reads } from '../platform/projections/read-your-writes.ts'
import type { Assets } from '../platform/ui/assets.ts'
import type { ConsolePage } from '../platform/ui/page.ts'
import type { QueueTable } from '../platform/work/queue-table.ts'
import type { FinanceWork } from './finance-work.ts'

/** The pages of an account, in the order of their navigation. */
export const customerPages = (deps: CustomerDeps): readonly ConsolePage[] => [
  ...overviewPages(deps),
  ...cataloguePages(deps),
  ...orderPages(deps),
  ...topUpPages(deps),
  ...transactionPages(deps),
  ...keyPages(deps),
  ...noticePages(deps),
]

/** The pages of finance, in the order of the navigation. They change nothing but that they close months. */
export const financePages = (deps: FinanceDeps): readonly ConsolePage[] => [
  ...moneyPages(deps),
  ...balancePages(deps),
  ...bookAccountPages(deps),
  ...periodPages(deps),
  ...closePeriodPages(deps),
  ...exportPages(deps),
  ...verificationPages(deps),
  ...replayPages(deps),
  ...sealPages(deps),
]

/** The pages of operators, in the order of the navigation. */
export const operatorPages = (deps: OperatorDeps): readonly ConsolePage[] => [
  ...searchPages(deps),
  ...accountPages(deps),
  ...orderAdminPages(deps),
  ...proposalPages(deps),
  ...operatorCataloguePages(deps),
  ...stockPages(deps),
  ...stockingPages(deps),
  ...exitPages(deps),
  ...paymentGatewayPages(deps),
  ...operatorNoticePages(deps),
  ...queuePages(deps),
  ...projectionPages(deps),
  ...systemPages(deps),
]

/** Plans: what is left of each, its lines, its whitelist, its usage and its top-up. */
export const planPages = (deps: PlanPagesDeps): readonly ConsolePage[] => [
  ...planListPages(deps),
  ...onePlanPages(deps),
  ...linePages(deps),
  ...whitelistPages(deps),
  ...planTopUpPages(deps),
]

/** What the pages for everybody read from: the free tools and the catalogue, as the API has them. */
export type OpenPagesDeps = HomeDeps & {
  readonly status: StatusDeps
  readonly catalog: { current(): Catalog }
  readonly stock: LiveStock
  readonly list: LiveList
  readonly networks: Networks
  /** What answers of the tools lack for want of data; null: nothing. */
  readonly note: string | null
  readonly lookUp: LookUp
  readonly lookupLimit: RouteLimit | null
  readonly checkProxies: CheckProxies
  readonly checksScript: string
}

/** The pages that everybody may see, signed in or not, and that search engines may list. */
export const openPages = (deps: OpenPagesDeps): readonly ConsolePage[] => [
  ...homePages(deps),
  ...pricePages(deps),
  ...freeProxyPages(deps),
  ...networkPages(deps),
  ...proxyCheckerPages(deps),
  ...ipLookupPages({ lookUp: deps.lookUp, limit: deps.lookupLimit }),
  ...statusPages(deps.status),
]

/** What a reseller reconciles by: margins, customers, the statement, their terms. */
export const resellerPages = (deps: ResellerPagesDeps): readonly ConsolePage[] => [
  ...marginPages(deps),
  ...resellerCustomerPages(deps),
  ...statementPages(deps),
  ...gatewayPages(deps),
  ...shopPages(deps),
  ...termsPages(deps),
]

/** What the rooms of pages need. */
export type PagesDeps = {
  readonly customer: CustomerDeps
  readonly plans: Omit<PlanPagesDeps, keyof CustomerDeps>
  readonly reseller: Omit<ResellerPagesDeps, keyof CustomerDeps>
  readonly addresses: AddressPagesDeps
  readonly subscriptions: SubscriptionPagesDeps
  readonly scrapers: ScraperPagesDeps
  readonly webhooks: WebhookPagesDeps
  readonly open: OpenPagesDeps
  readonly staff: StaffDeps
  readonly operator: OperatorDeps
  readonly finance: FinanceDeps
  readonly signIn: SignInDeps
}

/** Every page of the console, in the order of its navigation. A new room of pages gets a line. */
export const consolePages = (deps: PagesDeps): readonly ConsolePage[] => [
  ...customerPages(deps.customer),
  ...planPages({ ...deps.customer, ...deps.plans }),
  ...addressPages(deps.addresses),
  ...subscriptionPages(deps.subscriptions),
  ...scraperPages(deps.scrapers),
  ...webhookPages(deps.webhooks),
  ...resellerPages({ ...deps.customer, ...deps.reseller }),
  ...staffPages(deps.staff),
  ...openPages(deps.open),
  ...trailPages(deps.operator),
  ...financePages(deps.finance),
  ...operatorPages(deps.operator),
  ...sessionPages(deps.signIn),
  ...passkeyPages(deps.signIn),
  ...confirmPages(deps.signIn),
  ...signInPages(deps.signIn),
  ...timePages,
]

/** What the pages of customers read from: the queries and services of the API. */
export type CustomerDeps = {
  readonly pool: pg.Pool
  readonly db: Kysely<
    ReadDatabase & LabelDatabase & ReadMarkDatabase & TrafficDatabase & DepositPagesDatabase
  >
  readonly reads: Pick<Reads, 'settled' | 'settledHere'>
  readonly log: Pick<EventLog, 'readStream'>
  readonly accounts: Accounts
  readonly catalog: { current(): Catalog }
  readonly stock: LiveStock
  readonly termsOf: TermsOf
  readonly customers: Customers
  readonly orders: OrderService
  readonly deposits: Pick<Deposits, 'open'>
  readonly gateways: Pick<Gateways, 'liveRails' | 'forRail'>
  /** Where people reach the console. */
  readonly origin: () => string
  /** The path of an island. */
  readonly island: Assets['island']
}

/** What the pages of finance read from, and what they have done: the queries of the finance API, the services of the commands. */
export type FinanceDeps = TrailDeps & {
  readonly clock: Clock
  readonly reader: FinanceReader
  readonly exports: ExportRuns
  readonly periods: Pick<ReturnType<typeof createPeriods>, 'list'>
  readonly work: FinanceWork
  readonly island: CustomerDeps['island']
}

/** A setting as it is listed: secrets are masked. */
export type ListedSetting = {
  readonly name: string
  readonly help: string
  readonly value: string | null
  readonly source: string
  readonly problem: string | null
}

/** What the pages of operators read from and act through: the queries and services of the command line. */
export type OperatorDeps = TrailDeps &
  Pick<CustomerDeps, 'db' | 'reads' | 'accounts' | 'island' | 'deposits' | 'origin'> & {
    readonly people: Pick<People, 'workRetryAsked'>
    readonly runner: CommandRunner
    readonly wallets: Wallets
    readonly catalog: { current(): Catalog }
    /** By id or e-mail; null when nobody has it. */
    readonly findAccount: (idOrEmail: string) => Promise<AccountId | null>
    readonly refund: (refund: Parameters<typeof refundOrder>[1]) => Promise<RefundOutcome | null>
    readonly proposals: Proposals
    readonly queues: readonly QueueTable[]
    /** Has what a queue gave up tried again; null: all of it. Gives how many. */
    readonly retry: (queue: QueueTable, items: readonly string[] | null, cause: Cause) => Promise<number>
    readonly clock: Clock
    readonly setExitState: ExitService['setState']
    readonly projections: {
      lag(): Promise<readonly GroupLag[]>
      health(): readonly GroupHealth[]
    }
    /** The service's own gateways. */
    readonly gateways: Pick<Gateways, 'forRail'> & { own(): readonly OwnGateway[] }
    readonly callbackUrl: (gatewayId: string) => string
    /** What came in at each gateway less what went back, in micro-dollars, by the name of its account. */
    readonly floats: () => Promise<ReadonlyMap<string, bigint>>
    readonly stockLogins: Pick<StockLogins, 'store' | 'drop'>
    readonly rebuilds: RebuildRuns
    /** The read models of a group, by name. */
    readonly modelsOf: (group: string) => readonly string[]
    /** Resolves once the read tables hold all that is in the log now, or the bound has passed. */
    readonly caughtUp: () => Promise<void>
    readonly settings: () => readonly ListedSetting[]
  }

/** What the pages of plans read from and act through: what the operations of the API do. */
export type PlanPagesDeps = CustomerDeps & {
  /** Where clients connect to. */
  readonly gateway: Gateway
  readonly lines: LineService
  readonly whitelist: Pick<Whitelist, 'list' | 'remove'>
  readonly addToWhitelist: AddToWhitelist
  /** Where lines can go out now. */
  readonly locations: (family: Family | null) => LocationsByCountry
  /** What a line is tried with: a page that says where a request comes from, or any other. */
  readonly tryUrl: string
  /** Resolves once the exits are known as they are now, or were a moment ago. */
  readonly exitsRecent: () => Promise<void>
}

/** What the pages of resellers read from, and act through: the queries and services of the API and the commands. */
export type ResellerPagesDeps = CustomerDeps & {
  /** Of the books, which margins and statements are read from. */
  readonly bookReads: Pick<Reads, 'settled'>
  readonly resellers: Pick<Resellers, 'change' | 'setGateway' | 'read'>
  /** Where callbacks of a gateway are taken. */
  readonly callbackUrl: (reference: string) => string
  /** Whether this installation runs stand-ins of the providers. */
  readonly sandboxed: boolean
}
