import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { hostname } from 'node:os'
import type pg from 'pg'
import type { Logger } from 'pino'
import { Registry } from 'prom-client'
import {
  createChecker,
  createCpuBudget,
  createFeeds,
  createFreelistMetrics,
  createRecordStore,
  freeListChecks,
  freeListFeeds,
  freeListLeader,
  freeListWorkers,
  isSandboxed,
  maxFeedBytes,
  openChecking,
  readSources,
  type Source,
  sandboxSources,
} from '../features/free-list/process.ts'
import type { Clock, MonotonicClock } from '../kernel/clock.ts'
import { type CloseStack, closeOnFailure } from '../kernel/resource-scope.ts'
import { registerRuntimeMetrics } from '../platform/http/gauges.ts'
import { publicOutgoing, type Send, sandboxOutgoing } from '../platform/outgoing/send.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import { createScheduler } from '../platform/work/scheduler.ts'
import { readFeeds } from '../sandbox/free-list/feeds.ts'
import { postgresRecords } from '../sandbox/sandbox-store.ts'
import { freeListClock, openPostgresClock, serviceClock, startClockGuard, warnOfClock } from './clock.ts'
import type { Config } from './config.ts'
import { serveWorkerMetrics } from './listen.ts'
import { readOpenFilesLimit } from './open-files.ts'
import { openWorkerDatabase } from './open-pool.ts'
import type { Worker } from './run-worker.ts'

type Options = {
  readonly config: Config
  readonly systemClock: Clock
  readonly monotonicMs: MonotonicClock
  /** Processor time that this process has used, milliseconds. */
  readonly cpuMs: () => number
  readonly random: () => number
  readonly logger: Logger
  /** See `openPool`. */
  readonly starting?: AbortSignal | undefined
}

const poolSize = 4
const requiredTables = ['work.free_proxies', 'work.proxy_sources', 'work.sandbox_records']

/**
 * A leader that does not answer Postgres, or gets no answer from it, for this long is replaced by another process.
 */
const answerTimeoutMs = 10_000
const retryMs = 1_000
/** Time limit of one feed, milliseconds. Some feeds are slow. */
const feedTimeoutMs = 60_000
const feedConnectMs = 5_000

/** Sockets for checks. The rest is reserved for the database, the judge's side of each check, and files. */
const socketsWithin = async (requestedSockets: number, logger: Logger): Promise<number> => {
  const limit = await readOpenFilesLimit()
  const maxSockets = limit === null ? requestedSockets : Math.max(50, Math.floor(limit * 0.7) - 200)
  if (maxSockets < requestedSockets)
    logger.warn(
      { openFiles: limit, sockets: maxSockets },
      'the process may open fewer files than FAREBOX_FREELIST_SOCKETS asks for',
    )
  return Math.min(requestedSockets, maxSockets)
}

const createSourceList = (parts: {
  readonly config: Config
  readonly pool: pg.Pool
  readonly configured: readonly Source[]
  readonly closing: CloseStack
}): (() => Promise<readonly { readonly source: Source; readonly send: Send }[]>) => {
  const { config, pool, configured, closing } = parts
  const publicClient = publicOutgoing({
    limits: { connectMs: feedConnectMs, requestMs: feedTimeoutMs, responseBytes: maxFeedBytes },
  })
  closing.add(publicClient.close)
  const records = postgresRecords(pool)
  let sandboxClient: {
    readonly baseUrl: string
    readonly outgoing: ReturnType<typeof sandboxOutgoing>
  } | null = null
  closing.add(() => sandboxClient?.outgoing.close())
  return async () => {
    const configuredSources = configured.map((source) => ({ source, send: publicClient.send }))
    const feeds = isSandboxed(config) ? await readFeeds(records) : null
    if (feeds === null) return configuredSources
    if (sandboxClient?.baseUrl !== feeds.baseUrl) {
      await sandboxClient?.outgoing.close()
      sandboxClient = { baseUrl: feeds.baseUrl, outgoing: sandboxOutgoing(feeds.baseUrl) }
    }
    const { send } = sandboxClient.outgoing
    return [...configuredSources, ...sandboxSources(feeds.baseUrl).map((source) => ({ source, send }))]
  }
}

/**
 * Opens the process that reads feeds and checks endpoints. With several processes on one database, one works and the
 * others stand by. It uses Postgres and the master key. It neither reads nor writes the log.
 * @throws StartRefused, KeyRefused, DatabaseUnreachable: the start must stop with their message
 */
export const openFreelistWorker = (options: Options): Promise<Worker> =>
  closeOnFailure((closing) => openInto(closing, options))

const openInto = async (closing: CloseStack, options: Options): Promise<Worker> => {
  const { config, systemClock, monotonicMs, cpuMs, random, logger, starting } = options
  const { freelist } = config
  const configured = await readSources(freelist.sources)
  const { pool, keys } = await openWorkerDatabase(closing, {
    config,
    applicationName: 'farebox-freelist',
    poolSize,
    needed: requiredTables,
    logger,
    starting,
  })
  const time = await openPostgresClock({ pool, systemClock, monotonicMs })
  const clock = serviceClock(time, config)
  const scheduler = createScheduler({
    workers: [freeListClock, ...freeListWorkers],
    pool,
    place: { host: hostname(), pid: process.pid },
    clock,
    logger,
  })
  closing.add(scheduler.stop)
  const clockWorker = freeListClock
  const clockGuard = startClockGuard({ scheduler, time, as: clockWorker, onChange: warnOfClock(logger) })
  closing.add(clockGuard.stop)
  const checkEnvironment = await openChecking({ config, keys, clock, monotonicMs, logger }, closing, {
    serves: true,
  })
  if (checkEnvironment === null)
    throw new StartRefused(
      'there is no judge to check proxies with: FAREBOX_FREELIST_JUDGE_HOST says where proxies reach one, or FAREBOX_FREELIST_CHECKER=off runs no checker',
    )
  const { judge, prober, rules } = checkEnvironment
  if (!(await judge.answers()))
    logger.warn(
      'the judge of free proxies does not answer at its own address: nothing is checked until it does',
    )

  const store = createRecordStore(pool)
  const registry = new Registry()
  closing.add(registerRuntimeMetrics(registry))
  let lateMs = 0
  const sockets = await socketsWithin(freelist.sockets, logger)
  const metrics = createFreelistMetrics(registry, {
    running: () => checker.counts().running,
    sockets: prober.openSockets,
    paused: () => checker.counts().pausedForJudge,
    lateMs: () => lateMs,
  })
  const checker = createChecker({
    store,
    check: prober.check,
    openSockets: prober.openSockets,
    judgeAnswers: judge.answers,
    mayBegin: createCpuBudget({ share: freelist.cpuShare, monotonicMs, cpuMs }),
    limits: {
      sockets,
      connectTimeoutMs: freelist.connectTimeoutMs,
      timeoutMs: freelist.timeoutMs,
    },
    clock,
    monotonicMs,
    random,
    logger,
    onChecked: (_before, result) => metrics.checked(result),
  })
  closing.add(checker.stop)
  const feeds = createFeeds({
    pool,
    sources: createSourceList({ config, pool, configured, closing }),
    rules,
    mostEndpoints: freelist.endpoints,
    clock,
    logger,
  })

  const leaderWorker = scheduler.lead(
    freeListLeader,
    async ({ signal }) => {
      const feedReader = scheduler.start(freeListFeeds, async () => {
        await feeds.readDue()
        lateMs = (await store.lateMs(clock())) ?? 0
      })
      const checks = scheduler.start(freeListChecks, checker.round)
      await feedReader.runNow().catch(() => undefined) // logged; the next run tries again
      if (!signal.aborted) await once(signal, 'abort')
      await Promise.all([feedReader.stop(), checks.stop()])
    },
    {
      answerTimeoutMs,
      onError: (err) => {
        logger.warn({ err }, 'the checker of free proxies starts over')
        return retryMs
      },
    },
  )
  closing.add(leaderWorker.stop)
  if (freelist.metricsPort !== null)
    await serveWorkerMetrics(closing, registry, freelist.metricsPort, 'FAREBOX_FREELIST_METRICS_PORT')
  return { worker: `freelist ${hostname()} ${process.pid} ${randomUUID()}`, close: closing.close }
}
