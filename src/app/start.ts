import type { Logger } from 'pino'
import { followers } from '../../projections/groups.ts'
import { invariantGroup } from '../audit/invariants/invariants.ts'
import type { LivePrices } from '../features/resellers/index.ts'
import { announceRentals, rentedChannel } from '../gateway/rental-listeners.ts'
import type { Clock, MonotonicClock } from '../kernel/clock.ts'
import { crashHooks } from '../kernel/crash-points.ts'
import { type CloseStack, closeOnFailure } from '../kernel/resource-scope.ts'
import { createAnnouncementSender } from '../platform/eventstore/postgres/announcements.ts'
import type { Core, Projecting, ServerCore } from '../platform/feature/core.ts'
import { registerRuntimeMetrics } from '../platform/http/gauges.ts'
import type { Probe } from '../platform/http/health.ts'
import { shutDown } from '../platform/http/server.ts'
import { withStartFiles } from '../platform/postgres/errors.ts'
import { createDatabaseWait } from '../platform/postgres/wait-for-database.ts'
import type { Config } from './config.ts'
import { consoleOriginOf, startConsole } from './console-links.ts'
import type { DemoFile } from './demo/demo-file.ts'
import { seedDemo } from './demo/seed.ts'
import { type Features, openFeatures } from './features.ts'
import type { ConsoleStart } from './greeting.ts'
import { listen, urlOf } from './listen.ts'
import { createRegistry, createRunnerMetrics, registerGauges } from './metrics.ts'
import { openCore } from './open-core.ts'
import { signalOf } from './open-database.ts'
import { logWaiting } from './open-pool.ts'
import { openSandbox } from './open-sandbox.ts'
import { openServerCore } from './open-server-core.ts'
import { enabledGroups, openProjections } from './projections.ts'
import { readinessProbes } from './readiness.ts'
import { type Api, createApi } from './serve.ts'
import { effectiveSettings } from './settings-command.ts'
import { drainMsOf } from './shutdown.ts'
import { storeUsedPorts } from './used-ports.ts'
import { version } from './version.ts'
import { warmFolds } from './warm-folds.ts'
import { serverWorkers } from './worker-list.ts'
import { startWorkers } from './workers.ts'

export const roles = ['http', 'projections', 'reactors'] as const
export type Role = (typeof roles)[number]

export type FareboxOptions = {
  readonly config: Config
  readonly roles: readonly Role[]
  /** Milliseconds since the epoch. */
  readonly systemClock: Clock
  /** See `openCore`. */
  readonly clock?: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
  /** See `openPool`. */
  readonly starting?: AbortSignal
  /** Called when the database is open and migrated to this version, so that other processes may use it. */
  readonly onDatabase?: (core: Core) => void
  /** The probes of the processes that this one supervises. */
  readonly supervisedProbes?: readonly Probe[]
  /** Ends the process at once, for FAREBOX_CRASH_AT. */
  readonly kill: () => void
}

export type Farebox = {
  readonly core: ServerCore
  readonly config: Config
  readonly projecting: Projecting
  readonly features: Features
  readonly prices: LivePrices
  /** The address of the sandbox; null: it does not run. */
  readonly sandboxUrl: string | null
  /** Such as `http://127.0.0.1:3000`; null without the role `http`. */
  readonly baseUrl: string | null
  /** The local address of the metrics, without a token; null without FAREBOX_METRICS_PORT. */
  readonly insideUrl: string | null
  /** The demo's keys, and whether this start created them; null without a demo. */
  readonly demo: { readonly demo: DemoFile; readonly fresh: boolean } | null
  /** The console, with single-use sign-in links for the demo's accounts; null without the role `http`. */
  readonly console: ConsoleStart | null
  /** The log had no event. */
  readonly isEmpty: boolean
  /** Resolves when an essential part of the process has failed. Then close and end the process. */
  readonly failed: Promise<Error>
  /** Makes `/readyz` answer 503. Everything else continues. */
  leave(): void
  /** Refuses new requests and waits for running ones. */
  drain(): Promise<void>
  /** Refuses new requests, finishes running ones, flushes, and closes all parts in order. */
  close(): Promise<void>
}

/**
 * Wires and starts one process of Farebox. All dependencies are created here and passed on as arguments.
 * @throws SettingsRefused, DataInUse, DatabaseUnreachable, MigrationRefused, KeyRefused, StartRefused,
 * ProjectionsRefused: the start must stop with their message
 */
export const openFarebox = (options: FareboxOptions): Promise<Farebox> =>
  closeOnFailure((closing) => openInto(closing, options))

const openInto = async (closing: CloseStack, options: FareboxOptions): Promise<Farebox> => {
  const { config, systemClock, monotonicMs, logger, supervisedProbes = [], kill } = options
  const hasRole = (role: Role): boolean => options.roles.includes(role)
  const hooks = crashHooks(config.crashAt, kill)
  const registry = createRegistry()
  closing.add(registerRuntimeMetrics(registry))

  const openedCore = await openCore({
    config,
    role: 'server',
    workers: serverWorkers,
    systemClock,
    ...(options.clock && { clock: options.clock }),
    logger,
    starting: options.starting,
    hooks,
    metrics: createRunnerMetrics(registry),
  })
  closing.add(openedCore.close)
  /** Breaks the start off after a signal. */
  const checkStopped = (): void => options.starting?.throwIfAborted()
  checkStopped()
  options.onDatabase?.(openedCore)
  const announceRented = announceRentals(createAnnouncementSender(rentedChannel, openedCore))
  const projections = openProjections(openedCore, {
    groups: followers,
    ...(config.checkInvariants && { elsewhere: [invariantGroup.name] }),
    hooks,
    watch: { beforeWrite: announceRented },
  })
  const { projecting } = projections
  await projections.start({ folds: hasRole('projections') })
  closing.add(projecting.stop)
  checkStopped()
  const core = openServerCore(openedCore, { projecting, monotonicMs, registry, hooks, closing })
  registerGauges(registry, { ...core, projections: projecting })
  let baseUrl: string | null = null
  let unready: string | null = 'still starting'
  const ownUrl = (): string => baseUrl ?? urlOf(config)
  const origin = (): string => consoleOriginOf(config, ownUrl())
  const publicUrl = (): string => config.payments.publicUrl ?? ownUrl()
  const sandbox = await openSandbox(core, closing, { config, serves: hasRole('http') })
  if (hasRole('http'))
    await storeUsedPorts(core.pool, { gateway: config.gateway.port, sandbox: sandbox.ownPort })
  const program = openFeatures(core, config, {
    sandbox,
    publicUrl,
    origin,
    version,
    probes: (prices) => [...readinessProbes(core, prices, () => unready), ...supervisedProbes],
    groups: enabledGroups(config),
    settings: () => effectiveSettings(process.env),
  })
  const { features, prices } = program
  if (hasRole('reactors')) {
    const workers = startWorkers(core, features)
    closing.add(workers.stop)
  }

  const failed = Promise.withResolvers<Error>()
  void core.failed.then(failed.resolve)
  let api: Api | null = null
  let insideUrl: string | null = null
  let drainPromise: Promise<unknown> | null = null
  const drain = async (): Promise<void> => {
    if (api !== null) drainPromise ??= shutDown(api.server, drainMsOf(config.shutdownTimeoutMs))
    await drainPromise
  }
  if (hasRole('http')) {
    api = createApi(core, config, program, { origin, publicUrl, fail: failed.resolve })
    closing.add(api.stop)
    if (api.insideServer !== null && config.metricsPort !== null) {
      const metricsAddress = { host: '127.0.0.1', port: config.metricsPort }
      insideUrl = await listen(api.insideServer, metricsAddress, 'FAREBOX_METRICS_PORT')
      logger.info({ url: `${insideUrl}/metrics` }, 'this machine reads the measurements without a token')
    }
    baseUrl = await listen(api.server, config)
    closing.add(drain)
  }
  // The commands of a start are repeated, because a busy machine may take longer than a request waits.
  const logRunner = openedCore.logWait?.runner(core.runner) ?? core.runner
  const waitForLog = createDatabaseWait({
    signal: AbortSignal.any([signalOf(openedCore.failed), ...(options.starting ? [options.starting] : [])]),
    onWait: logWaiting(logger, 'the event log'),
  })
  const runner: typeof logRunner = {
    ...logRunner,
    run: (command) => {
      checkStopped()
      return waitForLog(() => logRunner.run(command))
    },
  }
  const seedCore = { ...core, runner }
  const addresses = { baseUrl: ownUrl(), sandbox: sandbox.url }
  const demo = await withStartFiles(config.dataDir, () => seedDemo(seedCore, config, addresses))
  const console = hasRole('http') ? await startConsole(core, origin(), demo?.demo ?? null) : null
  checkStopped()
  if (hasRole('http')) await warmFolds(core)
  checkStopped()
  await api?.caughtUp()
  const isEmpty = (await core.log.head()) === 0
  unready = null
  openedCore.logWait?.end()
  return {
    core,
    config,
    projecting,
    features,
    prices,
    sandboxUrl: sandbox.url,
    baseUrl,
    insideUrl,
    demo,
    console,
    isEmpty,
    failed: failed.promise,
    leave: () => {
      unready = 'the process stops'
    },
    drain,
    close: closing.close,
  }
}
