import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature, Running, StartWorker } from '../../platform/feature/feature.ts'
import type { Mailer } from '../../platform/outgoing/mailer.ts'
import type { Accounts, Contact, Customers } from '../accounts/index.ts'
import { createOrderable } from '../catalog/index.ts'
import type { JournalHead } from '../finance/index.ts'
import type { Gateways, Inbox } from '../payments/index.ts'
import type { Wallets } from '../wallet/index.ts'
import { createAutoTopups, startTopupReactor } from './auto-topup.ts'
import { depositAdminPages } from './deposit-admin-pages.ts'
import { depositPages, gatewayChangePages, topUpPages } from './deposit-pages.ts'
import { createDeposits, createOpeningLimits, type Deposits, noOpeningLimits } from './deposit-service.ts'
import { createDepositPages } from './deposit-urls.ts'
import { startDisputeMails } from './dispute-mails.ts'
import { startDisputeReactor } from './disputes.ts'
import { createOpenDepositByForm, type OpenDepositByForm } from './open-deposit.ts'
import { startDepositReactor } from './poll-invoices.ts'
import { startRefundReactor } from './refund-deposit.ts'
import { reversalPages } from './reversal-pages.ts'
import { reversalRoutes } from './reversal-routes.ts'
import { depositRoutes, paidPath, type ReturnUrls } from './routes.ts'
import { startCallbackReactor, takeCallback } from './take-callbacks.ts'
import { startTopupMails } from './topup-mails.ts'
import { topupPage } from './topup-page.ts'
import { topupRoutes } from './topup-routes.ts'
import { unmatchedPages } from './unmatched-pages.ts'

// For the list of workers (src/app/worker-list.ts).
export { topupWorker } from './auto-topup.ts'
export { disputeMailWorker } from './dispute-mails.ts'
export { disputeWorker } from './disputes.ts'
export { depositWorker } from './poll-invoices.ts'
export { refundWorker } from './refund-deposit.ts'
export { paidPageRoute } from './routes.ts'
export { callbackWorker, oldCallbacks } from './take-callbacks.ts'
export { topupMailWorker } from './topup-mails.ts'

type DepositsFeature = Feature & {
  readonly deposits: Deposits
  readonly openDeposit: OpenDepositByForm
  /** The return page of payers: the reseller's page for its customers, else the service's. */
  readonly returnUrlOf: (reseller: AccountId | null) => Promise<string>
  /** Starts the processing of the inbox. It needs no read table, so payments are credited from the start on. */
  takeCallbacks(...started: Parameters<StartWorker>): Running
}

export const open = (
  core: ServerCore,
  dependencies: {
    /** Whether the number of new invoices of an account is limited. */
    readonly limited: boolean
    /** The time from a deposit to its first poll, milliseconds. */
    readonly firstPollMs: number
    readonly accounts: Pick<Accounts, 'emailOf' | 'read'>
    /** Where customers get help; null: no address is set. */
    readonly contact: Contact
    /** Null: no mail is sent. */
    readonly mailer: Mailer | null
    /** The name of the service in its mails. */
    readonly name: string
    readonly customers: Customers
    readonly gateways: Gateways
    readonly ownGatewayIds: readonly string[]
    readonly inbox: Inbox
    readonly callbackUrl: (gatewayId: string) => string
    readonly wallets: Wallets
    readonly catalog: { current(): Pick<Catalog, 'products'> }
    readonly journalHead: JournalHead
    /** The public URL of the console. */
    readonly origin: () => string
    /** The public URL of this service. */
    readonly publicUrl: () => string
    readonly returnUrlOfReseller: ReturnUrls['ofReseller']
  },
): DepositsFeature => {
  const { scheduler, pool, db, log, clock, logger, hooks, reads, runner, monotonicMs, caughtUp } = core
  const { customers, gateways, inbox, callbackUrl, wallets, publicUrl, firstPollMs } = dependencies
  const returnUrls: ReturnUrls = {
    ofReseller: dependencies.returnUrlOfReseller,
    ofService: () => `${publicUrl()}${paidPath}`,
  }
  const pages = createDepositPages(core)
  const deposits = createDeposits({
    ...core,
    pages,
    gateways,
    openingLimits: dependencies.limited ? createOpeningLimits(monotonicMs) : noOpeningLimits,
    callbackUrl,
    orderable: createOrderable(runner),
  })
  const autoTopups = createAutoTopups({ runner, gateways, logger })
  const openDeposit = createOpenDepositByForm({ deposits, origin: dependencies.origin })
  return {
    deposits,
    openDeposit,
    returnUrlOf: async (reseller) =>
      (reseller && (await returnUrls.ofReseller(reseller))) ?? returnUrls.ofService(),
    takeCallbacks: ({ workers }) => {
      const callbacks = startCallbackReactor({
        scheduler,
        deposits,
        gateways,
        inbox,
        workers,
        wallets,
        runner,
        hooks,
        logger,
      })
      inbox.onStored(callbacks.wake)
      return callbacks
    },
    routes: [
      ...depositRoutes({ deposits, pages, customers, returnUrls, reads, db, clock }),
      ...topupRoutes({ autoTopups, clock, origin: dependencies.origin }),
      ...reversalRoutes({ db, log, progress: core.projecting.progress }),
    ],
    pages: [
      ...topUpPages({ gateways, openDeposit, db, reads }),
      topupPage({ autoTopups, wallets, clock, origin: dependencies.origin }),
      ...depositPages({
        db,
        pages,
        reads,
        log,
        catalog: dependencies.catalog,
        contact: dependencies.contact,
      }),
      ...depositAdminPages({ ...core, ...dependencies }),
      ...reversalPages({ db, pool, caughtUp }),
      ...gatewayChangePages({ db, caughtUp, runner }),
      ...unmatchedPages({ db, caughtUp, runner }),
    ],
    workers: [
      ({ workers }) => startDepositReactor({ workers, pool, deposits, clock, logger, firstPollMs }),
      ({ workers }) =>
        startDisputeReactor({
          ...{ workers, pool, gateways, inbox, clock, logger, firstPollMs },
          take: (change) => takeCallback({ gateways, deposits, wallets, runner, hooks, logger }, change),
        }),
      () => startRefundReactor({ scheduler, pool, gateways, deposits, wallets, runner, hooks, logger }),
      () => startTopupReactor({ ...core, ...dependencies, deposits }),
      ({ workers }) => startTopupMails({ ...core, ...dependencies, deposits, workers }),
      ({ workers }) => startDisputeMails({ ...core, ...dependencies, workers }),
    ],
  }
}
