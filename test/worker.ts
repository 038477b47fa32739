import { subscribe } from 'node:diagnostics_channel'
import { join } from 'node:path'
import { run } from 'node:test'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { childSeconds, type Order, type Report, type TestEvent, type Usage } from './pool.ts'

/** A process of `test/pool.ts`: it runs the test files that it receives, one after another, and sends their events. */

let processes = 0
subscribe('child_process', () => {
  processes += 1
})

const usageNow = (): Usage => {
  const { user, system } = process.cpuUsage()
  const memoryBytes = process.memoryUsage.rss()
  return { cpuSeconds: (user + system) / 1e6 + childSeconds(), processes, memoryBytes }
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

let isRunning = false

/** Runs until nothing of the file keeps the process alive, like a process that has only this file. */
const runFile = async (order: Order): Promise<void> => {
  const { testTimeoutMs: timeout, testNamePatterns } = order
  const file = join(order.root, order.file)
  isRunning = true
  const [before, stateBefore] = [usageNow(), sharedState()]
  process.channel?.unref()
  process.once('beforeExit', () => process.channel?.ref())
  const patterns = testNamePatterns.length === 0 ? {} : { testNamePatterns }
  const events = run({ files: [file], isolation: 'none', timeout, ...patterns })
  for await (const event of events as AsyncIterable<TestEvent>) send({ event: sendable(event) })
  const [after, stateAfter] = [usageNow(), sharedState()]
  const problems = Object.keys({ ...stateBefore, ...stateAfter })
    .filter((part) => stateBefore[part] !== stateAfter[part])
    .map((part) => `the file changed ${part} from ${stateBefore[part]} to ${stateAfter[part]}`)
  // `run` hides an error of the module if some of its tests were defined before. The loader keeps the error.
  await import(pathToFileURL(file).href).catch((error) => problems.push(inspect(error)))
  const cpuSeconds = after.cpuSeconds - before.cpuSeconds
  const { processes, memoryBytes } = after
  send({ usage: { cpuSeconds, processes: processes - before.processes, memoryBytes }, problems })
  isRunning = false
}

// `run` sets it.
process.env.NODE_TEST_WORKER_ID = '1'
process.on('message', (order: Order) => void runFile(order))
process.on('disconnect', () => {
  // The run has been killed during a file: its tests clean up (test/support/cleanup.ts).
  if (isRunning) process.kill(process.pid, 'SIGTERM')
  else process.exit()
})
