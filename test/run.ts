import { randomBytes } from 'node:crypto'
import { globSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { finished } from 'node:stream/promises'
import { spec } from 'node:test/reporters'
import { inspect } from 'node:util'
import { aboveBudget, writeCosts } from './costs.ts'
import {
  childSeconds,
  type FileRun,
  type PoolOptions,
  runPool,
  startChannels,
  type TestEvent,
} from './pool.ts'
import { slow, slowness } from './slow.ts'
import { createProgress, minutesOf, filesAtOnce as soakedAtOnce } from './soak.ts'
import { sharedServer, startRun, startTestServer, usedFolderOf } from './support/postgres-server.ts'

/**
 * Runs the tests: `npm test [-- files…]`, `npm run test:all`, `npm run test:slow` (all but those of `npm test`), `npm run
 * test:soak [-- files…]`. One Postgres serves all files: that of FAREBOX_TEST_DATABASE_URL, else that of `npm run
 * dev:db`, else a new one. Arguments that are no flags choose files by a part of their path; `--test-name-pattern=…`
 * chooses tests by their names. `--write-costs` stores the costs of the files in test/costs.tsv.
 */
const root = join(import.meta.dirname, '..')
const namePattern = '--test-name-pattern='

/** Files that need a process of their own, with the reason. */
const alone: Readonly<Record<string, string>> = {
  'test/architecture/paths.test.ts': 'it counts the modules that its process runs',
  'test/architecture/tunnel-path.test.ts': 'it counts the modules that its process runs',
  'test/platform/http/memory.test.ts': 'it measures the memory of its process',
  'test/gateway/bounds.test.ts': 'it counts the resources of its process',
  'test/features/free-list/million.test.ts': 'it measures the memory of its process',
}

const args = process.argv.slice(2)
const [soak, runsAll, runsSlow, measures] = ['--soak', '--all', '--slow', '--write-costs'].map((flag) =>
  args.includes(flag),
)
const flags = args.filter((arg) => arg.startsWith('-') && !/^--(?:soak|all|slow|write-costs)$/.test(arg))
const chosen = args
  .filter((arg) => !arg.startsWith('-'))
  .map((arg) => relative(root, join(process.cwd(), arg)))
const fail = (text: string): never => {
  process.stderr.write(`${text}\n`)
  process.exit(2)
}

const slowParts = Object.keys(slow)
const isWanted = (file: string): boolean =>
  chosen.length === 0
    ? soak || runsAll || runsSlow === slowness(file) > 0
    : chosen.some((part) => file.includes(part))
const all = globSync('test/**/*.test.ts', { cwd: root }).sort()
const fast = all.filter((file) => slowness(file) === 0)
const isIn = (found: readonly string[], part: string): boolean => found.some((file) => file.includes(part))
const wrong = [
  ...[...slowParts, ...Object.keys(alone)].filter((part) => !isIn(all, part)),
  ...Object.values(slow).flatMap((tests) => tests.split(', ').filter((part) => !isIn(fast, part))),
]
if (wrong.length > 0) fail(`test/run.ts names ${wrong.join(', ')}, which no test file has`)
const files = all.filter(isWanted)
if (files.length === 0) fail(`no test file matches ${chosen.join(', ')}`)
const unknown = flags.filter((flag) => !flag.startsWith(namePattern))
if (unknown.length > 0)
  fail(`unknown ${unknown.join(', ')}: the tests take parts of paths and ${namePattern}…, nothing else`)
const testNamePatterns = flags.map((flag) => flag.slice(namePattern.length))

/** Files at once: many wait for something, such as a lease that ends. More of them would only slow each other down. */
const filesAtOnce = soak ? soakedAtOnce : 2 + Math.min(2, availableParallelism())
/** A hanging test fails by its name; it never blocks the run. */
const testTimeoutMs = (soak ? 60 : 20) * 60_000

const startedMs = performance.now()
const given = process.env.FAREBOX_TEST_DATABASE_URL || (await sharedServer())
const server = given ? null : await startTestServer()
const url = given ?? server!.url
const run = randomBytes(6).toString('hex')
process.env.FAREBOX_TEST_DATABASE_URL = url
process.env.FAREBOX_TEST_RUN = run
const endRun = await startRun(url, run)
// Half of a process's start is the reading of its modules: the workers and the hundreds of processes that they start share it.
process.env.NODE_COMPILE_CACHE ??= join(root, 'node_modules/.cache/farebox-tests')
if (soak) process.env.FAREBOX_SOAK = '1'
// Properties have fewer runs in `npm test` (test/support/fast-check.ts).
process.env.FAREBOX_TEST_SET = soak ? 'soak' : runsAll || runsSlow || chosen.length > 0 ? 'all' : 'fast'
const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stopping.abort())

/** The names of the counts in the events of `node:test`, and in its reports. */
const counts = {
  tests: 'tests',
  suites: 'suites',
  passed: 'pass',
  failed: 'fail',
  cancelled: 'cancelled',
  skipped: 'skipped',
  todo: 'todo',
}
const isCountOfFile = new RegExp(`^(?:${Object.values(counts).join('|')}|duration_ms) [\\d.]+$`)

/** A worker sends the text of an error. The reporter reads it through `inspect`. */
const withError = ({ type, data }: TestEvent): TestEvent => {
  const { details } = data
  if (details?.error === undefined) return { type, data }
  const cause = { [inspect.custom]: () => details.error?.text }
  const error = { ...details.error, code: 'ERR_TEST_FAILURE', cause }
  return { type, data: { ...data, details: { ...details, error } } }
}

const eventsOf = ({ file, events, problems }: FileRun): readonly TestEvent[] => [
  ...events,
  ...problems.flatMap((text): TestEvent[] => {
    const data = { name: file, nesting: 0, file: join(root, file), line: 1, column: 1 }
    return [
      { type: 'test:start', data },
      { type: 'test:fail', data: { ...data, details: { duration_ms: 0, error: { text } } } },
      { type: 'test:summary', data: { success: false, counts: { failed: 1 } } },
    ]
  }),
]

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)

const row = (cells: readonly (number | string)[], name: string): string =>
  `${cells.map((cell) => (typeof cell === 'number' ? cell.toFixed(1) : cell).padStart(10)).join('')}  ${name}`

const starts = Object.values(startChannels)

const usageOf = (runs: readonly FileRun[], name: string): string =>
  row(
    [
      sum(runs.map(({ cpuSeconds }) => cpuSeconds)),
      sum(runs.map(({ seconds }) => seconds)),
      ...starts.map((what) => String(sum(runs.map((one) => one[what])))),
    ],
    name,
  )

/** Where the time went: processor seconds, seconds by the clock, and what was started. */
const usageTable = (runs: readonly FileRun[]): string => {
  const byCpu = runs.toSorted((a, b) => b.cpuSeconds - a.cpuSeconds)
  const folders = Map.groupBy(byCpu, ({ file }) => file.split('/')[1] ?? '')
  const tests = runs.flatMap(({ events }) =>
    events.flatMap(({ type, data: { name = '', details } }) =>
      /^test:(?:pass|fail)$/.test(type) && details?.type !== 'suite'
        ? [{ name, ms: details?.duration_ms ?? 0 }]
        : [],
    ),
  )
  return [
    row(['cpu s', 'wall s', ...starts], 'of folders'),
    ...[...folders].map(([folder, of]) => usageOf(of, folder)),
    usageOf(runs, 'all'),
    row(['cpu s', 'wall s', ...starts], 'of the slowest files'),
    ...byCpu.slice(0, 10).map((one) => usageOf([one], one.file)),
    row(['', 'wall s', '', '', ''], 'of the slowest tests'),
    ...tests
      .toSorted((a, b) => b.ms - a.ms)
      .slice(0, 10)
      .map(({ name, ms }) => row(['', ms / 1_000, '', '', ''], name)),
  ].join('\n')
}

const hasFailed = ({ events, problems }: FileRun): boolean =>
  problems.length > 0 || events.some(({ type, data }) => type === 'test:fail' && data.todo === undefined)

/** A failed file runs once more, alone on the machine. It stays failed. */
const alonePasses = async (
  limits: Pick<PoolOptions, 'root' | 'testTimeoutMs' | 'testNamePatterns' | 'signal'>,
  failed: readonly FileRun[],
): Promise<readonly string[]> => {
  const passed: string[] = []
  await runPool({
    ...limits,
    files: [...new Set(failed.map(({ file }) => file))],
    isAlone: () => true,
    filesAtOnce: 1,
    onEnded: (again) => {
      if (!hasFailed(again)) passed.push(again.file)
    },
  })
  return passed
}

const runAll = async (): Promise<boolean> => {
  const reporter = new spec()
  reporter.pipe(process.stdout, { end: false })
  const totals = new Map(Object.keys(counts).map((name) => [name, 0]))
  const runs: FileRun[] = []
  const progress = soak ? createProgress(files) : null
  // The slowest begin first, so that no long one runs alone at the end.
  const rank = (file: string): number => (soak ? minutesOf(file) : slowness(file))
  let passed = true
  const report = (run: FileRun): void => {
    for (const { type, data } of eventsOf(run))
      if (type === 'test:summary') {
        passed &&= data.success === true
        for (const [name, total] of totals) totals.set(name, total + (data.counts?.[name] ?? 0))
      } else if (type !== 'test:diagnostic' || data.nesting !== 0 || !isCountOfFile.test(data.message ?? ''))
        reporter.write(withError({ type, data }))
  }
  const limits = { root, testTimeoutMs, testNamePatterns, signal: stopping.signal }
  await runPool({
    ...limits,
    files: files.toSorted((a, b) => rank(b) - rank(a)),
    isAlone: (file) => soak || file in alone,
    filesAtOnce,
    ...(progress && { onStarted: progress.began, onEvent: progress.event }),
    onEnded: (ended) => {
      runs.push(ended)
      progress?.ended(ended.file)
      report(ended)
    },
  })
  progress?.end()
  const failed = runs.filter(hasFailed)
  if (!soak)
    for (const file of await alonePasses(limits, failed))
      report({ ...failed[0]!, file, events: [], problems: ['failed beside other files, passes alone'] })
  const lines = Object.entries(counts).map(([name, label]) => `${label} ${totals.get(name)}`)
  for (const message of [...lines, `duration_ms ${performance.now() - startedMs}`])
    reporter.write({ type: 'test:diagnostic', data: { nesting: 0, message, level: 'info' } })
  reporter.end()
  await finished(reporter)
  process.stdout.write(`\n${usageTable(runs)}\n`)
  if (measures) writeCosts(runs, new Set(all))
  const above = chosen.length > 0 || soak ? [] : aboveBudget(runs, (file) => slowness(file) === 0)
  if (above.length > 0)
    process.stdout.write(
      `${[
        row(['cpu s', 'budget', ''], 'of what is above its budget (test/costs.tsv)'),
        ...above.map(({ name, seconds, budget }) => row([seconds, budget, ''], name)),
      ].join('\n')}\n`,
    )
  return passed && !stopping.signal.aborted
}

process.exitCode = (await runAll()) ? 0 : 1
await endRun()
await rm(await usedFolderOf(run), { recursive: true, force: true })
await server?.stop()
process.stdout.write(
  `${row([childSeconds() + process.cpuUsage().user / 1e6, (performance.now() - startedMs) / 1_000, '', '', ''], 'of the run, with Postgres')}\n`,
)
