import type { FastifyInstance } from 'fastify'
import { Registry } from 'prom-client'
import { hot } from '../../projections/groups.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { ServerCore } from '../platform/feature/core.ts'
import { localOperatorAccess, operatorTokenAccess } from '../platform/http/auth.ts'
import { createHttpMetrics } from '../platform/http/gauges.ts'
import { healthRoutes } from '../platform/http/health.ts'
import { createRateLimiter } from '../platform/http/rate-limiter.ts'
import { createHttpServer } from '../platform/http/server.ts'
import { unlessStopped } from '../platform/postgres/errors.ts'
import { createDatabaseWait } from '../platform/postgres/wait-for-database.ts'
import { frameContext, refusalPage } from '../platform/ui/answer-page.ts'
import { publicRoots } from '../platform/ui/cookies.ts'
import type { Config } from './config.ts'
import type { OpenedFeatures } from './features.ts'
import { logWaiting } from './open-pool.ts'
import { serverRoutes } from './routes.ts'
import { modelOfTable } from './unreadable-tables.ts'

export type Api = {
  readonly server: FastifyInstance
  /** `/metrics` and `/readyz` for operators of this machine, on loopback only; null without FAREBOX_METRICS_PORT. */
  readonly insideServer: FastifyInstance | null
  /**
   * Waits, for a limited time, until requests are answered from all events that are in the log now. So the first
   * customers of a product find it. If tables are still being created it ends without an error; `/readyz` reports this.
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

/** Creates the HTTP server with the routes of every feature. It does not listen yet. */
export const createApi = (
  core: ServerCore,
  config: Config,
  opened: OpenedFeatures,
  addresses: {
    /** The public address of the console, such as `http://localhost:3000`. */
    readonly origin: () => string
    /** The public address of this service. */
    readonly publicUrl: () => string
    /** Receives an error that ends this process. */
    readonly fail: (error: Error) => void
  },
): Api => {
  const { features, prices, probes } = opened
  const { log, clock, logger, monotonicMs, registry, assets } = core
  const { progress } = core.projecting
  const name = config.payments.merchantName
  const { directory, stop: stopDirectory } = features.accounts.openDirectory()
  const common = { customerIdOf: features.accounts.customers.idOf, directory, logger, monotonicMs }
  const server = createHttpServer({
    ...common,
    routes: serverRoutes(opened, {
      console: { assets, clock, origin: addresses.origin, site: addresses.publicUrl, name },
      health: { registry, mayRead: operatorTokenAccess(config.metricsToken) },
    }),
    financeDirectory: features.finance.directory,
    metrics: createHttpMetrics(registry),
    limits: limitsOf(config, monotonicMs),
    connections: config.connections,
    modelOf: modelOfTable,
    ...(config.trustedProxies === null ? {} : { trusted: config.trustedProxies }),
    pages: { under: ['/console', ...publicRoots], refused: refusalPage(frameContext({ assets, name })) },
  })
  // The requests to this server are not measured.
  const insideServer =
    config.metricsPort === null
      ? null
      : createHttpServer({
          ...common,
          routes: healthRoutes(probes, { registry, mayRead: localOperatorAccess }),
          metrics: createHttpMetrics(new Registry()),
          limits: null,
        })
  const { live: exits } = features.exits
  const stopping = new AbortController()
  const startReads = async (): Promise<void> => {
    await prices.start(stopping.signal)
    if (!stopping.signal.aborted) await exits.refresh()
  }
  const waitForDatabase = createDatabaseWait({
    signal: stopping.signal,
    onWait: logWaiting(logger, 'the database'),
  })
  const startedReads = waitForDatabase(startReads).catch((error) => {
    if (stopping.signal.aborted) return
    logger.error({ err: error }, 'catalogue, terms and exits cannot be read')
    addresses.fail(error)
  })
  return {
    server,
    insideServer,
    caughtUp: async () => {
      if (!(await progress.reached(hot.name, await log.head(), catchUpMs))) return
      await unlessStopped(prices.refresh())
      await unlessStopped(exits.refresh())
    },
    stop: async () => {
      stopping.abort()
      await Promise.all([server.close(), insideServer?.close()])
      await stopDirectory()
      await startedReads
      await prices.stop()
    },
  }
}
