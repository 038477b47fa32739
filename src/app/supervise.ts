import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { isSandboxed } from '../features/free-list/settings.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { Config } from './config.ts'
import { portCollision, tryPort } from './ports.ts'

/** A message of a worker to its supervisor: it is ready (sent once), or the answer to a ping. */
export type WorkerMessage = { readonly worker: string } | { readonly answers: true }

export type Supervised = {
  /** Resolves when every worker is ready. Rejects when a worker refuses to start. */
  readonly ready: Promise<void>
  /** A worker is not ready yet, does not answer, or ends repeatedly. Null: no problem. */
  problem(): string | null
  /**
   * From now on, a worker that ends is not restarted. A service that stops calls it first: a terminal or a service
   * manager sends its signal to the workers, too.
   */
  endRestarts(): void
  /** Stops the workers after their running work. */
  close(): Promise<void>
  /** Kills the workers at once. */
  kill(): void
}

/** Delay before an ended worker is restarted, milliseconds. It doubles up to the longest. */
const restart = { firstMs: 100, longestMs: 10_000 }
/** A worker that ran this long has started successfully, milliseconds. */
const steadyMs = 60_000
/** A worker that ended this often in a row, without a successful start, ends repeatedly. */
const manyFailures = 3

/**
 * A worker gets a ping every second. A ready one hangs after so many without an answer, and is then killed and
 * restarted. A starting one has more of them, because it answers none while it loads its modules; one that answers may
 * start for any time, such as during an outage of Postgres, and is only reported. Pings are counted instead of seconds,
 * so that a machine that was suspended finds no hanging worker.
 */
const pings = { everyMs: 1_000, hangsAfter: 10, killedAfter: 20 }
const startPings = { lateAfter: 30, killedAfter: 120 }
const ping = 'ping'

/** Answers the pings of the supervisor. Call it at the start of a worker. */
export const answerPings = (): void => {
  process.on('message', (message) => {
    if (message === ping) process.send?.({ answers: true } satisfies WorkerMessage)
  })
}

const isSteady = ({ readyMs }: { readonly readyMs: number | null }): boolean =>
  readyMs !== null && performance.now() - readyMs > steadyMs

/** The exit code of a worker that cannot start until its settings or its environment change. */
export const refusedCode = 3

/**
 * Runs workers, each in its own process. A failure of one does not end the others or this process. A worker that ends
 * is restarted.
 */
export const supervise = (parts: {
  /** The module of a worker. Its only argument is the worker's index, from 0. */
  readonly entry: string
  readonly count: number
  readonly env: NodeJS.ProcessEnv
  /** Flags of the worker's Node; default: those of this process. */
  readonly flags?: readonly string[]
  /** The worker's name in log lines, such as `a gateway worker`. */
  readonly name: string
  /** Time for running work to finish, milliseconds. */
  readonly graceMs: number
  readonly logger: Logger
  /** Called when a worker that was ready has ended. */
  readonly onExit?: ((worker: string) => void) | undefined
}): Supervised => {
  const { entry, count, env, flags, name, graceMs, logger, onExit } = parts
  const workers = new Set<ChildProcess>()
  const timers = new Set<NodeJS.Timeout>()
  /** The state of each worker, by index. */
  const states = Array.from({ length: count }, () => ({
    begun: false,
    failures: 0,
    /** The running process; null: it ended and is not started again yet. */
    child: null as ChildProcess | null,
    /** When it was ready; null: it is not. */
    readyMs: null as number | null,
    /** Pings since it was last ready, over all its restarts. */
    missingPings: 0,
    unanswered: 0,
  }))
  let isClosing = false
  const pinging = setInterval(() => {
    for (const state of states) {
      const { child, readyMs } = state
      if (readyMs === null) state.missingPings += 1
      if (child === null) continue
      const { killedAfter } = readyMs === null ? startPings : pings
      if (state.unanswered === killedAfter) {
        logger.error({ pid: child.pid }, `${name} does not answer and is killed`)
        child.kill('SIGKILL')
      } else child.send(ping, () => undefined) // the exit of the worker is handled elsewhere
      state.unanswered += 1
    }
  }, pings.everyMs)
  pinging.unref()

  const start = (index: number, onStarted: (error: Error | null) => void): void => {
    const state = states[index]!
    const child = fork(entry, [String(index)], {
      env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      ...(flags && { execArgv: [...flags] }),
    })
    workers.add(child)
    Object.assign(state, { child, readyMs: null, unanswered: 0 })
    let worker: string | null = null
    child.on('message', (message: Partial<{ worker: string; answers: true }>) => {
      if (message.answers) state.unanswered = 0
      // With `node --watch` a worker also reports the files that it loads.
      if (message.worker === undefined) return
      worker = message.worker
      state.begun = true
      Object.assign(state, { readyMs: performance.now(), missingPings: 0, unanswered: 0 })
      logger.info({ worker, pid: child.pid }, `${name} is ready`)
      onStarted(null)
    })
    child.once('exit', (code, signal) => {
      workers.delete(child)
      const hasStarted = isSteady(state)
      Object.assign(state, { child: null, readyMs: null })
      if (worker !== null) onExit?.(worker)
      if (isClosing) return
      const isRefused = code === refusedCode
      if (isRefused) onStarted(new StartRefused(`${name} refused to start; its message says why`))
      state.failures = hasStarted ? 0 : state.failures + 1
      const delayMs = isRefused
        ? restart.longestMs
        : Math.min(restart.longestMs, restart.firstMs * 2 ** state.failures)
      logger.error({ code, signal, inMs: delayMs }, `${name} ended and is started again`)
      const timer = setTimeout(() => {
        timers.delete(timer)
        start(index, onStarted)
      }, delayMs)
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
  ready.catch(() => undefined) // the caller that awaits it handles the rejection

  const endRestarts = (): void => {
    isClosing = true
    clearInterval(pinging)
    for (const timer of timers) clearTimeout(timer)
  }

  return {
    ready,
    endRestarts,
    kill: () => {
      endRestarts()
      for (const child of workers) child.kill('SIGKILL')
    },
    problem: () => {
      for (const state of states) {
        if (!state.begun) return `${name} has not begun yet`
        if (state.readyMs !== null && state.unanswered > pings.hangsAfter) return `${name} does not answer`
        if (state.missingPings > startPings.lateAfter) return `${name} ended and does not become ready again`
        if (state.failures >= manyFailures && !isSteady(state))
          return `${name} ended ${state.failures} times in a row`
      }
      return null
    },
    close: async () => {
      endRestarts()
      await Promise.all(
        [...workers].map(async (child) => {
          const exited = once(child, 'exit')
          child.kill('SIGTERM')
          const killTimer = setTimeout(() => child.kill('SIGKILL'), graceMs)
          await exited
          clearTimeout(killTimer)
        }),
      )
    },
  }
}

const freeListEntry = join(import.meta.dirname, '../freelist-worker.ts')

/** Running checks are cut off and repeated after the next start. Milliseconds. */
const freeListGraceMs = 5_000

/** Whether there is a judge to check with, or a sandbox that has one. */
export const canCheck = (config: Pick<Config, 'freelist' | 'payments'>): boolean =>
  config.freelist.judge !== null || isSandboxed(config)

/** Runs the checker of free proxies in its own process, without the flags that give the service a large heap. */
export const superviseFreelist = (dependencies: {
  readonly env: NodeJS.ProcessEnv
  readonly logger: Logger
}): Supervised =>
  supervise({
    ...dependencies,
    entry: freeListEntry,
    count: 1,
    flags: [],
    name: 'the checker of free proxies',
    graceMs: freeListGraceMs,
  })

const auditorEntry = join(import.meta.dirname, '../audit-worker.ts')

/** Runs the auditor in its own process. */
export const superviseAuditor = ({
  config,
  ...dependencies
}: {
  readonly config: Config
  readonly env: NodeJS.ProcessEnv
  readonly logger: Logger
}): Supervised =>
  supervise({
    ...dependencies,
    entry: auditorEntry,
    count: 1,
    flags: [],
    name: 'the auditor',
    graceMs: config.shutdownTimeoutMs,
  })

const entry = join(import.meta.dirname, '../gateway-worker.ts')

/** In addition to the time for connections to drain, milliseconds. */
const graceMs = 5_000

/** How many ports after an unavailable one are tried. */
const maxNextPorts = 100

/**
 * The gateway's port if it is free, or a free port for port 0. Workers may share a port, so without this check two
 * Fareboxes on one machine would serve each other's customers. With `canMove`, one of the next ports replaces a port
 * that is in use. A random free port is not used, because another program could get it before the workers listen.
 * @throws StartRefused when the port is in use
 */
export const gatewayPort = async (config: Config, canMove = false): Promise<number> => {
  const { port, listen } = config.gateway
  const tryAllHosts = async (requestedPort: number): Promise<number> => {
    const [host, ...otherHosts] = listen
    const assignedPort = await tryPort(host, requestedPort)
    for (const other of otherHosts) await tryPort(other, assignedPort)
    return assignedPort
  }
  const findNextFreePort = async (): Promise<number | null> => {
    for (let next = port + 1; next <= port + maxNextPorts; next += 1) {
      const moved = { ...config, gateway: { ...config.gateway, port: next } }
      if (portCollision(moved, { server: true, gateway: true, freelist: true }) !== null) continue
      const assignedPort = await tryAllHosts(next).catch(() => null)
      if (assignedPort !== null) return assignedPort
    }
    return null
  }
  try {
    return await tryAllHosts(port)
  } catch (error) {
    const moved =
      canMove && (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? await findNextFreePort() : null
    if (moved !== null) return moved
    throw new StartRefused(
      `port ${port} of ${listen.join(', ')}, the gateway's, cannot be had (${(error as Error).message}); set FAREBOX_GATEWAY_PORT to another one, or FAREBOX_GATEWAY_WORKERS=0 to run no gateway here`,
      { cause: error },
    )
  }
}

/** Runs the gateway's workers, each in its own process. */
export const superviseGateway = (dependencies: {
  readonly config: Config
  readonly env: NodeJS.ProcessEnv
  readonly logger: Logger
  /** Called when a ready worker has ended. Other workers may then lease its bytes. */
  readonly onExit?: (worker: string) => void
}): Supervised => {
  const { config, logger, onExit } = dependencies
  const { port, workers } = config.gateway
  return supervise({
    entry,
    count: workers,
    env: { ...dependencies.env, FAREBOX_GATEWAY_PORT: String(port) },
    name: 'a gateway worker',
    graceMs: config.shutdownTimeoutMs + graceMs,
    logger,
    onExit,
  })
}
