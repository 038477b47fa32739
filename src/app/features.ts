import { open as openAudit } from '../audit/feature.ts'
import { open as openAccounts } from '../features/accounts/feature.ts'
import { open as openCatalog } from '../features/catalog/feature.ts'
import { open as openDeposits } from '../features/deposits/feature.ts'
import { open as openExits } from '../features/exits/feature.ts'
import { open as openFinance } from '../features/finance/feature.ts'
import { open as openFreeList } from '../features/free-list/feature.ts'
import { open as openFreeTools } from '../features/free-tools/feature.ts'
import { open as openLines } from '../features/lines/feature.ts'
import { open as openNotices } from '../features/notices/feature.ts'
import { open as openOrders } from '../features/orders/feature.ts'
import { open as openPayments } from '../features/payments/feature.ts'
import { open as openPlans } from '../features/plans/feature.ts'
import { open as openProxies } from '../features/proxies/feature.ts'
import { openResellerAccess, open as openResellers } from '../features/resellers/feature.ts'
import { createLivePrices } from '../features/resellers/index.ts'
import { open as openScrapers } from '../features/scrapers/feature.ts'
import { open as openStock } from '../features/stock/feature.ts'
import { open as openSubscriptions } from '../features/subscriptions/feature.ts'
import { open as openWallet } from '../features/wallet/feature.ts'
import { open as openWebhooks } from '../features/webhooks/feature.ts'
import type { ServerCore } from '../platform/feature/core.ts'
import { withSandboxLocations } from '../sandbox/free-list/sandbox-locations.ts'
import { scrapersPath } from '../sandbox/scrapers/stand-in.ts'
import type { Config } from './config.ts'
import { version } from './version.ts'

/**
 * Opens every feature, in their order: each gets its own settings and services of those before it. The prices are the one
 * exception; resellers' terms are needed from the catalogue on.
 */
export const openFeatures = (
  core: ServerCore,
  config: Config,
  places: {
    /** Where the stand-ins answer; null where none run. */
    readonly sandboxUrl: string | null
    /** Where the world reaches this service. */
    readonly publicUrl: () => string
  },
) => {
  const { sandboxUrl, publicUrl } = places
  const { gateway } = config
  const limited = config.rates !== null
  const sandbox = config.payments.sandbox !== null
  const prices = createLivePrices(core, core.projecting)
  const resellerAccess = openResellerAccess(core)
  const { catalog } = prices
  const { termsOf } = prices.terms

  const accounts = openAccounts(core)
  const { customers } = accounts
  const catalogue = openCatalog(core, { catalog, termsOf })
  const market = { catalog, stock: catalogue.stock, termsOf }
  const stock = openStock(core)
  const payments = openPayments(core, {
    settings: config.payments,
    resellers: resellerAccess.gateways,
    sandboxUrl,
    publicUrl,
    onCallback: () => deposits.callbackStored(),
  })
  const wallet = openWallet(core)
  const finance = openFinance(core)
  const deposits = openDeposits(core, {
    ...payments,
    limited,
    firstPollMs: config.payments.depositPollMs,
    customers,
    wallets: wallet.wallets,
    publicUrl,
    returnUrlOfReseller: resellerAccess.returnUrlOf,
  })
  const orders = openOrders(core, { ...market, ...payments, ...deposits, customers })
  const sale = { ...market, orders: orders.orders, customers }
  const { credentials } = resellerAccess
  const resellers = openResellers(core, { customers, credentials, sandboxUrl })
  const plans = openPlans(core, { ...sale, gateway })
  const proxies = openProxies(core, { ...sale, gateway, sandbox, publicUrl })
  const subscriptions = openSubscriptions(core, { ...sale, market, meter: plans.meter, prices })
  const exits = openExits(core, { sandbox })
  const lines = openLines(core, { gateway, allowLoopback: config.gatewayAllowLoopback, catalog, exits })
  const scrapers = openScrapers(core, {
    settings: config.scrapers,
    callRate: config.rates && config.rates.scrapes,
    sandboxUrl: sandboxUrl && `${sandboxUrl}${scrapersPath}`,
  })
  const notices = openNotices(core)
  const webhooks = openWebhooks(core, { allowLoopback: config.webhookAllowLoopback, limited })
  const freeList = openFreeList(core, {
    settings: config,
    rate: limited ? config.freeTools.list : null,
    withSandbox: withSandboxLocations,
  })
  const freeTools = openFreeTools(core, {
    ...freeList,
    rates: limited ? config.freeTools : null,
    publicUrl,
    version,
    listLimit: freeList.limit,
  })
  const audit = openAudit(core, config)
  return {
    prices,
    accounts,
    catalogue,
    stock,
    payments,
    wallet,
    finance,
    deposits,
    orders,
    resellers,
    plans,
    proxies,
    subscriptions,
    exits,
    lines,
    scrapers,
    notices,
    webhooks,
    freeList,
    freeTools,
    audit,
  }
}

export type Features = ReturnType<typeof openFeatures>
