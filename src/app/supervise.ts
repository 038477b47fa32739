import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Logger } from 'pino'

/** What a worker tells its supervisor, once: it does its work. */
export type WorkerReady = { readonly ready: true; readonly worker: string }

export type Supervised = {
  /** Resolves once every worker does its work; rejects when one of them refuses to start. */
  readonly ready: Promise<void>
  /** Has the workers finish what runs, and ends them. */
  close(): Promise<void>
}

/** A worker that ended is started again after this long, doubling to the longest, milliseconds. */
const restart = { firstMs: 100, longestMs: 10_000 }
/** A worker that ran this long began well. */
const steadyMs = 60_000

/** The exit code of a worker whose settings or surroundings must change first: starting it again helps nothing. */
export const refusedCode = 3

/**
 * Runs workers, each in a process of its own: whatever happens in one ends neither the others nor this process. A worker
 * that ends is started again.
 */
export const supervise = (parts: {
  /** The module that a worker runs; its one argument is its place among them, from 0. */
  readonly entry: string
  readonly count: number
  readonly env: NodeJS.ProcessEnv
  /** Flags of its Node; left out: those of this process. */
  readonly flags?: readonly string[]
  /** What a log line calls a worker, e.g. `a gateway worker`. */
  readonly name: string
  /** For what runs to finish. */
  readonly graceMs: number
  readonly logger: Logger
  /** A worker that was ready is gone. */
  readonly onGone?: ((worker: string) => void) | undefined
}): Supervised => {
  const { entry, count, env, flags, name, graceMs, logger, onGone } = parts
  const workers = new Set<ChildProcess>()
  const timers = new Set<NodeJS.Timeout>()
  let closing = false

  const start = (index: number, failures: number, told: (error: Error | null) => void): void => {
    const startedMs = performance.now()
    const child = fork(entry, [String(index)], {
      env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      ...(flags && { execArgv: [...flags] }),
    })
    workers.add(child)
    let worker: string | null = null
    child.on('message', (message: WorkerReady) => {
      worker = message.worker
      logger.info({ worker, pid: child.pid }, `${name} is ready`)
      told(null)
    })
    child.once('exit', (code, signal) => {
      workers.delete(child)
      if (worker !== null) onGone?.(worker)
      if (closing) return
      const refused = code === refusedCode
      if (refused) told(new Error(`${name} refused to start; its message says why`))
      const steady = performance.now() - startedMs > steadyMs
      const failed = steady ? 0 : failures + 1
      const inMs = refused ? restart.longestMs : Math.min(restart.longestMs, restart.firstMs * 2 ** failed)
      logger.error({ code, signal, inMs }, `${name} ended and is started again`)
      const timer = setTimeout(() => {
        timers.delete(timer)
        start(index, failed, told)
      }, inMs)
      timers.add(timer)
    })
  }

  const ready = Promise.all(
    Array.from(
      { length: count },
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
          const late = setTimeout(() => child.kill('SIGKILL'), graceMs)
          await gone
          clearTimeout(late)
        }),
      )
    },
  }
}
