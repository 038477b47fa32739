import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { isSandboxed } from '../features/free-list/settings.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { Config } from './config.ts'
import { portCollision, tryPort } from './ports.ts'

/** What a worker tells its supervisor, once: it does its work. */
export type WorkerReady = { readonly ready: true; readonly worker: string }

export type Supervised = {
  /** Resolves once every worker does its work; rejects when one of them refuses to start. */
  readonly ready: Promise<void>
  /** Why the workers do not do their work: one has not begun yet, or ends again and again. Null: they do. */
  problem(): string | null
  /** Has the workers finish what runs, and ends them. */
  close(): Promise<void>
  /** Ends them at once. */
  kill(): void
}

/** A worker that ended is started again after this long, doubling to the longest, milliseconds. */
const restart = { firstMs: 100, longestMs: 10_000 }
/** A worker that ran this long began well. */
const steadyMs = 60_000
/** One that ended so often in a row, without having begun well, ends again and again. */
const manyFailures = 3

const isSteady = ({ startedMs }: { readonly startedMs: number }): boolean =>
  performance.now() - startedMs > steadyMs

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
  readonly onExit?: ((worker: string) => void) | undefined
}): Supervised => {
  const { entry, count, env, flags, name, graceMs, logger, onExit } = parts
  const workers = new Set<ChildProcess>()
  const timers = new Set<NodeJS.Timeout>()
  /** Of each worker, by its place. */
  const states = Array.from({ length: count }, () => ({ begun: false, failures: 0, startedMs: 0 }))
  let closing = false

  const start = (index: number, told: (error: Error | null) => void): void => {
    const state = states[index]!
    state.startedMs = performance.now()
    const child = fork(entry, [String(index)], {
      env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      ...(flags && { execArgv: [...flags] }),
    })
    workers.add(child)
    let worker: string | null = null
    child.on('message', (message: WorkerReady) => {
      worker = message.worker
      state.begun = true
      logger.info({ worker, pid: child.pid }, `${name} is ready`)
      told(null)
    })
    child.once('exit', (code, signal) => {
      workers.delete(child)
      if (worker !== null) onExit?.(worker)
      if (closing) return
      const refused = code === refusedCode
      if (refused) told(new StartRefused(`${name} refused to start; its message says why`))
      state.failures = isSteady(state) ? 0 : state.failures + 1
      const inMs = refused
        ? restart.longestMs
        : Math.min(restart.longestMs, restart.firstMs * 2 ** state.failures)
      logger.error({ code, signal, inMs }, `${name} ended and is started again`)
      const timer = setTimeout(() => {
        timers.delete(timer)
        start(index, told)
      }, inMs)
      timers.add(timer)
    })
  }

  const ready = Promise.all(
    Array.from(
      { length: count },
      (_, index) =>
        new Promise<void>((resolve, reject) => {
          start(index, (error) => (error === null ? resolve() : reject(error)))
        }),
    ),
  ).then(() => undefined)
  ready.catch(() => undefined) // whoever waits for it hears of it

  const startNoMore = (): void => {
    closing = true
    for (const timer of timers) clearTimeout(timer)
  }

  return {
    ready,
    kill: () => {
      startNoMore()
      for (const child of workers) child.kill('SIGKILL')
    },
    problem: () => {
      for (const state of states) {
        if (!state.begun) return `${name} has not begun yet`
        if (state.failures >= manyFailures && !isSteady(state))
          return `${name} ended ${state.failures} times in a row`
      }
      return null
    },
    close: async () => {
      startNoMore()
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

const freeListEntry = join(import.meta.dirname, '../freelist-worker.ts')

/** What runs is cut off, and checked again at the next start. */
const freeListGraceMs = 5_000

/** Whether there is anything to check with: a judge, or a sandbox that has one. */
export const canCheck = (config: Pick<Config, 'freelist' | 'payments'>): boolean =>
  config.freelist.judge !== null || isSandboxed(config)

/** Runs the checker of free proxies in a process of its own, without the flags that give the service a large heap. */
export const superviseFreelist = (deps: {
  readonly env: NodeJS.ProcessEnv
  readonly logger: Logger
}): Supervised =>
  supervise({
    ...deps,
    entry: freeListEntry,
    count: 1,
    flags: [],
    name: 'the checker of free proxies',
    graceMs: freeListGraceMs,
  })

const entry = join(import.meta.dirname, '../gateway-worker.ts')

/** Beyond what connections may take to drain. */
const graceMs = 5_000

/** So many ports after a taken one are tried. */
const nextPorts = 100

/**
 * The gateway's port, when it is free, or a free one for port 0. Workers may share a port, so without this check two
 * Fareboxes on one machine would serve each other's customers. With `mayMove` one of the next ports replaces one that is
 * taken: any free port could be given to another program before the workers listen.
 * @throws StartRefused when it is taken
 */
export const gatewayPort = async (config: Config, mayMove = false): Promise<number> => {
  const { port, listen } = config.gateway
  const tryAll = async (wanted: number): Promise<number> => {
    const [host, ...others] = listen
    const found = await tryPort(host, wanted)
    for (const other of others) await tryPort(other, found)
    return found
  }
  const nextFree = async (): Promise<number | null> => {
    for (let next = port + 1; next <= port + nextPorts; next += 1) {
      const moved = { ...config, gateway: { ...config.gateway, port: next } }
      if (portCollision(moved, { server: true, gateway: true }) !== null) continue
      const found = await tryAll(next).catch(() => null)
      if (found !== null) return found
    }
    return null
  }
  try {
    return await tryAll(port)
  } catch (error) {
    const moved = mayMove && (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? await nextFree() : null
    if (moved !== null) return moved
    throw new StartRefused(
      `port ${port} of ${listen.join(', ')}, the gateway's, cannot be had (${(error as Error).message}); set FAREBOX_GATEWAY_PORT to another one, or FAREBOX_GATEWAY_WORKERS=0 to run no gateway here`,
      { cause: error },
    )
  }
}

/** Runs the gateway's workers, each in a process of its own. */
export const superviseGateway = (deps: {
  readonly config: Config
  readonly env: NodeJS.ProcessEnv
  readonly logger: Logger
  /** A worker that took connections is gone: what it had on lease may be sold by others. */
  readonly onExit?: (worker: string) => void
}): Supervised => {
  const { config, logger, onExit } = deps
  const { port, workers } = config.gateway
  return supervise({
    entry,
    count: workers,
    env: { ...deps.env, FAREBOX_GATEWAY_PORT: String(port) },
    name: 'a gateway worker',
    graceMs: config.shutdownTimeoutMs + graceMs,
    logger,
    onExit,
  })
}
