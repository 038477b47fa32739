import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import type { WorkerReady } from './app/gateway/supervise.ts'

// As in main.ts.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/farebox'))

const { readConfig } = await import('./app/config.ts')
const { refusedCode } = await import('./app/gateway/supervise.ts')
const { openGatewayWorker } = await import('./app/gateway/worker.ts')
const { standardErrorLog } = await import('./platform/http/log-destination.ts')
const { createLogger } = await import('./platform/http/logging.ts')
const { prettyLines } = await import('./platform/http/pretty-lines.ts')

/** One process of the gateway; its supervisor (`src/app/gateway/supervise.ts`) starts it, and ends it by a signal. */
const refusals = new Set(['StartRefused', 'KeyRefused', 'SettingsRefused', 'FareboxAbsent'])

const run = async (): Promise<void> => {
  const config = readConfig(process.env)
  const log = standardErrorLog()
  const pretty =
    config.logFormat === 'pretty' || (config.logFormat === 'auto' && process.stderr.isTTY === true)
  const logger = createLogger(
    pretty && !process.env.LOG_LEVEL ? 'warn' : config.logLevel,
    pretty ? prettyLines(log.destination) : log.destination,
  )
  const opening = openGatewayWorker({
    config,
    index: Number(process.argv[2] ?? 0),
    systemClock: Date.now,
    monotonicMs: () => performance.now(),
    random: Math.random,
    logger,
  })
  let stopping = false
  const stop = async (): Promise<void> => {
    if (stopping) return
    stopping = true
    try {
      const worker = await opening
      await worker.close()
    } catch (error) {
      logger.error({ err: error }, 'the gateway did not end cleanly')
      process.exitCode = 1
    }
    log.flush()
    process.exit()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stop())
  // Its supervisor is gone, killed perhaps: nobody would start or stop it any more.
  process.on('disconnect', () => void stop())
  const { worker } = await opening
  process.send?.({ ready: true, worker } satisfies WorkerReady)
}

await run().catch((error: Error) => {
  const refused = refusals.has(error.name)
  process.stderr.write(`The gateway does not start: ${refused ? error.message : error.stack}\n`)
  process.exit(refused ? refusedCode : 1)
})
