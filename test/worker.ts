import { type AsyncHook, createHook } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import { join } from 'node:path'
import { run } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import {
  childSeconds,
  type Order,
  type Report,
  type Started,
  startChannels,
  type TestEvent,
  type Usage,
} from './pool.ts'
import { fileResources, firstResource, workerResources } from './support/worker-resources.ts'

/** A process of `test/pool.ts`: it runs the test files that it receives, one after another, and sends their events. */

const started: Record<Started, number> = { processes: 0, services: 0, databases: 0 }
for (const [channel, what] of Object.entries(startChannels))
  subscribe(channel, () => {
    started[what] += 1
  })

const usageNow = (): Usage => {
  const { user, system } = process.cpuUsage()
  const memoryBytes = process.memoryUsage.rss()
  return { cpuSeconds: (user + system) / 1e6 + childSeconds(), ...started, memoryBytes }
}

/** The state of the process that every file must leave as it was. */
const sharedState = (): Readonly<Record<string, unknown>> => ({
  ...process.env,
  'the working directory': process.cwd(),
  'the file mode mask': process.umask(),
  // The first logger of a process adds one of `exit`.
  ...Object.fromEntries(
    process
      .eventNames()
      .filter((name) => name !== 'exit')
      .map((name) => [`the listeners of ${String(name)}`, process.listenerCount(name)]),
  ),
})

/** The channel cannot carry every error: it carries the text, and the fields that the reporter reads. */
const sendable = ({ type, data }: TestEvent): TestEvent => {
  const { details } = data
  if (details?.error === undefined) return { type, data }
  const { code, failureType, cause } = details.error as Readonly<Record<string, unknown>>
  const text = inspect(code === 'ERR_TEST_FAILURE' ? cause : details.error)
  return { type, data: { ...data, details: { ...details, error: { failureType, text } } } }
}

const send = (report: Report): void => void process.send?.(report)

/** The file that runs; null between two files. */
let running: Order | null = null

/**
 * `node:test` watches every promise by a hook, which takes a quarter of a test's processor time. It needs the hook while
 * a file defines its tests, and to find the test of an unhandled error, which `endUnhandled` reports instead.
 */
const hooks: AsyncHook[] = []
const hookPrototype: AsyncHook = Object.getPrototypeOf(createHook({}))
const { enable } = hookPrototype
hookPrototype.enable = function () {
  hooks.push(this)
  return enable.call(this)
}

/** An error outside of all promises of a test ends the process. The file fails, and its tests clean up. */
const endUnhandled = (error: unknown): void => {
  process.stderr.write(`unhandled: ${inspect(error)}\n`)
  process.kill(process.pid, 'SIGTERM')
}

/**
 * `run` waits until no resource holds the process open, which is then the end of the file. Resources that several files
 * use (test/support/worker-resources.ts) hold it open. Then the file ends with its last test.
 */
const endWithLastTest = async (order: Order, href: string): Promise<void> => {
  // `run` has begun to load the file by then.
  await setImmediate()
  await import(href).catch(() => undefined)
  for (const hook of hooks.splice(0)) hook.disable()
  await firstResource()
  if (running === order) process.emit('beforeExit', 0)
}

/** Runs until nothing of the file keeps the process alive, like a process that has only this file. */
const runFile = async (order: Order): Promise<void> => {
  const { testTimeoutMs: timeout, testNamePatterns } = order
  const file = join(order.root, order.file)
  const { href } = pathToFileURL(file)
  running = order
  const [before, stateBefore, resourcesBefore] = [usageNow(), sharedState(), workerResources.count()]
  process.channel?.unref()
  process.once('beforeExit', () => process.channel?.ref())
  const patterns = testNamePatterns.length === 0 ? {} : { testNamePatterns }
  const events = run({ files: [file], isolation: 'none', timeout, ...patterns })
  void endWithLastTest(order, href)
  for await (const event of events as AsyncIterable<TestEvent>) send({ event: sendable(event) })
  await fileResources.close()
  const [after, stateAfter] = [usageNow(), sharedState()]
  // A resource that this file opened has listeners of its own.
  const parts =
    workerResources.count() === resourcesBefore ? Object.keys({ ...stateBefore, ...stateAfter }) : []
  const problems = parts
    .filter((part) => stateBefore[part] !== stateAfter[part])
    .map((part) => `the file changed ${part} from ${stateBefore[part]} to ${stateAfter[part]}`)
  // `run` hides an error of the module if some of its tests were defined before. The loader keeps the error.
  await import(href).catch((error) => problems.push(inspect(error)))
  const since = (what: Started | 'cpuSeconds'): number => after[what] - before[what]
  const usage: Usage = {
    cpuSeconds: since('cpuSeconds'),
    processes: since('processes'),
    services: since('services'),
    databases: since('databases'),
    memoryBytes: after.memoryBytes,
  }
  running = null
  send({ usage, problems })
}

/** How long a process may take to end after its last file. */
const endMs = 20_000

/** Ends by itself when no resource that a file forgot keeps it alive. */
const end = async (): Promise<void> => {
  await workerResources.close()
  setTimeout(() => {
    process.stderr.write(`held open by ${process.getActiveResourcesInfo().join(', ')}`)
    process.exit(1)
  }, endMs).unref()
}

// `run` sets it.
process.env.NODE_TEST_WORKER_ID = '1'
for (const name of ['uncaughtException', 'unhandledRejection']) process.on(name, endUnhandled)
process.on('message', (order: Order) => void runFile(order))
process.on('disconnect', () => {
  // The run has been killed during a file: its tests clean up (test/support/cleanup.ts).
  if (running !== null) process.kill(process.pid, 'SIGTERM')
  else void end()
})
