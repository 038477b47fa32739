import pino from 'pino'
import { type Farebox, openFarebox, type Role, roles } from './app.ts'
import { readConfig } from './config.ts'
import { keyLines, tour } from './demo/tour.ts'
import { createLogger } from './http/logging.ts'

/** Errors that say by themselves what to do; a stack would only hide it. */
const expected = new Set([
  'SettingsRefused',
  'DataInUse',
  'MigrationRefused',
  'KeyRefused',
  'ProjectionsRefused',
])

/** Signals that come within this time are one. */
const repeatedSignalMs = 1_000

const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}

const stopWith = (error: unknown): never => {
  const known = error instanceof Error && expected.has(error.name)
  process.stderr.write(`Farebox does not start: ${known ? error.message : describe(error)}\n`)
  process.exit(1)
}

const describe = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error)

const rolesOf = (args: readonly string[]): readonly Role[] => {
  const wrong = args.filter((arg) => !roles.includes(arg as Role))
  if (wrong.length > 0)
    throw new Error(`there is no role ${wrong.join(', ')}; the roles are ${roles.join(', ')}`)
  return args.length === 0 ? roles : (args as readonly Role[])
}

const greet = ({ baseUrl, demo, core }: Farebox): void => {
  if (demo && baseUrl !== null) {
    if (demo.fresh) say(keyLines(demo.demo, `${core.config.dataDir}/demo.json`))
    say(`\n${tour(demo.demo)}\n`)
  }
  say(baseUrl === null ? 'Farebox runs' : `Farebox listens on ${baseUrl}`)
}

const start = async (): Promise<void> => {
  const wanted = rolesOf(process.argv.slice(2))
  const config = readConfig(process.env)
  // Lines for people stand on standard output, the log on standard error.
  const destination = pino.destination({ dest: 2, sync: false })
  const logger = createLogger(config.logLevel, destination)
  if (config.clockOffsetMs !== 0)
    logger.warn(
      { offsetMs: config.clockOffsetMs },
      'FAREBOX_CLOCK_OFFSET_MS moves the clock of the whole service',
    )

  const farebox = await openFarebox({
    config,
    roles: wanted,
    systemClock: Date.now,
    monotonicMs: () => performance.now(),
    logger,
    kill: () => process.kill(process.pid, 'SIGKILL'),
  })

  let stoppingSinceMs: number | null = null
  const stop = async (code: number): Promise<void> => {
    if (stoppingSinceMs !== null) {
      // `npm start` hands Ctrl-C on that the terminal sent already; a later one means: now.
      if (performance.now() - stoppingSinceMs > repeatedSignalMs) process.exit(1)
      return
    }
    stoppingSinceMs = performance.now()
    try {
      await farebox.close()
      process.exitCode = code
    } catch (error) {
      logger.error({ err: error }, 'the shutdown failed')
      process.exitCode = 1
    }
    destination.flushSync()
    process.exit()
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => {
      logger.info({ signal }, 'stopping')
      void stop(0)
    })
  void farebox.failed.then((error) => {
    logger.fatal({ err: error }, 'stopping')
    void stop(1)
  })
  greet(farebox)
}

await start().catch(stopWith)
