import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { StartRefused } from '../../platform/postgres/start-refused.ts'
import type { Config } from '../config.ts'

/** What a worker tells its supervisor, once: it takes connections. */
export type WorkerReady = { readonly ready: true; readonly worker: string }

export type SupervisedGateway = {
  /** Resolves once every worker takes connections; rejects when one of them refuses to start. */
  readonly ready: Promise<void>
  /** Has the workers finish what runs, and ends them. */
  close(): Promise<void>
}

const entry = join(import.meta.dirname, '../../gateway-worker.ts')

/** A worker that ended is started again after this long, doubling to the longest, milliseconds. */
const restart = { firstMs: 100, longestMs: 10_000 }
/** A worker that ran this long began well. */
const steadyMs = 60_000
/** Beyond what connections may take to drain. */
const graceMs = 5_000

/** The exit code of a worker whose settings or surroundings must change first: starting it again helps nothing. */
export const refusedCode = 3

/**
 * Looks whether the gateway's port is free, or finds one for port 0. Workers may share a port, so without this look two
 * Fareboxes on one machine would serve each other's customers.
 * @throws StartRefused when it is taken
 */
export const gatewayPort = async ({ gateway: { port, listen } }: Config): Promise<number> => {
  const probe = createServer()
  probe.listen({ host: listen[0], port })
  try {
    await once(probe, 'listening')
  } catch (error) {
    throw new StartRefused(
      `port ${port} of ${listen[0]}, the gateway's, cannot be had (${(error as Error).message}); set FAREBOX_GATEWAY_PORT to another one, or FAREBOX_GATEWAY_WORKERS=0 to run no gateway here`,
      { cause: error },
    )
  }
  const found = (probe.address() as { readonly port: number }).port
  probe.close()
  await once(probe, 'close')
  return found
}

/**
 * Runs the gateway's workers, each in a process of its own: whatever happens in one ends neither the others nor this
 * process. A worker that ends is started again.
 */
export const superviseGateway = (deps: {
  readonly config: Config
  readonly env: NodeJS.ProcessEnv
  readonly logger: Logger
  /** A worker that took connections is gone: what it had on lease may be sold by others. */
  readonly onGone?: (worker: string) => void
}): SupervisedGateway => {
  const { config, logger, onGone } = deps
  const { port } = config.gateway
  const env = { ...deps.env, FAREBOX_GATEWAY_PORT: String(port) }
  const workers = new Set<ChildProcess>()
  const timers = new Set<NodeJS.Timeout>()
  let closing = false

  const start = (index: number, failures: number, told: (error: Error | null) => void): void => {
    const startedMs = performance.now()
    const child = fork(entry, [String(index)], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    workers.add(child)
    let worker: string | null = null
    child.on('message', (message: WorkerReady) => {
      worker = message.worker
      logger.info({ worker, port, pid: child.pid }, 'a gateway worker takes connections')
      told(null)
    })
    child.once('exit', (code, signal) => {
      workers.delete(child)
      if (worker !== null) onGone?.(worker)
      if (closing) return
      const refused = code === refusedCode
      if (refused) told(new Error('a gateway worker refused to start; its message says why'))
      const steady = performance.now() - startedMs > steadyMs
      const count = steady ? 0 : failures + 1
      const inMs = refused ? restart.longestMs : Math.min(restart.longestMs, restart.firstMs * 2 ** count)
      logger.error({ code, signal, inMs }, 'a gateway worker ended and is started again')
      const timer = setTimeout(() => {
        timers.delete(timer)
        start(index, count, told)
      }, inMs)
      timers.add(timer)
    })
  }

  const ready = Promise.all(
    Array.from(
      { length: config.gateway.workers },
      (_, index) =>
        new Promise<void>((resolve, reject) => {
          start(index, 0, (error) => (error === null ? resolve() : reject(error)))
        }),
    ),
  ).then(() => undefined)
  ready.catch(() => undefined) // whoever waits for it hears of it

  return {
    ready,
    close: async () => {
      closing = true
      for (const timer of timers) clearTimeout(timer)
      await Promise.all(
        [...workers].map(async (child) => {
          const gone = once(child, 'exit')
          child.kill('SIGTERM')
          const late = setTimeout(() => child.kill('SIGKILL'), config.shutdownTimeoutMs + graceMs)
          await gone
          clearTimeout(late)
        }),
      )
    },
  }
}
