import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import type { Config } from './app/config.ts'
import type { Farebox, Role } from './app/start.ts'
import type { Supervised } from './app/supervise.ts'
import type { Core } from './platform/feature/core.ts'

// Caches compiled code, as cli.ts does: compiling the modules takes a third of the startup time.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/farebox'))

const { openFarebox, roles } = await import('./app/start.ts')
const { readConfig } = await import('./app/config.ts')
const { canCheck, superviseAuditor, superviseFreelist } = await import('./app/supervise.ts')
const { checkPorts, portCollision } = await import('./app/ports.ts')
const { gatewayPort, superviseGateway } = await import('./app/supervise.ts')
const { greeting } = await import('./app/greeting.ts')
const { checkOpenFiles, readOpenFilesLimit } = await import('./app/open-files.ts')
const { openThroughOutages } = await import('./app/open-through-outages.ts')
const { onNpmExit } = await import('./app/npm-watch.ts')
const { endWithin } = await import('./app/shutdown.ts')
const { unknownSettings } = await import('./app/settings-command.ts')
const { endLeasesOf } = await import('./gateway/admit/budgets.ts')
const { closeOnFailure } = await import('./kernel/resource-scope.ts')
const { standardErrorLog } = await import('./platform/http/logging.ts')
const { createLogger } = await import('./platform/http/logging.ts')
const { prettyLines } = await import('./platform/http/logging.ts')
const { wideNetworks } = await import('./platform/http/connections.ts')
const { isTemporary } = await import('./platform/commands/command.ts')
const { isDatabaseOutage, StartRefused } = await import('./platform/postgres/errors.ts')

/** Errors whose message says what to do. They are printed without a stack. */
const expected = new Set([
  'SettingsRefused',
  'DataInUse',
  'DatabaseUnreachable',
  'LockHeld',
  'MigrationRefused',
  'KeyRefused',
  'ProjectionsRefused',
  'StartRefused',
  'LogUnreachable',
])

/** Repeated signals within this time count as one: `npm start` forwards the Ctrl-C that the terminal also sends. */
const repeatedSignalMs = 1_000

const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}

/** Whether the disk is full, by the error codes of Node, Postgres and SQLite. */
const isDiskFull = (error: Error): boolean => {
  const { code, errcode, cause } = error as { code?: unknown; errcode?: unknown; cause?: unknown }
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === '53100' || errcode === 13) return true
  return cause instanceof Error && isDiskFull(cause)
}

const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  if (isDiskFull(error)) return `the disk is full: ${error.message}. Make room and start again.`
  if (isDatabaseOutage(error)) return `the database cannot answer: ${error.message}. Start again when it can.`
  return expected.has(error.name) || isTemporary(error) ? error.message : (error.stack ?? error.message)
}

/** The roles of this process, and the processes that it starts. */
type Wanted = {
  readonly roles: readonly Role[]
  readonly audit: boolean
  readonly gateway: boolean
  readonly freelist: boolean
}

const wantedOf = (args: readonly string[]): Wanted => {
  const known = [...roles, 'audit', 'gateway', 'freelist']
  const wrong = args.filter((arg) => !known.includes(arg))
  if (wrong.length > 0)
    throw new StartRefused(
      `there is no role ${wrong.join(', ')}. Start without arguments, which runs all roles, or name some of ${known.join(', ')}.`,
    )
  if (args.length === 0) return { roles, audit: true, gateway: true, freelist: true }
  return {
    roles: roles.filter((role) => args.includes(role)),
    audit: args.includes('audit'),
    gateway: args.includes('gateway'),
    freelist: args.includes('freelist'),
  }
}

/** The error message if none of the requested processes can run. */
const nothingToRun = ({ audit, gateway }: Wanted, { freelist }: Config): string => {
  if (audit) return 'FAREBOX_AUDITOR is off: there is no auditor to run'
  if (gateway) return 'FAREBOX_GATEWAY_WORKERS is 0: there is no gateway to run'
  return freelist.checker
    ? 'FAREBOX_FREELIST_JUDGE_HOST is not set, and no sandbox runs: there is nothing to check free proxies with'
    : 'FAREBOX_FREELIST_CHECKER is off: there is no checker of free proxies to run'
}

/**
 * Reads the settings. After an error it also warns about unknown settings, because a misspelt name may be the cause.
 */
const readSettings = (): Config => {
  try {
    return readConfig(process.env)
  } catch (error) {
    for (const warning of unknownSettings(process.env)) process.stderr.write(`warning: ${warning}\n`)
    throw error
  }
}

const run = async (): Promise<void> => {
  // A closed output, such as that of a closed terminal, must not end the process.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
  const wanted = wantedOf(process.argv.slice(2))
  const settings = readSettings()
  const gateway = wanted.gateway && settings.gateway.workers > 0
  const audit = wanted.audit && settings.auditor
  const freelist = wanted.freelist && settings.freelist.checker && canCheck(settings)
  if (wanted.roles.length === 0 && !audit && !gateway && !freelist)
    throw new StartRefused(nothingToRun(wanted, settings))
  checkOpenFiles(await readOpenFilesLimit())
  const runs = { server: wanted.roles.includes('http'), gateway, freelist }
  const collision = portCollision(settings, runs)
  if (collision !== null) throw new StartRefused(collision)
  await checkPorts(settings, runs)
  // Customers of a real shop know its port, so only a shop without real payments may choose another port.
  const mayMove = !process.env.FAREBOX_GATEWAY_PORT && runs.server && settings.payments.sandbox !== null
  const config = gateway
    ? { ...settings, gateway: { ...settings.gateway, port: await gatewayPort(settings, mayMove) } }
    : settings
  // The greeting goes to standard output, the log to standard error.
  const log = standardErrorLog()
  const forPeople =
    config.logFormat === 'pretty' || (config.logFormat === 'auto' && process.stderr.isTTY === true)
  const logger = createLogger(
    forPeople && !process.env.LOG_LEVEL ? 'warn' : config.logLevel,
    forPeople ? prettyLines(log.destination) : log.destination,
  )
  /** Prints a line for a person at the terminal. The log of a service has its own lines for these events. */
  const tell = (text: string): void => {
    if (forPeople) process.stderr.write(`${text}\n`)
  }
  const where = config.databaseUrl === null ? ` on the data in ${config.dataDir}` : ''
  tell(`Farebox starts${where}. Ctrl-C stops it.`)
  for (const warning of unknownSettings(process.env)) logger.warn(warning)
  if (mayMove && gateway && config.gateway.port !== settings.gateway.port)
    logger.warn(
      { taken: settings.gateway.port, port: config.gateway.port },
      'the default port of the gateway is taken by another program: the gateway has a free one until the next start; FAREBOX_GATEWAY_PORT sets a lasting one',
    )
  for (const network of wideNetworks(process.env.FAREBOX_TRUSTED_PROXY ?? ''))
    logger.warn(
      { network },
      'FAREBOX_TRUSTED_PROXY trusts a large part of the Internet: clients there can claim any address',
    )
  if (config.webhookAllowLoopback && process.env.FAREBOX_WEBHOOK_ALLOW_LOOPBACK)
    logger.warn(
      'FAREBOX_WEBHOOK_ALLOW_LOOPBACK lets webhooks go to this machine and over plain http: for development only',
    )
  if (config.gatewayAllowLoopback)
    logger.warn(
      "FAREBOX_GATEWAY_ALLOW_LOOPBACK lets lines reach this machine through the sandbox's exits: for development only",
    )
  if (config.clockOffsetMs !== 0)
    logger.warn({ offsetMs: config.clockOffsetMs }, 'FAREBOX_CLOCK_OFFSET_MS moves the clock of the service')

  const supervised: Supervised[] = []
  let gatewayWorkers: Supervised | null = null
  let freelistChecker: Supervised | null = null
  let auditor: Supervised | null = null
  const problemOf = (started: () => Supervised | null) => async () => started()?.problem() ?? null
  const closeSupervised = async (): Promise<void> => {
    await Promise.all(supervised.map((one) => one.close()))
  }
  const startBeside = (core: Core | null): void => {
    const { env } = process
    if (gateway) {
      gatewayWorkers = superviseGateway({
        config,
        env,
        logger,
        onExit: (worker) => {
          if (core === null) return
          endLeasesOf(core.pool, worker).catch((err) =>
            logger.warn({ err, worker }, 'what a gateway worker had on lease is sold again in a minute'),
          )
        },
      })
      supervised.push(gatewayWorkers)
    }
    if (freelist) {
      freelistChecker = superviseFreelist({ env, logger })
      supervised.push(freelistChecker)
    }
    if (audit) auditor = superviseAuditor({ config, env, logger })
  }
  const isStarting = new AbortController()
  const open = () =>
    closeOnFailure(async (closing) => {
      supervised.length = 0
      closing.add(() => auditor?.close())
      closing.add(closeSupervised)
      if (wanted.roles.length === 0) {
        startBeside(null)
        return null
      }
      return openFarebox({
        config,
        roles: wanted.roles,
        systemClock: Date.now,
        monotonicMs: () => performance.now(),
        logger,
        starting: isStarting.signal,
        onDatabase: startBeside,
        supervisedProbes: [
          ...(gateway
            ? [{ name: 'gateway', part: 'gateway', check: problemOf(() => gatewayWorkers) } as const]
            : []),
          ...(freelist
            ? [{ name: 'free list', note: true, check: problemOf(() => freelistChecker) } as const]
            : []),
          ...(audit ? [{ name: 'auditor', note: true, check: problemOf(() => auditor) } as const] : []),
        ],
        kill: () => process.kill(process.pid, 'SIGKILL'),
      })
    })
  const starting = openThroughOutages(open, { logger, starting: isStarting.signal })

  const close = async (): Promise<void> => {
    try {
      const farebox = await starting.catch(() => null) // the start reports why it failed
      // The other processes end first, because they use the Postgres of this process.
      await Promise.all([closeSupervised(), farebox?.drain()])
      // It seals the events of the other processes.
      await auditor?.close()
      await farebox?.close()
    } catch (error) {
      logger.error({ err: error }, 'the shutdown failed')
      process.exitCode = 1
    }
    await log.flush()
    process.exit()
  }
  let stoppingSinceMs: number | null = null
  let running: Farebox | null = null
  const stop = (why: string): void => {
    if (stoppingSinceMs !== null) {
      // A second signal after this time ends the process at once.
      if (performance.now() - stoppingSinceMs > repeatedSignalMs) process.exit(1)
      return
    }
    stoppingSinceMs = performance.now()
    isStarting.abort()
    logger.info({ why }, 'stopping')
    tell('Farebox stops.')
    for (const one of [...supervised, auditor]) one?.endRestarts()
    const delayMs = running !== null && why === 'SIGTERM' ? config.shutdownDelayMs : 0
    endWithin(delayMs + config.shutdownTimeoutMs, () => {
      logger.error('the shutdown took too long: the process ends without waiting any longer')
      for (const one of [...supervised, auditor]) one?.kill()
      void log.flush().then(() => process.exit(1))
    })
    running?.leave()
    setTimeout(() => void close(), delayMs)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop(signal))
  process.on('SIGHUP', () => stop('SIGHUP: the terminal was closed'))
  onNpmExit(process.env, () => stop('npm, which started this process, is gone'))

  const farebox = await starting.catch((error) => {
    // A signal broke the start off: `stop` ends the process.
    if (stoppingSinceMs !== null) return new Promise<never>(() => undefined)
    throw error
  })
  isStarting.abort()
  const fail = (error: Error): void => {
    logger.fatal({ err: error }, 'Farebox cannot go on')
    process.exitCode = 1
    stop(error.message)
  }
  const besideReady = Promise.all([...supervised, auditor].map((one) => one?.ready)).then(
    () => true,
    (error) => {
      fail(error)
      return false
    },
  )
  if (farebox === null) {
    if (!(await besideReady)) return
    if (gateway)
      say(`Farebox's gateway listens on ${config.gateway.listen.join(', ')}, port ${config.gateway.port}`)
    if (freelist) say("Farebox's checker of free proxies runs")
    if (audit) say("Farebox's auditor runs")
    return
  }
  running = farebox
  void farebox.failed.then(fail)
  const { baseUrl, demo, console, isEmpty: empty } = farebox
  // Wait for the other processes, so that everything in the greeting works at once.
  if (!(await besideReady)) return
  const at = gateway ? `${config.gateway.host}:${config.gateway.port}` : null
  say(greeting({ baseUrl, dataDir: config.dataDir, demo, console, empty, gateway: at }))
}

await run().catch((error) => {
  process.stderr.write(`Farebox does not start: ${reasonOf(error)}\n`)
  process.exit(1)
})
