import { open as openAudit } from '../audit/feature.ts'
import { verificationsAfter } from '../audit/verification-runs.ts'
import { open as openAccounts } from '../features/accounts/feature.ts'
import { open as openApprovals } from '../features/approvals/feature.ts'
import { open as openCatalog } from '../features/catalog/feature.ts'
import { type ConsoleNeeds, open as openConsole } from '../features/console/feature.ts'
import { open as openDeposits } from '../features/deposits/feature.ts'
import { open as openExits } from '../features/exits/feature.ts'
import { open as openExports } from '../features/exports/feature.ts'
import { open as openFinance } from '../features/finance/feature.ts'
import { open as openFreeList } from '../features/free-list/feature.ts'
import { open as openFreeTools } from '../features/free-tools/feature.ts'
import { open as openLines } from '../features/lines/feature.ts'
import { open as openNotices } from '../features/notices/feature.ts'
import { open as openOrders } from '../features/orders/feature.ts'
import { open as openPayments } from '../features/payments/feature.ts'
import { open as openPlans } from '../features/plans/feature.ts'
import { open as openProxies } from '../features/proxies/feature.ts'
import { type LivePrices, openResellerAccess, open as openResellers } from '../features/resellers/feature.ts'
import { open as openScrapers } from '../features/scrapers/feature.ts'
import { open as openSignIn } from '../features/sign-in/feature.ts'
import { addressOfSender } from '../features/sign-in/settings.ts'
import { open as openStock } from '../features/stock/feature.ts'
import { open as openSubscriptions } from '../features/subscriptions/feature.ts'
import { open as openTrafficBudgets } from '../features/traffic-budgets/feature.ts'
import { open as openWallet } from '../features/wallet/feature.ts'
import { open as openWebhooks } from '../features/webhooks/feature.ts'
import type { ServerCore } from '../platform/feature/core.ts'
import { createMailer } from '../platform/outgoing/mailer.ts'
import { withSandboxLocations } from '../sandbox/exit-locations.ts'
import type { Config } from './config.ts'
import type { SandboxPlace } from './open-sandbox.ts'
import { queues } from './queues.ts'

/** What features receive from the program in addition to their settings. */
export type ProgramParts = {
  readonly sandbox: SandboxPlace
  /** The public address of this service. */
  readonly publicUrl: () => string
  /** The public address of the console. */
  readonly origin: () => string
  /** Of this program. */
  readonly version: string
  /** The readiness checks of the program itself. */
  readonly probes: (prices: LivePrices) => ConsoleNeeds['probes']
  /** The groups of read models that a server fills. */
  readonly groups: ConsoleNeeds['groups']
  readonly settings: ConsoleNeeds['settings']
}

const sandboxSender = 'Farebox <console@sandbox.example>'

/**
 * Opens all features in order. Each gets its settings and the services of earlier features. The exception are the
 * settings of resellers, which open first: catalogue, payments and deposits need them.
 */
export const openFeatures = (core: ServerCore, config: Config, program: ProgramParts) => {
  const { publicUrl, origin } = program
  const { gateway } = config
  const name = config.payments.merchantName
  const limited = config.rates !== null
  const sandbox = config.payments.sandbox !== null
  const sandboxUrl = program.sandbox.url
  const {
    prices,
    credentials,
    termsOfReseller,
    gateways: resellerGateways,
    returnUrlOf,
  } = openResellerAccess(core)
  const { catalog } = prices
  const { termsOf, refreshTerms } = prices.terms

  const accounts = openAccounts(core)
  const catalogue = openCatalog(core, { catalog, termsOf, refreshTerms })
  const stock = openStock(core, { catalog })
  const payments = openPayments(core, {
    settings: config.payments,
    resellers: resellerGateways,
    sandboxUrl,
    publicUrl,
  })
  const { smtpUrl } = program.sandbox
  const mail = config.console.mail ?? (smtpUrl === null ? null : { smtp: smtpUrl, from: sandboxSender })
  const mailer = mail && createMailer({ ...mail, logger: core.logger })
  if (mailer) core.closing.add(mailer.close)
  const contact = config.console.contact ?? (mail && addressOfSender(mail.from))
  const wallet = openWallet(core, { ...accounts, mailer, name, origin })
  const finance = openFinance(core, { catalog })
  const market = { catalog, stock: catalogue.stock, termsOf, refreshTerms }
  const shop = { ...accounts, ...catalogue, ...market, ...payments, ...wallet, ...finance }
  const deposits = openDeposits(core, {
    ...shop,
    mailer,
    name,
    contact,
    limited,
    firstPollMs: config.payments.depositPollMs,
    origin,
    publicUrl,
    returnUrlOfReseller: returnUrlOf,
  })
  const orders = openOrders(core, {
    ...shop,
    ...deposits,
    settleTraffic: (planId) => plans.meter.settle(planId),
  })
  const sale = { ...shop, ...deposits, ...orders }
  const resellers = openResellers(core, { ...sale, credentials, termsOfReseller, sandboxUrl })
  const plans = openPlans(core, { ...sale, gateway, recordDays: gateway.records.days })
  const proxies = openProxies(core, { ...sale, gateway, sandbox, publicUrl })
  const subscriptions = openSubscriptions(core, { ...orders, ...plans, market, prices })
  const exits = openExits(core, { sandbox })
  const scrapers = openScrapers(core, {
    settings: config.scrapers,
    callRate: config.rates?.scrapes ?? null,
    sandboxUrl: program.sandbox.scrapersUrl,
  })
  const notices = openNotices(core)
  const webhooks = openWebhooks(core, { allowLoopback: config.webhookAllowLoopback, limited })
  const freeList = openFreeList(core, {
    settings: config,
    rate: config.freeTools.list,
    limited,
    withSandbox: withSandboxLocations,
  })
  const lines = openLines(core, {
    ...plans,
    gateway,
    allowLoopback: config.gatewayAllowLoopback,
    tryUrl: freeList.sandbox ? 'http://whoami.sandbox/' : 'https://example.com/',
    catalog,
    exits,
  })
  const trafficBudgets = openTrafficBudgets(core, { ...accounts, ...plans, ...lines, mailer, name, origin })
  const freeTools = openFreeTools(core, {
    ...freeList,
    rates: config.freeTools,
    limited,
    publicUrl,
    version: program.version,
    listLimit: freeList.limit,
  })
  const signIn = openSignIn(core, {
    ...accounts,
    mailer,
    limited,
    name,
    origin,
  })
  const exports = openExports(core, finance)
  const approvals = openApprovals(core, { ...plans, ...payments })
  const audit = openAudit(core, config)
  const probes = [...program.probes(prices), ...audit.probes]
  const console = openConsole(core, {
    ...sale,
    ...exits,
    ...freeList,
    ...signIn,
    liveScrapers: scrapers.liveCount,
    name,
    contact,
    probes,
    groups: program.groups,
    queues,
    lastVerification: async () => (await verificationsAfter(core.pool, { after: null, limit: 1 }))[0],
    settings: program.settings,
  })
  const features = {
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
    trafficBudgets,
    scrapers,
    notices,
    webhooks,
    freeList,
    freeTools,
    signIn,
    exports,
    approvals,
    console,
    audit,
  }
  return { features, prices, probes }
}

export type OpenedFeatures = ReturnType<typeof openFeatures>
export type Features = OpenedFeatures['features']
