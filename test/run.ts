import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { finished } from 'node:stream/promises'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { isPure } from './pure-files.ts'
import { watchSlowest } from './slowest.ts'
import { runSoak } from './soak.ts'
import { startTestServer, usedFolderOf } from './support/postgres-server.ts'

/**
 * Runs the tests: `npm test [-- files…]`, `npm run test:soak [-- files…]`. One Postgres serves all files, unless
 * FAREBOX_TEST_DATABASE_URL names one. Arguments that are no flags choose files by a part of their path;
 * `--test-name-pattern=…` chooses tests by their names.
 */
const root = join(import.meta.dirname, '..')
const args = process.argv.slice(2)
const soak = args.includes('--soak')
const flags = args.filter((arg) => arg.startsWith('-') && arg !== '--soak')
const chosen = args
  .filter((arg) => !arg.startsWith('-'))
  .map((arg) => relative(root, join(process.cwd(), arg)))

const files = globSync('test/**/*.test.ts', { cwd: root })
  .filter((file) => chosen.length === 0 || chosen.some((part) => file.includes(part)))
  .sort()
if (files.length === 0) {
  process.stderr.write(`no test file matches ${chosen.join(', ')}\n`)
  process.exit(2)
}

const namePattern = '--test-name-pattern='
const unknown = flags.filter((flag) => !flag.startsWith(namePattern))
if (unknown.length > 0) {
  process.stderr.write(
    `unknown ${unknown.join(', ')}: the tests take parts of paths and ${namePattern}…, nothing else\n`,
  )
  process.exit(2)
}
const testNamePatterns = flags.map((flag) => flag.slice(namePattern.length))

/**
 * The slowest files, with their seconds of processor time: they start first, so that no long one runs alone
 * at the end. Roughly the slowest list that a run prints.
 */
const expectedSeconds: Readonly<Record<string, number>> = {
  'test/crash/payments.test.ts': 60,
  'test/crash/orders.test.ts': 50,
  'test/crash/scrapes.test.ts': 50,
  'test/features/orders/prefix-log.test.ts': 50,
  'test/features/deposits/outages.test.ts': 50,
  'test/app/start.test.ts': 40,
  'test/features/deposits/long-outages.test.ts': 40,
  'test/app/shared-database.test.ts': 35,
  'test/contract/fuzz.test.ts': 30,
  'test/features/backup/backup.test.ts': 30,
  'test/app/hangup.test.ts': 25,
  'test/app/absent-log.test.ts': 25,
  'test/crash/customers.test.ts': 25,
  'test/features/webhooks/chaos.test.ts': 25,
  'test/contract/isolation.test.ts': 20,
  'test/features/console/browser.test.ts': 20,
  'test/features/exports/agreement.test.ts': 20,
  'test/model/model.test.ts': 20,
  'test/features/backup/postgres-tools.test.ts': 20,
  'test/audit/damaged.test.ts': 12,
  'test/audit/mutations.test.ts': 15,
  'test/app/terminal.test.ts': 15,
  'test/features/free-list/cycle.test.ts': 12,
  'test/features/free-list/process.test.ts': 12,
  'test/app/where.test.ts': 12,
  'test/gateway/admit/accounting.test.ts': 20,
  'test/features/scrapers/model.test.ts': 15,
  'test/races/scrapes.test.ts': 15,
  'test/gateway/admit/speed.test.ts': 12,
  'test/features/scrapers/interface.test.ts': 12,
  'test/upgrade/upgrade.test.ts': 20,
  'test/features/catalog/operating.test.ts': 11,
  'test/features/catalog/how-to.test.ts': 10,
  'test/gateway/browser.test.ts': 11,
  'test/features/exits/machines.test.ts': 11,
  'test/features/backup/restored-log.test.ts': 11,
}
const secondsOf = (file: string): number => expectedSeconds[file] ?? 1

/** Files at once: many wait for something half of the time, such as a lease that runs out. */
const filesAtOnce = 2 * Math.min(2, availableParallelism())

const minutes = 60_000
/** A hanging test fails by its name; it never blocks the run. */
const testTimeoutMs = 10 * minutes

const server = process.env.FAREBOX_TEST_DATABASE_URL ? null : await startTestServer()
process.env.FAREBOX_TEST_DATABASE_URL ??= server?.url
process.env.FAREBOX_TEST_RUN = randomBytes(6).toString('hex')
// Half of a process's start is the reading of its modules: the files and the hundreds of processes that they start share it.
process.env.NODE_COMPILE_CACHE ??= join(root, 'node_modules/.cache/farebox-tests')
const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stopping.abort())

const runShort = async (): Promise<boolean> => {
  const pure = files.filter(isPure)
  process.env.FAREBOX_TEST_PURE = pure.join()
  const ordered = files
    .filter((file) => !pure.includes(file))
    .sort((a, b) => secondsOf(b) - secondsOf(a))
    .concat(pure.length === 0 ? [] : 'test/pure.ts')
  let passed = false
  const events = run({
    files: ordered.map((file) => join(root, file)),
    concurrency: filesAtOnce,
    timeout: testTimeoutMs,
    signal: stopping.signal,
    ...(testNamePatterns.length === 0 ? {} : { testNamePatterns }),
  })
  const slowest = watchSlowest(events)
  events.on('test:summary', ({ file, success }) => {
    if (file === undefined) passed = success
  })
  const report = events.compose(spec)
  report.pipe(process.stdout, { end: false })
  await Promise.race([finished(report), once(stopping.signal, 'abort')])
  process.stdout.write(`${slowest()}\n`)
  return passed && !stopping.signal.aborted
}

const runLong = (): Promise<boolean> => {
  process.env.FAREBOX_SOAK = '1'
  return runSoak(root, files, testNamePatterns, stopping.signal)
}

process.exitCode = (await (soak ? runLong() : runShort())) ? 0 : 1
await rm(await usedFolderOf(process.env.FAREBOX_TEST_RUN), { recursive: true, force: true })
await server?.stop()
