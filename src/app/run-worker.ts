import type { Logger } from 'pino'
import { createLogger, prettyLines, standardErrorLog } from '../platform/http/logging.ts'
import { isDatabaseOutage } from '../platform/postgres/errors.ts'
import { type Config, readConfig } from './config.ts'
import { openThroughOutages } from './open-through-outages.ts'
import { endWithin } from './shutdown.ts'
import { answerPings, refusedCode, type WorkerMessage } from './supervise.ts'

/** A ready process next to the service. */
export type Worker = {
  /** A unique name of this process. */
  readonly worker: string
  /** Resolves when it cannot continue: then the process ends. */
  readonly failed?: Promise<Error>
  close(): Promise<void>
}

/** Errors with a message that is sufficient without the stack: it contains the remedy. */
const refusals = new Set([
  'StartRefused',
  'KeyRefused',
  'SettingsRefused',
  'FareboxNotInstalled',
  'MigrationRefused',
  'ProjectionsRefused',
])

/**
 * Runs this process as a worker. Its supervisor (supervise.ts) starts it and receives a message when it is ready. A
 * signal or the end of the supervisor stops it.
 * @param name its name in messages, such as `the gateway`
 */
export const runWorker = async (
  name: string,
  open: (parts: {
    readonly config: Config
    readonly index: number
    readonly logger: Logger
    /** See `openPool`. */
    readonly starting: AbortSignal
  }) => Promise<Worker>,
): Promise<void> => {
  answerPings()
  const run = async (): Promise<void> => {
    const config = readConfig(process.env)
    const log = standardErrorLog()
    const isPretty =
      config.logFormat === 'pretty' || (config.logFormat === 'auto' && process.stderr.isTTY === true)
    const logger = createLogger(
      isPretty && !process.env.LOG_LEVEL ? 'warn' : config.logLevel,
      isPretty ? prettyLines(log.destination) : log.destination,
    )
    const starting = new AbortController()
    const parts = { config, index: Number(process.argv[2] ?? 0), logger, starting: starting.signal }
    const opening = openThroughOutages(() => open(parts), parts)
    let isReady = false
    let isStopping = false
    const stop = async (): Promise<void> => {
      if (isStopping) return
      isStopping = true
      // Before it is ready it has no work to finish.
      if (!isReady) {
        await log.flush()
        process.exit()
      }
      starting.abort()
      endWithin(config.shutdownTimeoutMs, () => {
        logger.error(`${name} did not end in time: it ends without waiting any longer`)
        void log.flush().then(() => process.exit(1))
      })
      try {
        const worker = await opening
        await worker.close()
      } catch (error) {
        logger.error({ err: error }, `${name} did not end cleanly`)
        process.exitCode = 1
      }
      await log.flush()
      process.exit()
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stop())
    // The supervisor has ended, so nothing would restart or stop this process.
    process.on('disconnect', () => void stop())
    const { worker, failed } = await opening
    isReady = true
    starting.abort()
    void failed?.then((error) => {
      logger.fatal({ err: error }, `${name} cannot go on`)
      process.exitCode = 1
      void stop()
    })
    process.send?.({ worker } satisfies WorkerMessage)
  }
  await run().catch((error: Error) => {
    const isRefused = refusals.has(error.name)
    const displayName = `${name[0]?.toUpperCase()}${name.slice(1)}`
    const hasSufficientMessage = isRefused || error.name === 'DatabaseUnreachable' || isDatabaseOutage(error)
    process.stderr.write(
      `${displayName} does not start: ${hasSufficientMessage ? error.message : error.stack}\n`,
    )
    process.exit(isRefused ? refusedCode : 1)
  })
}
