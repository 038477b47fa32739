import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { hot } from '../../projections/groups.ts'
import { startAuditing, startSealDelivery } from '../audit/open.ts'
import { catalogFold } from '../domain/catalog/fold.ts'
import { ledgerFold } from '../domain/ledger/fold.ts'
import { planFold } from '../domain/plans/fold.ts'
import { stockFold } from '../domain/stock/fold.ts'
import { openOneOffChecks } from '../features/free-list/open-checking.ts'
import { createLivePrices, type LivePrices } from '../features/resellers/live-prices.ts'
import { openScrapers } from '../features/scrapers/open.ts'
import type { Clock, MonotonicClock } from '../kernel/clock.ts'
import { crashHooks } from '../kernel/crash-points.ts'
import { type CloseStack, closeOnFailure } from '../kernel/resource-scope.ts'
import { busyStreams } from '../platform/commands/snapshots.ts'
import type { Core, Projecting } from '../platform/feature/core.ts'
import { registerRuntimeMetrics } from '../platform/http/gauges.ts'
import { shutDown } from '../platform/http/server.ts'
import { withStartFiles } from '../platform/postgres/errors.ts'
import { createReads, type Reads } from '../platform/projections/read-your-writes.ts'
import type { Config } from './config.ts'
import type { DemoFile } from './demo/demo-file.ts'
import { seedDemo } from './demo/seed.ts'
import type { ConsoleStart } from './greeting.ts'
import { listen, urlOf } from './listen.ts'
import { createRegistry, createRunnerMetrics, registerGauges } from './metrics.ts'
import { consoleOriginOf, startConsole } from './open-console.ts'
import { openCore } from './open-core.ts'
import { openPayments, type Payments } from './open-payments.ts'
import { openProviders } from './open-providers.ts'
import { startProjecting } from './projections.ts'
import { type Api, createApi } from './routes.ts'
import { serverWorkers } from './worker-list.ts'
import { startReactors } from './workers.ts'

/** What orders are decided on and snapshots are taken of, by the names that snapshots carry. */
const folds = new Map(
  [catalogFold, ledgerFold, planFold, stockFold].map((fold) => [fold.name, fold] as const),
)

/** Each is a snapshot of up to some ten megabytes and its tail; the rest is read when it is used. */
const maxStreams = 100
const withinMs = 10_000

/**
 * Reads the states of the streams that were busy last, so that their first orders need not wait for it: a process is ready
 * then. It takes ten seconds at most, and that it cannot be done keeps nobody from starting.
 */
export const warmFolds = async ({ pool, log, runner, logger }: Core): Promise<void> => {
  const startedMs = performance.now()
  try {
    const busy = await busyStreams(pool, await log.logId(), [...folds.keys()], maxStreams)
    const refs = busy.map(({ stream, fold }) => ({ stream, fold: folds.get(fold)! }))
    const warmed = await runner.warm(refs, withinMs)
    if (refs.length > 0)
      logger.info(
        { streams: warmed, of: refs.length, tookMs: Math.round(performance.now() - startedMs) },
        'busy streams were read ahead',
      )
  } catch (err) {
    logger.warn({ err }, 'busy streams could not be read ahead: they are read when they are used')
  }
}

export const roles = ['http', 'projections', 'reactors'] as const
export type Role = (typeof roles)[number]

export type FareboxOptions = {
  readonly config: Config
  readonly roles: readonly Role[]
  /** Milliseconds since the epoch. */
  readonly systemClock: Clock
  /** As of `openCore`. */
  readonly clock?: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
  /** Called once the database is open and has its tables of this version: processes beside this one may use it. */
  readonly onDatabase?: (core: Core) => void
  /** Ends the process at once, for FAREBOX_CRASH_AT. */
  readonly kill: () => void
}

export type Farebox = {
  readonly core: Core
  readonly projecting: Projecting
  readonly payments: Payments
  readonly prices: LivePrices
  readonly registry: Registry
  /** E.g. `http://127.0.0.1:3000`; null without the role `http`. */
  readonly baseUrl: string | null
  /** Where this machine reads the measurements without a token; null without FAREBOX_METRICS_PORT. */
  readonly insideUrl: string | null
  /** The demo's keys, and whether they were made at this start; null without a demo. */
  readonly demo: { readonly demo: DemoFile; readonly fresh: boolean } | null
  /** The console, with links that sign the demo's accounts in once; null without the role `http`. */
  readonly console: ConsoleStart | null
  /** Settles when something that cannot be done without ended by itself; then close and end the process. */
  readonly failed: Promise<Error>
  /** Stops accepting, finishes what runs, flushes, and closes everything in turn. */
  close(): Promise<void>
}

/** What an account's command wrote, its later reads here wait for (docs/architecture.md, "Invariants"). */
const remembering = (runner: Core['runner'], reads: Reads): Core['runner'] => ({
  ...runner,
  run: async (command) => {
    const outcome = await runner.run(command)
    if (command.account !== undefined && outcome.position !== null)
      reads.known(command.account, outcome.position)
    return outcome
  },
})

/**
 * Wires and starts one process of Farebox: everything is made here and handed on, nothing is looked up.
 * @throws SettingsRefused, DataInUse, DatabaseUnreachable, MigrationRefused, KeyRefused, StartRefused, ProjectionsRefused:
 * the start is to stop with their message
 */
export const openFarebox = (options: FareboxOptions): Promise<Farebox> =>
  closeOnFailure((closing) => openInto(closing, options))

const openInto = async (closing: CloseStack, options: FareboxOptions): Promise<Farebox> => {
  const { config, systemClock, monotonicMs, logger, kill } = options
  const has = (role: Role): boolean => options.roles.includes(role)
  const hooks = crashHooks(config.crashAt, kill)
  const registry = createRegistry()
  closing.add(registerRuntimeMetrics(registry))

  const opened = await openCore({
    config,
    role: 'server',
    workers: serverWorkers,
    systemClock,
    ...(options.clock && { clock: options.clock }),
    logger,
    hooks,
    metrics: createRunnerMetrics(registry),
  })
  closing.add(opened.close)
  options.onDatabase?.(opened)
  const projecting = await startProjecting(opened, { folds: has('projections'), hooks })
  closing.add(projecting.stop)
  const reads = createReads({ progress: projecting.progress, log: opened.log, group: hot.name })
  const core: Core = { ...opened, runner: remembering(opened.runner, reads) }
  const prices = createLivePrices(core, projecting)
  registerGauges(registry, { ...core, projections: projecting })
  let baseUrl: string | null = null
  const where = (): string => baseUrl ?? urlOf(config)
  const payments = await openPayments(core, closing, {
    serves: has('http'),
    baseUrl: where,
    monotonicMs,
    hooks,
  })
  const { sandboxUrl } = payments
  const providers = openProviders(core, closing, { sandboxUrl, monotonicMs, registry })
  const scrapers = openScrapers(core, closing, { hooks, ...providers })
  if (has('reactors')) {
    const delivery = await startSealDelivery(core, registry, systemClock)
    if (delivery !== null) closing.add(delivery.stop)
    // Stopped when nobody else here writes any more: its last seal is of what they wrote.
    startAuditing(core, closing, projecting, { registry, onSeal: () => delivery?.wake() })
  }
  const reactors = has('reactors')
    ? startReactors(core, projecting, payments, { prices, scrapers, monotonicMs, registry })
    : null
  if (reactors) closing.add(reactors.stop)

  const failed = Promise.withResolvers<Error>()
  void core.failed.then(failed.resolve)
  let starting: string | null = 'still starting'
  let api: Api | null = null
  let insideUrl: string | null = null
  if (has('http')) {
    api = createApi({
      core,
      projecting,
      prices,
      reads,
      payments,
      scrapers,
      callbackStored: () => reactors?.callbackStored(),
      registry,
      checks: openOneOffChecks({ ...core, config, monotonicMs }, closing),
      monotonicMs,
      consoleOrigin: () => consoleOriginOf(config, where()),
      starting: () => starting,
      fail: failed.resolve,
    })
    closing.add(api.stop)
    if (api.insideServer !== null && config.metricsPort !== null) {
      const place = { host: '127.0.0.1', port: config.metricsPort }
      insideUrl = await listen(api.insideServer, place, 'FAREBOX_METRICS_PORT')
      logger.info({ url: `${insideUrl}/metrics` }, 'this machine reads the measurements without a token')
    }
    baseUrl = await listen(api.server, config)
    const { server } = api
    closing.add(() => shutDown(server, config.shutdownTimeoutMs))
  }
  const seeding = { ...core, runner: opened.logWait?.runner(core.runner) ?? core.runner }
  const places = { baseUrl: where(), sandbox: payments.sandboxUrl }
  const demo = await withStartFiles(config.dataDir, () => seedDemo(seeding, places))
  const console = has('http')
    ? await startConsole(core, consoleOriginOf(config, where()), demo?.demo ?? null)
    : null
  if (has('http')) await warmFolds(core)
  await api?.caughtUp()
  starting = null
  opened.logWait?.end()
  return {
    core,
    projecting,
    payments,
    prices,
    registry,
    baseUrl,
    insideUrl,
    demo,
    console,
    failed: failed.promise,
    close: closing.close,
  }
}
