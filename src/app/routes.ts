import type { FastifyInstance } from 'fastify'
import { Registry } from 'prom-client'
import type { ReadDatabase } from '../../projections/database.ts'
import { books, hot } from '../../projections/groups.ts'
import type {
  DepositPagesDatabase,
  LabelDatabase,
  ReadMarkDatabase,
  RenewalDatabase,
  TrafficDatabase,
} from '../../projections/other-tables.ts'
import { createLiveStock } from '../../projections/stock.ts'
import { sealTargetProbes } from '../audit/open.ts'
import { auditRoutes } from '../audit/routes.ts'
import { scrapers } from '../domain/scrapers/scraper-table.ts'
import { createAccounts } from '../features/accounts/account-service.ts'
import { createDirectory } from '../features/accounts/authenticate.ts'
import { createCustomers } from '../features/accounts/customer-service.ts'
import { startKeyUses } from '../features/accounts/key-uses.ts'
import { accountRoutes } from '../features/accounts/routes.ts'
import { catalogRoutes } from '../features/catalog/routes.ts'
import { createSharedStock } from '../features/catalog/views.ts'
import { depositRoutes, paidPageRoute, paidPath, type ReturnUrls } from '../features/deposits/routes.ts'
import { createExitHealth } from '../features/exits/exit-health.ts'
import { createExitLogins } from '../features/exits/exit-logins.ts'
import { createLiveExits } from '../features/exits/live-exits.ts'
import { geoRoutes } from '../features/exits/location-routes.ts'
import { createLocations, createRecentExits } from '../features/exits/locations.ts'
import { financeRoutes } from '../features/finance/routes.ts'
import { createFinanceDirectory } from '../features/finance/token-service.ts'
import { isSandboxed, type OneOffChecks } from '../features/free-list/open-checking.ts'
import { createLineService } from '../features/lines/line-service.ts'
import { createLineSets } from '../features/lines/line-sets.ts'
import { lineRoutes } from '../features/lines/routes.ts'
import { createAddToWhitelist, createWhitelist } from '../features/lines/whitelist.ts'
import { whitelistRoutes } from '../features/lines/whitelist-routes.ts'
import { noticeRoutes } from '../features/notices/routes.ts'
import { createCompletion } from '../features/orders/complete-orders.ts'
import { createCustomerInvoices } from '../features/orders/customer-invoices.ts'
import { createOrderService } from '../features/orders/place-order.ts'
import { orderRoutes } from '../features/orders/routes.ts'
import { callbackRoutes } from '../features/payments/callbacks.ts'
import { createMeter } from '../features/plans/meter-traffic.ts'
import { planUsageRoutes } from '../features/plans/plan-usage-routes.ts'
import { planRoutes } from '../features/plans/routes.ts'
import { proxyCheckRoutes, proxyReplaceRoutes, proxyRotateRoutes } from '../features/proxies/action-routes.ts'
import { createProxyChecks } from '../features/proxies/check-proxy.ts'
import { createRentalExtension } from '../features/proxies/extend-rentals.ts'
import { createReplaceAddress } from '../features/proxies/replace-address.ts'
import { proxyRoutes } from '../features/proxies/routes.ts'
import { resellerCustomerRoutes } from '../features/resellers/customer-routes.ts'
import { createResellerCredentials, readTerms } from '../features/resellers/gateway-credentials.ts'
import type { LivePrices } from '../features/resellers/live-prices.ts'
import { resellerFinanceRoutes } from '../features/resellers/reseller-finance-routes.ts'
import { createResellers } from '../features/resellers/terms.ts'
import { scrapeBatchRoutes } from '../features/scrapers/batch-routes.ts'
import { operationRoutes, scrapeRoutes } from '../features/scrapers/call-routes.ts'
import type { Scrapers } from '../features/scrapers/open.ts'
import { scraperListRoutes } from '../features/scrapers/routes.ts'
import { scrapeFinanceRoutes } from '../features/scrapers/scrape-finance-routes.ts'
import { scrapeUsageRoutes } from '../features/scrapers/scrape-usage-routes.ts'
import { subscriptionRoutes } from '../features/subscriptions/routes.ts'
import { createSubscriptions } from '../features/subscriptions/subscription-service.ts'
import { walletRoutes } from '../features/wallet/routes.ts'
import { webhookDeclarations } from '../features/webhooks/declarations.ts'
import { createWebhooks } from '../features/webhooks/endpoint-service.ts'
import { webhookRoutes } from '../features/webhooks/routes.ts'
import { createWebhookService } from '../features/webhooks/webhook-service.ts'
import { createWebhookValues } from '../features/webhooks/webhook-vault.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { AccountId } from '../kernel/ids.ts'
import { documentationRoutes } from '../platform/api-docs/routes.ts'
import type { Core, Projecting } from '../platform/feature/core.ts'
import { localOperatorAccess, operatorTokenAccess } from '../platform/http/auth.ts'
import { healthRoutes } from '../platform/http/health.ts'
import { createHttpMetrics } from '../platform/http/http-metrics.ts'
import { createRateLimiter } from '../platform/http/rate-limit.ts'
import type { Route } from '../platform/http/route.ts'
import { createHttpServer } from '../platform/http/server.ts'
import { checkTarget, createResolve, type TargetRules } from '../platform/outgoing/target.ts'
import { createKysely } from '../platform/postgres/kysely.ts'
import { createReads, type Reads } from '../platform/projections/read-your-writes.ts'
import { createCredentials } from '../platform/vault/credentials.ts'
import { createVault } from '../platform/vault/seal.ts'
import type { Config } from './config.ts'
import { openFreeTools } from './free-tools.ts'
import { openConsole } from './open-console.ts'
import type { Payments } from './open-payments.ts'
import { readinessProbes, serviceParts } from './readiness.ts'

export type ApiParts = {
  readonly core: Core
  readonly projecting: Projecting
  readonly prices: LivePrices
  readonly reads: Reads
  readonly payments: Payments
  readonly scrapers: Scrapers
  /** Told that a payment callback waits in the inbox. */
  readonly callbackStored: () => void
  readonly registry: Registry
  /** Checks of proxies that people ask for. */
  readonly checks: OneOffChecks
  readonly monotonicMs: MonotonicClock
  /** Where people reach the console, e.g. `http://localhost:3000`. */
  readonly consoleOrigin: () => string
  /** Null once the start is over, else what it waits for. */
  readonly starting: () => string | null
  /** Told of what this process cannot go on without. */
  readonly fail: (error: Error) => void
}

export type Api = {
  readonly server: FastifyInstance
  /**
   * `/metrics` and `/readyz` for the operator, to listen where nobody but this machine reaches it; null without
   * FAREBOX_METRICS_PORT.
   */
  readonly insideServer: FastifyInstance | null
  /**
   * Waits, bounded, until requests are answered from everything that is in the log now: what was just sold for the
   * first time is no unknown product to the first customer. Where tables are still being made it gives up in silence;
   * `/readyz` says so.
   */
  caughtUp(): Promise<void>
  stop(): Promise<void>
}

const catchUpMs = 10_000

const limitsOf = ({ rates }: Config, monotonicMs: MonotonicClock) =>
  rates === null
    ? null
    : {
        perAddress: createRateLimiter(rates.address, monotonicMs),
        perKey: createRateLimiter(rates.key, monotonicMs),
      }

/** How long a request waits for a key that was issued a moment ago. */
const keyWaitMs = 2_000

/** The HTTP server with every room's routes; it listens nowhere yet. */
export const createApi = (parts: ApiParts): Api => {
  const { core, projecting, prices, reads, payments, registry, monotonicMs } = parts
  const { config, pool, log, clock, logger } = core
  const webhookValues = createWebhookValues({ pool, vault: createVault(core.keys.master) })
  const resolve = createResolve()
  const rules: TargetRules = { allowLoopback: config.webhookAllowLoopback }
  const returnUrls: ReturnUrls = {
    ofReseller: async (account) => {
      const { website, storefrontLink } = (await readTerms(pool, account)).shop
      return website ?? storefrontLink
    },
    ofService: () => `${payments.publicUrl()}${paidPath}`,
  }
  const returnUrlOf = async (reseller: AccountId | null): Promise<string> =>
    (reseller && (await returnUrls.ofReseller(reseller))) ?? returnUrls.ofService()
  // This process only looks: gateways find out which exits are dead.
  const health = createExitHealth({ table: { struck: async () => undefined }, onError: () => undefined })
  const exits = createLiveExits({
    pool,
    logins: createExitLogins({ pool, vault: createVault(core.keys.master) }),
    health,
    sticky: null,
    sandbox: config.payments.sandbox !== null,
  })
  // A place leaves the geo lists within ten seconds: seven until probes find its exits dead, and this.
  const recent = createRecentExits({
    live: exits,
    maxAgeMs: 1_000,
    monotonicMs,
    onError: (err) => logger.warn({ err }, 'exits cannot be read: what was known of them is used'),
  })
  const keyUses = startKeyUses(core)
  const shared = {
    orders: createOrderService({
      ...core,
      complete: createCompletion(core),
      customerInvoices: createCustomerInvoices({ ...core, ...payments, returnUrlOf }),
    }),
    catalog: prices.catalog,
    stock: createSharedStock({
      source: createLiveStock({ pool, clock }),
      watch: projecting.progress.watch(hot.name, ['stock_levels', 'resting_addresses'], { exact: true }),
      clock,
      monotonicMs,
      logger,
    }),
    customers: createCustomers({ pool, master: core.keys.master }),
    termsOf: prices.terms.termsOf,
    credentials: createCredentials(core.keys.master),
    db: createKysely<
      ReadDatabase &
        LabelDatabase &
        ReadMarkDatabase &
        TrafficDatabase &
        DepositPagesDatabase &
        RenewalDatabase
    >(pool),
    reads,
    pool,
    clock,
  }

  const subscriptions = createSubscriptions({
    ...core,
    orders: shared.orders,
    market: shared,
    settleTraffic: createMeter(core).settle,
  })
  const extending = createRentalExtension(shared)
  const replaceAddress = createReplaceAddress({ ...shared, runner: core.runner })
  const proxyChecks = createProxyChecks({
    ...shared,
    monotonicMs,
    gateway: config.gateway,
    sandbox: config.payments.sandbox !== null,
  })
  const webhookService = createWebhookService({
    ...shared,
    log,
    webhooks: createWebhooks({ runner: core.runner, values: webhookValues }),
    values: webhookValues,
    checkTarget: (url) => checkTarget(url, { resolve, rules }),
    progress: projecting.progress,
    limited: config.rates !== null,
  })
  const booksReads = createReads({ progress: projecting.progress, log, group: books.name })

  const scrapeCalls = scrapeRoutes(parts.scrapers)
  const tools = openFreeTools({
    pool,
    clock,
    monotonicMs,
    logger,
    rates: config.rates === null ? null : config.freeTools,
    sandbox: isSandboxed(config),
    publicUrl: payments.publicUrl,
    checks: parts.checks,
  })

  const reach = { ...shared, exits: { index: exits.index, health, recent } }
  const lines = createLineService({ ...reach, gateway: config.gateway, sets: createLineSets({ pool }) })
  const whitelist = createWhitelist({ pool, clock })
  const addToWhitelist = createAddToWhitelist({
    ...reach,
    whitelist,
    allowLoopback: config.gatewayAllowLoopback,
  })
  const locations = createLocations({ live: exits, health })

  const routes: readonly Route[] = [
    ...accountRoutes(shared),
    ...walletRoutes(shared),
    ...catalogRoutes(shared),
    ...orderRoutes(shared),
    ...planRoutes({ ...shared, gateway: config.gateway }),
    ...planUsageRoutes(shared),
    ...lineRoutes({
      ...shared,
      runner: core.runner,
      gateway: config.gateway,
      lines,
    }),
    ...whitelistRoutes({ ...shared, whitelist, addToWhitelist }),
    ...geoRoutes({ places: locations, recent }),
    ...proxyRoutes({ ...shared, extending, publicUrl: payments.publicUrl, gateway: config.gateway }),
    ...proxyRotateRoutes(shared),
    ...proxyReplaceRoutes({
      ...shared,
      replace: replaceAddress,
      publicUrl: payments.publicUrl,
      gateway: config.gateway,
    }),
    ...proxyCheckRoutes({ checks: proxyChecks }),
    ...webhookRoutes({ webhookService, pool }),
    ...resellerCustomerRoutes(shared),
    ...resellerFinanceRoutes({ pool, reads: booksReads }),
    ...scrapeBatchRoutes(parts.scrapers),
    ...scrapeUsageRoutes({ pool, reads: booksReads }),
    ...noticeRoutes(shared),
    ...financeRoutes({ pool, log, clock, progress: projecting.progress }),
    ...scrapeFinanceRoutes({
      pool,
      log,
      progress: projecting.progress,
      creditMicros: config.scrapers.creditMicros,
    }),
    ...auditRoutes({ pool, log }),
    ...subscriptionRoutes({ ...shared, log, subscriptions }),
    ...depositRoutes({
      ...shared,
      deposits: payments.deposits,
      returnUrls,
    }),
    ...scrapeCalls,
    ...scraperListRoutes({ ...parts.scrapers, monotonicMs, limited: config.rates !== null }),
    ...tools.routes,
  ]
  const probes = [...readinessProbes(core, projecting, prices, parts.starting), ...sealTargetProbes(core)]
  const liveScrapers = (): number =>
    scrapers.filter((row) => parts.scrapers.scraping.stateOf(row) === 'live').length
  const console = openConsole({
    core,
    gateways: payments.gateways,
    callbackUrl: payments.callbackUrl,
    customer: { ...shared, ...payments, log, accounts: createAccounts(core), origin: parts.consoleOrigin },
    plans: {
      gateway: config.gateway,
      lines,
      whitelist,
      addToWhitelist,
      locations,
      exitsRecent: recent,
      tryUrl: isSandboxed(config) ? 'http://whoami.sandbox/' : 'https://example.com/',
    },
    reseller: {
      bookReads: booksReads,
      resellers: createResellers({
        runner: core.runner,
        credentials: createResellerCredentials({ pool, vault: createVault(core.keys.master) }),
      }),
      callbackUrl: payments.callbackUrl,
      sandboxed: payments.sandboxUrl !== null,
    },
    webhooks: { webhookService, pool },
    scrapers: { ...parts.scrapers, pool, bookReads: booksReads },
    open: {
      ...tools.tools,
      ...shared,
      scrapers: liveScrapers,
      status: {
        clock,
        parts: serviceParts({
          pool,
          clock,
          probes,
          places: locations,
          list: tools.tools.list,
          scrapers: liveScrapers,
        }),
      },
    },
    subscriptions: { ...shared, log, subscriptions },
    addresses: {
      ...shared,
      extending,
      replace: replaceAddress,
      checks: proxyChecks,
      publicUrl: payments.publicUrl,
      gateway: config.gateway,
    },
    projecting,
    origin: parts.consoleOrigin,
    site: payments.publicUrl,
    sandboxSmtp: payments.sandboxSmtp,
    monotonicMs,
  })
  const common = {
    customerIdOf: shared.customers.idOf,
    directory: createDirectory({
      pool,
      log,
      clock,
      clockProblem: core.clockGuard.problem,
      onUse: keyUses.note,
      reached: (position) => projecting.progress.reached(hot.name, position, keyWaitMs),
      watch: projecting.progress.watch(hot.name, ['accounts', 'keys']),
      monotonicMs,
    }),
    logger,
    monotonicMs,
  }
  const server = createHttpServer({
    ...common,
    routes: [
      ...routes,
      ...callbackRoutes({ ...payments, clock, monotonicMs, stored: parts.callbackStored }),
      paidPageRoute,
      ...console.routes,
      ...documentationRoutes(routes, webhookDeclarations, scrapeCalls.flatMap(operationRoutes)),
      ...healthRoutes(probes, { registry, mayRead: operatorTokenAccess(config.metricsToken) }),
    ],
    financeDirectory: createFinanceDirectory({
      pool,
      log,
      clock,
      clockProblem: core.clockGuard.problem,
    }),
    metrics: createHttpMetrics(registry),
    limits: limitsOf(config, monotonicMs),
    connections: config.connections,
    ...(config.trustedProxies === null ? {} : { trusted: config.trustedProxies }),
    pages: console.refused,
  })
  // What it measures of itself is told to nobody.
  const insideServer =
    config.metricsPort === null
      ? null
      : createHttpServer({
          ...common,
          routes: healthRoutes(probes, { registry, mayRead: localOperatorAccess }),
          metrics: createHttpMetrics(new Registry()),
          limits: null,
        })
  const stopping = new AbortController()
  const followed = async (): Promise<void> => {
    await prices.start(stopping.signal)
    if (!stopping.signal.aborted) await exits.refresh()
  }
  const following = followed().catch((error) => {
    logger.error({ err: error }, 'catalogue, terms and exits cannot be read')
    parts.fail(error)
  })
  return {
    server,
    insideServer,
    caughtUp: async () => {
      if (!(await projecting.progress.reached(hot.name, await log.head(), catchUpMs))) return
      await prices.refresh()
      await exits.refresh()
    },
    stop: async () => {
      stopping.abort()
      await Promise.all([server.close(), insideServer?.close()])
      await keyUses.stop()
      await following
      await prices.stop()
      await console.stop()
      await tools.stop()
    },
  }
}
