import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import type pg from 'pg'
import type { Logger } from 'pino'
import { Counter, Registry } from 'prom-client'
import { alarmsOf } from '../domain/plans/decide.ts'
import { planRef } from '../domain/plans/fold.ts'
import { createIsAllowed, createLineSets } from '../features/lines/process.ts'
import { createTrafficCounters, createTrafficReports } from '../features/plans/process.ts'
import { createStockLogins } from '../features/stock/process.ts'
import { type AccessDependencies, startAccess } from '../gateway/admit/admit.ts'
import { createLeases, createMeteringHour, startBudgets } from '../gateway/admit/budgets.ts'
import { createSessionCaps } from '../gateway/admit/open-tunnels.ts'
import { createRequestRecords } from '../gateway/admit/record-requests.ts'
import { createUsage } from '../gateway/admit/record-usage.ts'
import { createReporter, type Reporter } from '../gateway/admit/reporter.ts'
import { createLogins, createPasswords, createThrottle } from '../gateway/authenticate/login-directory.ts'
import { createPlanDirectory, type PlanDirectory } from '../gateway/authenticate/plan-directory.ts'
import { createRentals } from '../gateway/authenticate/rentals.ts'
import { createWhitelistLookup } from '../gateway/authenticate/whitelist-lookup.ts'
import { addressExit, openExits, rentalExit } from '../gateway/exits/open-exits.ts'
import { createGateway } from '../gateway/gateway.ts'
import type { Access } from '../gateway/gateway-ports.ts'
import { createGatewayMetrics } from '../gateway/metrics.ts'
import { rentedChannel, startRentalListeners } from '../gateway/rental-listeners.ts'
import type { HostRecording } from '../gateway/settings.ts'
import { defaultTargetPolicy, parseTargetPolicy } from '../gateway/targets.ts'
import { countTraffic, gatewayWorkers, recordRequests } from '../gateway/workers.ts'
import type { Clock, MonotonicClock } from '../kernel/clock.ts'
import type { AccountId } from '../kernel/ids.ts'
import { type CloseStack, closeOnFailure } from '../kernel/resource-scope.ts'
import { createStreamStates } from '../platform/commands/log-states.ts'
import { createPostgresSnapshots } from '../platform/commands/snapshots.ts'
import { createAnnouncements } from '../platform/eventstore/postgres/announcements.ts'
import { registerGauge, registerRuntimeMetrics } from '../platform/http/gauges.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import { createCredentials } from '../platform/vault/credentials.ts'
import type { Keys } from '../platform/vault/keys.ts'
import { createVault } from '../platform/vault/seal.ts'
import { createScheduler, type Scheduler } from '../platform/work/scheduler.ts'
import { gatewayClock, openPostgresClock, serviceClock, startClockGuard, warnOfClock } from './clock.ts'
import type { Config } from './config.ts'
import { serveWorkerMetrics } from './listen.ts'
import { type LogReads, openLogReads } from './open-log-reads.ts'
import { openWorkerDatabase } from './open-pool.ts'
import { drainMsOf } from './shutdown.ts'

export type GatewayWorker = {
  /** A unique name of this process. */
  readonly worker: string
  readonly port: number
  /** Stops listening, waits a limited time for open connections to end, and reports all consumed bytes. */
  close(): Promise<void>
}

const poolSize = 6

/** Tables that a gateway uses. With another version of Farebox some may be missing. */
const requiredTables = [
  'read.plans',
  'read.proxies',
  'read.accounts',
  'read.catalog',
  'read.exits',
  'read.traffic_budgets',
  'work.gateway_leases',
  'work.traffic_budget_leases',
  'work.gateway_logins',
  'work.rental_turns',
  'work.gateway_rental_logins',
  'work.gateway_machines',
  'vault.stock_credentials',
  'traffic.requests',
]

const policyOf = async (path: string | null) => {
  if (path === null) return defaultTargetPolicy
  try {
    return parseTargetPolicy(await readFile(path, 'utf8'))
  } catch (error) {
    throw new StartRefused(`FAREBOX_GATEWAY_POLICY: ${path}: ${(error as Error).message}`, { cause: error })
  }
}

const tlsOf = async ({ tls }: Config['gateway']) => {
  if (tls === null) return null
  const [cert, key] = await Promise.all(
    [tls.cert, tls.key].map((path) =>
      readFile(path, 'utf8').catch((error) => {
        throw new StartRefused(`the gateway's TLS files: ${(error as Error).message}`, { cause: error })
      }),
    ),
  )
  return { port: tls.port, cert: cert ?? '', key: key ?? '' }
}

/** @throws StartRefused: a port that is in use, or an invalid certificate, would fail again at the next attempt */
const listenOrRefuse = async <Result>(
  setting: string,
  host: string,
  port: number,
  listen: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await listen()
  } catch (error) {
    throw new StartRefused(
      `${setting}: port ${port} of ${host} is not available (${(error as Error).message})`,
      {
        cause: error,
      },
    )
  }
}

/**
 * Opens one process of the gateway. It uses Postgres and the master key, reads the log and never writes to it. No
 * failure of this process affects the ledger.
 * @param index the index of this worker on this machine, from 0
 * @throws StartRefused, KeyRefused, DatabaseUnreachable: the start must stop with their message
 */
export const openGatewayWorker = (options: {
  readonly config: Config
  readonly index: number
  readonly systemClock: Clock
  readonly monotonicMs: () => number
  readonly random: () => number
  readonly logger: Logger
  /** See `openPool`. */
  readonly starting?: AbortSignal | undefined
}): Promise<GatewayWorker> => closeOnFailure((closing) => openInto(closing, options))

const openInto = async (
  closing: CloseStack,
  {
    config,
    index,
    systemClock,
    monotonicMs,
    random,
    logger,
    starting,
  }: Parameters<typeof openGatewayWorker>[0],
): Promise<GatewayWorker> => {
  const worker = `gateway ${hostname()} ${process.pid} ${randomUUID()}`
  const [policy, tls] = await Promise.all([policyOf(config.gateway.policy), tlsOf(config.gateway)])
  const { pool, connection, keys } = await openWorkerDatabase(closing, {
    config,
    applicationName: 'farebox-gateway',
    poolSize,
    needed: requiredTables,
    logger,
    starting,
  })

  const log = await openLogReads(closing, { config, pool, logger })

  const time = await openPostgresClock({ pool, systemClock, monotonicMs })
  const clock = serviceClock(time, config)
  const scheduler = createScheduler({
    workers: [gatewayClock, ...gatewayWorkers],
    pool,
    place: { host: hostname(), pid: process.pid },
    clock,
    logger,
  })
  closing.add(scheduler.stop)
  const clockWorker = gatewayClock
  const clockGuard = startClockGuard({ scheduler, time, as: clockWorker, onChange: warnOfClock(logger) })
  closing.add(clockGuard.stop)
  const registry = new Registry()
  closing.add(registerRuntimeMetrics(registry))
  const sandbox = config.payments.sandbox !== null
  const exits = await openExits({
    scheduler,
    pool,
    vault: createVault(keys.master),
    sandbox,
    allowLoopback: config.gatewayAllowLoopback,
    workers: config.gateway.workers,
    clock,
    random,
    logger,
  })
  closing.add(exits.stop)
  registerGauge(registry, {
    name: 'farebox_gateway_exits_serving',
    help: 'Exits that take connections, dead ones among them.',
    read: () => exits.counts().serving,
  })
  registerGauge(registry, {
    name: 'farebox_gateway_exits_dead',
    help: 'Exits that take connections by their terms and do not work.',
    read: () => exits.counts().dead,
  })
  const whitelist = createWhitelistLookup({
    pool,
    isAllowed: createIsAllowed(log),
    clock,
    monotonicMs,
    logger,
    onError: (err) => logger.warn({ err }, 'recording the use of a whitelist entry failed'),
  })
  const lineSets = createLineSets({ pool })
  const gatewayAccess = openAccess({
    scheduler,
    pool,
    log,
    keys,
    worker,
    clock,
    monotonicMs,
    logger,
    maxTunnels: config.gateway.planConnections,
    hosts: config.gateway.records.hosts,
    recordsRequests: config.gateway.records.days > 0,
    registry,
    whitelisted: whitelist.find,
    targetingOfSet: lineSets.targetingOf,
    exitOf: async (rental) => {
      const ownExit = addressExit(rental, exits.live.sandbox(), sandbox && exits.allowsLoopback())
      return rentalExit(rental, ownExit, exits.exits.ofCarrier, clock())
    },
  })
  closing.add(gatewayAccess.stop)

  const gateway = createGateway({
    access: gatewayAccess.access,
    exits: exits.exits,
    clock: monotonicMs,
    logger,
    policy,
    balancers: config.gateway.balancers,
    metrics: createGatewayMetrics(registry),
    allowLoopback: exits.allowsLoopback,
    limits: { drainMs: drainMsOf(config.shutdownTimeoutMs), tunnelIdleMs: config.gateway.idleTimeoutMs },
  })
  closing.add(() => gateway.close())
  const { listen, port: configuredPort } = config.gateway
  const isShared = config.gateway.workers > 1
  let port = configuredPort
  for (const host of listen)
    port = await listenOrRefuse('FAREBOX_GATEWAY_PORT', host, port, () =>
      gateway.listen({ host, port, shared: isShared }),
    )
  if (tls !== null)
    for (const host of listen)
      await listenOrRefuse('FAREBOX_GATEWAY_TLS_PORT', host, tls.port, () =>
        gateway.listen({ host, port: tls.port, shared: isShared, tls }),
      )
  const announcements = createAnnouncements(rentedChannel, {
    pool,
    connection,
    onTrouble: (what, err) => logger.warn({ err }, what),
  })
  closing.add(announcements.close)
  if (config.eventStoreUrl === null) scheduler.follow(announcements.onActivity)
  const rentals = startRentalListeners({
    scheduler,
    pool,
    gateway,
    announcements,
    monotonicMs,
    port,
    shared: isShared,
    listen,
    logger,
  })
  closing.add(rentals.stop)
  const { metricsPort } = config.gateway
  if (metricsPort !== null)
    await serveWorkerMetrics(closing, registry, metricsPort + index, 'FAREBOX_GATEWAY_METRICS_PORT')
  return { worker, port, close: closing.close }
}

export type GatewayAccess = {
  readonly access: Access
  /** Reports consumed bytes and writes the statistics. */
  flush(): Promise<void>
  /** Ends the leases and writes everything that is not written. Call it when no tunnel is open. */
  stop(): Promise<void>
}

/**
 * Cached stock states. The stock of a product in a country may have thousands of addresses, so only a few are cached.
 */
const maxStocks = 100

/** Access control and traffic budgets of this gateway process. It reads and counts in Postgres, and reads the log. */
export const openAccess = (
  dependencies: {
    readonly scheduler: Scheduler
    readonly pool: pg.Pool
    readonly log: LogReads
    readonly keys: Keys
    /** A unique name of this process. */
    readonly worker: string
    readonly clock: Clock
    readonly monotonicMs: MonotonicClock
    readonly logger: Logger
    readonly maxTunnels: number
    /** How much of the hosts is recorded and counted. */
    readonly hosts: HostRecording
    readonly recordsRequests: boolean
    readonly registry: Registry
  } & Pick<AccessDependencies, 'whitelisted' | 'targetingOfSet' | 'exitOf'>,
): GatewayAccess => {
  const { scheduler, pool, log, worker, clock, monotonicMs, logger } = dependencies
  const snapshots = {
    store: createPostgresSnapshots({ pool, keys: dependencies.keys, logger }),
    logId: log.logId,
    logger,
  }
  const stateOf = createStreamStates(log, { snapshots, whileAway: 'error' })
  const stockOf = createStreamStates(log, { snapshots, whileAway: 'error', maxCached: maxStocks })
  let plans: PlanDirectory
  const credentials = createCredentials(dependencies.keys.master)
  const meteringHour = createMeteringHour(clock)
  const { hosts } = dependencies
  const refusedBatches = new Counter({
    name: 'farebox_gateway_refused_batches_total',
    help: 'New batches of traffic that the database called counted. They were counted under another name.',
    registers: [dependencies.registry],
  })
  const trafficRuns = scheduler.record(countTraffic)
  const reporterOf = (name: string): Reporter =>
    createReporter({
      name,
      onRefused: (err) => {
        logger.error({ err }, 'a new batch of traffic was refused and is counted under another name')
        refusedBatches.inc()
        trafficRuns.noted(err)
      },
    })
  const records = dependencies.recordsRequests
    ? createRequestRecords({ pool, clock, reporter: reporterOf(`${worker}/records`), hosts, meteringHour })
    : null
  const budgets = startBudgets({
    scheduler,
    meteringHour,
    reports: createTrafficReports({
      counters: createTrafficCounters(pool),
      plan: async (planId) => {
        const { state } = await stateOf(planRef(planId))
        if (state.plan === null) return null
        const { accountId, usedBytes } = state.plan
        return { accountId: accountId as AccountId, usedBytes, alarms: alarmsOf(state, clock()) }
      },
      clock,
    }),
    leases: createLeases({
      pool,
      worker,
      findPlan: (planId, sinceMs) => plans.find(planId, sinceMs),
      monotonicMs,
    }),
    reporter: reporterOf(worker),
    monotonicMs,
    logger,
  })
  const usage = createUsage({ pool, clock, reporter: reporterOf(`${worker}/usage`), hosts, meteringHour })
  const access = startAccess({
    ...dependencies,
    credentials,
    passwords: createPasswords(credentials),
    logins: createLogins({ pool, credentials, monotonicMs }),
    directory: (onRead) => {
      plans = createPlanDirectory({ pool, stateOf, monotonicMs, logger, onRead })
      return plans
    },
    rentals: createRentals({
      pool,
      accountOf: stateOf,
      stockOf,
      monotonicMs,
      logger,
      logins: createStockLogins({ pool, master: dependencies.keys.master }),
    }),
    throttle: createThrottle(monotonicMs),
    sessionCaps: createSessionCaps({ pool, clock }),
    budgets,
    usage,
    meteringHour,
    records,
  })
  let isRecordingFailing = false
  const recorder =
    records &&
    scheduler.start(
      recordRequests,
      async () => {
        await records.flush()
        isRecordingFailing = false
      },
      {
        onError: (err) => {
          if (!isRecordingFailing) logger.warn({ err }, 'traffic records cannot be written')
          isRecordingFailing = true
          return recordRequests.trigger.everyMs
        },
      },
    )
  return {
    access,
    flush: async () => {
      await budgets.flush()
      await access.flush()
      await records?.drain()
    },
    stop: async () => {
      await budgets.stop()
      await access.stop()
      await recorder?.stop()
      await records
        ?.drain()
        .catch((err) => logger.warn({ err }, 'the last traffic records of this process are lost'))
    },
  }
}
