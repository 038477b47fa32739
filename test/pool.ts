import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A test file for a worker. */
export type Order = {
  readonly root: string
  /** From the root. */
  readonly file: string
  readonly testTimeoutMs: number
  readonly testNamePatterns: readonly string[]
}
type EventData = {
  readonly name?: string
  readonly testId?: number
  readonly nesting?: number
  readonly message?: string
  readonly success?: boolean
  readonly todo?: boolean | string
  readonly counts?: Readonly<Record<string, number>>
  readonly details?: {
    readonly type?: string
    readonly duration_ms: number
    readonly error?: { readonly failureType?: unknown; readonly text: string }
  }
}
/** An event of `node:test`: https://nodejs.org/docs/latest-v24.x/api/test.html#class-testsstream. */
export type TestEvent = { readonly type: string; readonly data: EventData }
export type Started = 'processes' | 'services' | 'databases'
/** The diagnostics channels that report a start. */
export const startChannels: Readonly<Record<string, Started>> = {
  // https://nodejs.org/docs/latest-v24.x/api/diagnostics_channel.html#event-child_process
  child_process: 'processes',
  'test.service': 'services',
  'test.database': 'databases',
}

/**
 * The usage of one file: by its worker, and by the processes that the worker started and that have ended; and how much
 * it started.
 */
export type Usage = Readonly<Record<Started, number>> & {
  readonly cpuSeconds: number
  /** Resident memory of the worker after the file. */
  readonly memoryBytes: number
}
/** From a worker. `problems` are failures of the file outside its tests. */
export type Report =
  | { readonly event: TestEvent }
  | { readonly usage: Usage; readonly problems: readonly string[] }

/** The processor time of the ended child processes of this process, and of theirs; 0 on systems other than Linux. */
export const childSeconds = (): number => {
  try {
    // The second field, the name of the program, may contain spaces. `cutime` and `cstime` are in hundredths of a second.
    const fields = readFileSync('/proc/self/stat', 'latin1').split(') ')[1]?.split(' ') ?? []
    return (Number(fields[13]) + Number(fields[14])) / 100
  } catch {
    return 0
  }
}

export type FileRun = Usage & {
  readonly file: string
  readonly seconds: number
  readonly events: readonly TestEvent[]
  readonly problems: readonly string[]
}

export type PoolOptions = Omit<Order, 'file'> & {
  /** In the order of their starts. */
  readonly files: readonly string[]
  /** Whether a file gets a process that runs no other file. */
  readonly isAlone: (file: string) => boolean
  readonly filesAtOnce: number
  readonly signal: AbortSignal
  readonly onStarted?: (file: string) => void
  /** Called at once; `onEnded` gets the events of a whole file. */
  readonly onEvent?: (file: string, event: TestEvent) => void
  readonly onEnded: (run: FileRun) => void
}

const noUsage: Usage = { cpuSeconds: 0, processes: 0, services: 0, databases: 0, memoryBytes: 0 }

const startWorker = (): ChildProcess =>
  fork(join(import.meta.dirname, 'worker.ts'), {
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    // With the default of 16 MB, collecting garbage takes a tenth of the processor time.
    execArgv: ['--max-semi-space-size=64'],
  })

/** A worker with more memory is replaced: the modules of all its files stay in memory, and garbage collection slows down. */
const maxMemoryBytes = 1_200_000_000

/** The longest time of a worker without any event, in time limits of a test. */
const silentLimits = 1.1

/** Runs one file on this worker. A worker that ends or hangs is a problem of the file. */
const runOn = (worker: ChildProcess, order: Order, onEvent: PoolOptions['onEvent']): Promise<FileRun> =>
  new Promise((resolve) => {
    const startedMs = performance.now()
    const events: TestEvent[] = []
    const running = new Map<number | undefined, string | undefined>()
    const hung = setTimeout(() => worker.kill('SIGKILL'), silentLimits * order.testTimeoutMs)
    const end = (problems: readonly string[], usage: Usage = noUsage): void => {
      clearTimeout(hung)
      const seconds = (performance.now() - startedMs) / 1_000
      // The text that the file printed before its end has arrived by then.
      setImmediate(() => {
        for (const name of ['message', 'close']) worker.removeAllListeners(name)
        for (const stream of [worker.stdout, worker.stderr]) stream?.removeAllListeners('data')
        resolve({ ...usage, file: order.file, seconds, events, problems })
      })
    }
    const add = (event: TestEvent): void => {
      events.push(event)
      if (event.type === 'test:dequeue') running.set(event.data.testId, event.data.name)
      if (event.type === 'test:complete') running.delete(event.data.testId)
      onEvent?.(order.file, event)
    }
    const printed = (type: string) => (message: Buffer) =>
      add({ type, data: { message: message.toString() } })
    worker.stdout?.on('data', printed('test:stdout'))
    worker.stderr?.on('data', printed('test:stderr'))
    worker.on('message', (report: Report) => {
      hung.refresh()
      if ('event' in report) add(report.event)
      else end(report.problems, report.usage)
    })
    worker.on('close', (code, signal) =>
      end([
        `the process ended too early (${signal ?? `exit code ${code}`}), in: ${[...running.values()].join(' > ') || 'no test'}`,
      ]),
    )
    worker.send(order)
  })

/** Runs the files on a few long-lived processes. Abort the signal to end it early. */
export const runPool = async (options: PoolOptions): Promise<void> => {
  const { files, isAlone, filesAtOnce, signal, onStarted, onEvent, onEnded, ...limits } = options
  const waiting = [...files]
  const workers = new Set<ChildProcess>()
  const start = (): ChildProcess => {
    const worker = startWorker()
    workers.add(worker)
    worker.once('exit', () => workers.delete(worker))
    return worker
  }
  const stop = async (worker: ChildProcess | null, file: string): Promise<void> => {
    if (!worker?.connected) return
    let printed = ''
    worker.stderr?.on('data', (text) => {
      printed += text
    })
    // After `disconnect` there is no `close`.
    const ended = once(worker, 'exit')
    worker.disconnect()
    const [code] = await ended
    if (code === 0 || signal.aborted) return
    const problem = `its process ran this file last and did not end by itself: one of its files forgot something. ${printed}`
    onEnded({ ...noUsage, file, seconds: 0, events: [], problems: [problem] })
  }
  signal.addEventListener('abort', () => {
    for (const worker of workers) worker.kill('SIGTERM')
  })
  const runInTurn = async (): Promise<void> => {
    let shared: ChildProcess | null = null
    let last = ''
    for (let file = waiting.shift(); file !== undefined && !signal.aborted; file = waiting.shift()) {
      const alone = isAlone(file)
      const worker: ChildProcess = alone || !shared?.connected ? start() : shared
      onStarted?.(file)
      const ended = await runOn(worker, { ...limits, file }, onEvent)
      onEnded(ended)
      if (alone || ended.memoryBytes > maxMemoryBytes) await stop(worker, file)
      if (alone) continue
      shared = worker
      last = file
    }
    await stop(shared, last)
  }
  await Promise.all(Array.from({ length: filesAtOnce }, runInTurn))
}
