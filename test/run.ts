import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { join, relative } from 'node:path'
import { runSoak } from './soak.ts'
import { startTestServer } from './support/postgres-server.ts'

/**
 * Runs the tests: `npm test [-- files…]`, `npm run test:soak [-- files…]`. One Postgres serves all files, unless
 * FAREBOX_TEST_DATABASE_URL names one. Arguments that are no flags choose files by a part of their path; other flags go
 * to node's test runner, in a soak only `--test-name-pattern=…`.
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
const patterns = flags.filter((flag) => flag.startsWith(namePattern))
if (soak && patterns.length < flags.length) {
  process.stderr.write(`a soak takes parts of paths and ${namePattern}…, nothing else\n`)
  process.exit(2)
}

const minutes = 60_000
const server = process.env.FAREBOX_TEST_DATABASE_URL ? null : await startTestServer()

const url = process.env.FAREBOX_TEST_DATABASE_URL ?? server?.url
// Half of a process's start is the reading of its modules: the files and the hundreds of processes that they start share it.
process.env.FAREBOX_TEST_RUN = randomBytes(6).toString('hex')
process.env.NODE_COMPILE_CACHE ??= join(root, 'node_modules/.cache/farebox-tests')
const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stopping.abort())

const runShort = async (): Promise<number> => {
  const runner: ChildProcess = spawn(
    process.execPath,
    [
      '--test',
      '--test-concurrency=2',
      // A test that hangs fails by its name; it never holds the run up for ever.
      `--test-timeout=${5 * minutes}`,
      ...['--test-reporter=spec', '--test-reporter-destination=stdout'],
      ...['--test-reporter=./test/slowest.ts', '--test-reporter-destination=stdout'],
      ...flags,
      ...files,
    ],
    {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, FAREBOX_TEST_DATABASE_URL: url },
    },
  )
  stopping.signal.addEventListener('abort', () => runner.kill())
  const [code] = await once(runner, 'exit')
  return code ?? 1
}

const runLong = async (): Promise<number> => {
  Object.assign(process.env, { FAREBOX_TEST_DATABASE_URL: url, FAREBOX_SOAK: '1' })
  const names = patterns.map((flag) => flag.slice(namePattern.length))
  return (await runSoak(root, files, names, stopping.signal)) ? 0 : 1
}

process.exitCode = await (soak ? runLong() : runShort())
await server?.stop()
