import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { Terms } from '../../domain/resellers/fold.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { LogStates } from '../../platform/commands/log-states.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createVault } from '../../platform/vault/seal.ts'
import { type Customers, createChatSigner } from '../accounts/index.ts'
import type { OpenDepositByForm } from '../deposits/index.ts'
import type { Gateways, ResellerGateways } from '../payments/index.ts'
import type { Wallets } from '../wallet/index.ts'
import { createBots, startMessageWorker } from './customer-messages.ts'
import { customerMoneyPage, customerMoneyRoutes } from './customer-money.ts'
import { resellerCustomerPages } from './customer-pages.ts'
import { resellerCustomerRoutes } from './customer-routes.ts'
import {
  createResellerCredentials,
  createResellerGateways,
  createTermsOf,
  type ResellerCredentials,
} from './gateway-credentials.ts'
import { createLivePrices, type LivePrices } from './live-prices.ts'
import { pricePages } from './price-pages.ts'
import { resellerFinanceRoutes } from './reseller-finance-routes.ts'
import { gatewayPages } from './reseller-gateway-pages.ts'
import { marginPages, statementPage } from './sales-pages.ts'
import { shopPages, termsPages } from './shop-pages.ts'
import { createResellers } from './terms.ts'
import { resellerTermsRoutes } from './terms-routes.ts'
import { createTestInvoices } from './test-invoices.ts'

// For the list of workers (src/app/worker-list.ts).
export { messageWorker } from './customer-messages.ts'

export type { LivePrices }

/** What earlier features need of resellers. */
export const openResellerAccess = ({
  pool,
  log,
  keys,
  logger,
  projecting,
}: ServerCore): {
  readonly termsOfReseller: LogStates<Terms>
  /** The catalogue and the terms of resellers, in memory. */
  readonly prices: LivePrices
  readonly credentials: ResellerCredentials
  readonly gateways: ResellerGateways
  /** The return URL after a payment of a reseller's invoice; null: the reseller has none. */
  readonly returnUrlOf: (reseller: AccountId) => Promise<string | null>
} => {
  const credentials = createResellerCredentials({ pool, vault: createVault(keys.master) })
  const termsOfReseller = createTermsOf(log)
  return {
    termsOfReseller,
    prices: createLivePrices({ pool, log, logger }, projecting, termsOfReseller),
    credentials,
    gateways: createResellerGateways({ termsOf: termsOfReseller, credentials }),
    returnUrlOf: async (reseller) => {
      const { website, storefrontLink } = (await termsOfReseller(reseller)).state.shop
      return website ?? storefrontLink
    },
  }
}

export const open = (
  core: ServerCore,
  needs: {
    readonly customers: Customers
    readonly credentials: ResellerCredentials
    readonly termsOfReseller: LogStates<Terms>
    readonly catalog: { current(): Catalog }
    readonly gateways: Gateways
    readonly callbackUrl: (gatewayId: string) => string
    readonly openDeposit: OpenDepositByForm
    readonly wallets: Wallets
    /** Address of the sandbox; null if none runs. */
    readonly sandboxUrl: string | null
  },
): Feature => {
  const { pool, db, log, clock, runner, reads, bookReads } = core
  const {
    customers,
    credentials,
    termsOfReseller,
    sandboxUrl,
    catalog,
    gateways,
    callbackUrl,
    openDeposit,
    wallets,
  } = needs
  const chats = createChatSigner(core.keys.master)
  const resellers = createResellers({ runner, credentials })
  const testInvoices = createTestInvoices({ db, reads, customers, openDeposit })
  const bots = createBots({ termsOf: termsOfReseller, credentials, sandboxUrl })
  core.closing.add(bots.close)
  return {
    routes: [
      ...resellerCustomerRoutes({ reads, db, pool, customers, chats }),
      ...resellerFinanceRoutes({ pool, reads: bookReads }),
      ...resellerTermsRoutes({ resellers }),
      ...customerMoneyRoutes({ wallets, customers, log, clock }),
    ],
    pages: [
      ...marginPages({ pool, bookReads, catalog }),
      ...resellerCustomerPages({ pool, db, reads, chats, catalog }),
      customerMoneyPage({ wallets, customers, pool }),
      statementPage({ pool, bookReads, catalog, customers }),
      ...gatewayPages({
        resellers,
        reads,
        gateways,
        testInvoices,
        callbackUrl,
        sandboxed: sandboxUrl !== null,
      }),
      ...shopPages({ resellers }),
      ...termsPages({ termsOf: termsOfReseller, reads, catalog }),
      ...pricePages({ resellers, catalog }),
    ],
    workers: [({ workers }) => startMessageWorker({ workers, pool, chats, log, botOf: bots.of, clock })],
  }
}
