import type { FastifyInstance } from 'fastify'
import { Registry } from 'prom-client'
import type { ReadDatabase } from '../../projections/database.ts'
import { createReads, type Reads } from '../../projections/engine/reads.ts'
import { books, hot } from '../../projections/groups.ts'
import { createLiveStock } from '../../projections/live-stock.ts'
import { auditRoutes } from '../books/audit/routes.ts'
import { createFinanceDirectory } from '../books/finance/find-reader.ts'
import { financeRoutes } from '../books/finance/routes.ts'
import { planUsageRoutes } from '../gateway/budget/usage-routes.ts'
import { createLineDesk } from '../gateway/desk/line-desk.ts'
import { createAddToWhitelist } from '../gateway/desk/whitelisting.ts'
import { geoRoutes } from '../gateway/exits/geo-routes.ts'
import { createExitHealth } from '../gateway/exits/health.ts'
import { createLiveExits } from '../gateway/exits/live-exits.ts'
import { createPlaces } from '../gateway/exits/places.ts'
import { createRecentExits } from '../gateway/exits/recent.ts'
import { createExitLogins } from '../gateway/exits/vault.ts'
import { lineRoutes } from '../gateway/lines/routes.ts'
import { createLineSets } from '../gateway/lines/sets.ts'
import { createWhitelist } from '../gateway/lines/whitelist.ts'
import { whitelistRoutes } from '../gateway/lines/whitelist-routes.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { AccountId } from '../kernel/ids.ts'
import { createDirectory } from '../market/accounts/directory.ts'
import { startKeyUses } from '../market/accounts/key-uses.ts'
import { accountRoutes } from '../market/accounts/routes.ts'
import { createAccounts } from '../market/accounts/service.ts'
import { catalogRoutes } from '../market/catalog/routes.ts'
import { createSharedStock } from '../market/catalog/shared-stock.ts'
import { createCustomers } from '../market/customers/service.ts'
import type { LabelDatabase } from '../market/labels/database.ts'
import { createCompletion } from '../market/orders/completion.ts'
import { createHostedOrders } from '../market/orders/hosted.ts'
import { orderRoutes } from '../market/orders/routes.ts'
import { createOrderService } from '../market/orders/service.ts'
import { createMeter } from '../market/plans/metering.ts'
import type { TrafficDatabase } from '../market/plans/migrations.ts'
import { planRoutes } from '../market/plans/routes.ts'
import { proxyCheckRoutes } from '../market/proxies/check-routes.ts'
import { createProxyChecks } from '../market/proxies/checks.ts'
import { createExtending } from '../market/proxies/extending.ts'
import { createReplaceAddress } from '../market/proxies/replace.ts'
import { proxyReplaceRoutes } from '../market/proxies/replace-routes.ts'
import { proxyRotateRoutes } from '../market/proxies/rotate-routes.ts'
import { proxyRoutes } from '../market/proxies/routes.ts'
import { createResellerCredentials } from '../market/resellers/credentials.ts'
import { resellerFinanceRoutes } from '../market/resellers/finance-routes.ts'
import { readTerms } from '../market/resellers/gateways.ts'
import { resellerCustomerRoutes } from '../market/resellers/routes.ts'
import { createResellers } from '../market/resellers/service.ts'
import type { RenewalDatabase } from '../market/subscriptions/migrations.ts'
import { subscriptionRoutes } from '../market/subscriptions/routes.ts'
import { createSubscriptions } from '../market/subscriptions/service.ts'
import type { DepositPagesDatabase } from '../money/deposits/database.ts'
import { paidPageRoute, paidPath } from '../money/deposits/paid-page.ts'
import { depositRoutes, type ReturnUrls } from '../money/deposits/routes.ts'
import { walletRoutes } from '../money/ledger/routes.ts'
import { callbackRoutes } from '../money/payments/routes.ts'
import type { ReadMarkDatabase } from '../outbound/notices/read-marks.ts'
import { noticeRoutes } from '../outbound/notices/routes.ts'
import { webhookDeclarations } from '../outbound/webhooks/declarations.ts'
import { createWebhookDesk } from '../outbound/webhooks/desk.ts'
import { webhookRoutes } from '../outbound/webhooks/routes.ts'
import { createWebhooks } from '../outbound/webhooks/service.ts'
import { createWebhookValues } from '../outbound/webhooks/vault.ts'
import { healthRoutes } from '../platform/http/health.ts'
import { createHttpMetrics } from '../platform/http/http-metrics.ts'
import { byToken, onOwnListener } from '../platform/http/operator-access.ts'
import { createRateLimiter } from '../platform/http/rate-limit.ts'
import type { Route } from '../platform/http/route.ts'
import { createHttpServer } from '../platform/http/server.ts'
import { documentationRoutes } from '../platform/http/service-routes.ts'
import { checkTarget, createResolve, type TargetRules } from '../platform/outgoing/target.ts'
import { createKysely } from '../platform/postgres/kysely.ts'
import { createCredentials } from '../platform/vault/credentials.ts'
import { createVault } from '../platform/vault/seal.ts'
import { scrapeBatchRoutes } from '../scrapers/batches/routes.ts'
import { operationRoutes } from '../scrapers/calls/operation-routes.ts'
import { scrapeRoutes } from '../scrapers/calls/routes.ts'
import { scraperListRoutes } from '../scrapers/catalog/routes.ts'
import { scrapers } from '../scrapers/catalog/table.ts'
import { scrapeFinanceRoutes } from '../scrapers/usage/finance-routes.ts'
import { scrapeUsageRoutes } from '../scrapers/usage/usage-routes.ts'
import type { Config } from './config.ts'
import type { Core } from './core.ts'
import { isSandboxed, type OneOffChecks } from './freelist/open-checking.ts'
import { openFreeTools } from './freelist/open-tools.ts'
import type { LivePrices } from './live-prices.ts'
import { openConsole } from './open-console.ts'
import type { Payments } from './open-payments.ts'
import type { Scrapers } from './open-scraping.ts'
import type { Projecting } from './projecting.ts'
import { readinessProbes } from './readiness.ts'
import { serviceParts } from './service-parts.ts'
import { sealTargetProbes } from './start-seal-delivery.ts'

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
    lookEveryMs: null,
    logger,
  })
  // A place leaves the geo lists within ten seconds: seven until probes find its exits dead, and this.
  const recent = createRecentExits({
    live: exits,
    maxAgeMs: 1_000,
    monotonicMs,
    onError: (err) => logger.warn({ err }, 'exits cannot be read: what was known of them is used'),
  })
  const keyUses = startKeyUses({ pool, clock, logger })
  const shared = {
    orders: createOrderService({
      ...core,
      complete: createCompletion(core),
      hosted: createHostedOrders({ ...core, ...payments, returnUrlOf }),
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
  const extending = createExtending(shared)
  const replaceAddress = createReplaceAddress({ ...shared, runner: core.runner })
  const proxyChecks = createProxyChecks({
    ...shared,
    monotonicMs,
    gateway: config.gateway,
    sandbox: config.payments.sandbox !== null,
  })
  const webhookDesk = createWebhookDesk({
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
  const lines = createLineDesk({ ...reach, gateway: config.gateway, sets: createLineSets({ pool }) })
  const whitelist = createWhitelist({ pool, clock })
  const addToWhitelist = createAddToWhitelist({
    ...reach,
    whitelist,
    allowLoopback: config.gatewayAllowLoopback,
  })
  const places = createPlaces({ live: exits, health })

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
    ...geoRoutes({ places, recent }),
    ...proxyRoutes({ ...shared, extending, publicUrl: payments.publicUrl, gateway: config.gateway }),
    ...proxyRotateRoutes(shared),
    ...proxyReplaceRoutes({
      ...shared,
      replace: replaceAddress,
      publicUrl: payments.publicUrl,
      gateway: config.gateway,
    }),
    ...proxyCheckRoutes({ checks: proxyChecks }),
    ...webhookRoutes({ desk: webhookDesk, pool }),
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
      places,
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
    webhooks: { desk: webhookDesk, pool },
    scrapers: { ...parts.scrapers, pool, bookReads: booksReads },
    open: {
      ...tools.tools,
      ...shared,
      scrapers: liveScrapers,
      status: {
        clock,
        parts: serviceParts({ pool, clock, probes, places, list: tools.tools.list, scrapers: liveScrapers }),
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
      ...healthRoutes(probes, { registry, mayRead: byToken(config.metricsToken) }),
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
          routes: healthRoutes(probes, { registry, mayRead: onOwnListener }),
          metrics: createHttpMetrics(new Registry()),
          limits: null,
        })
  const stopping = new AbortController()
  const followed = async (): Promise<void> => {
    await prices.start(stopping.signal)
    if (!stopping.signal.aborted) await exits.start()
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
