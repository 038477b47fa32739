import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** The arguments of `npm start`, so that what is measured is what runs: flags of node, then the program. */
const startArguments = (): readonly string[] => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: { start: string }
  }
  const [program, ...given] = scripts.start.split(' ')
  if (program !== 'bin/run-node')
    throw new Error(`npm start is "${scripts.start}", not a run of bin/run-node`)
  return given
}

/** Opens the metrics of a server to measure. */
export const metricsToken = randomBytes(16).toString('hex')

/**
 * The settings of a server to measure: the demo catalogue, no rate limit, keys of its own. Gateway and checker are processes apart,
 * with benchmarks of their own.
 */
export const serverSettings = (database: string, dataDir: string) => ({
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  PORT: '0',
  DATABASE_URL: database,
  FAREBOX_DATA: dataDir,
  FAREBOX_DEMO: 'on',
  FAREBOX_RATE_LIMIT: 'off',
  FAREBOX_GATEWAY_WORKERS: '0',
  FAREBOX_FREELIST_CHECKER: 'off',
  FAREBOX_METRICS_TOKEN: metricsToken,
  FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
  FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
  LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
})

/** Starts the real server in a process of its own and waits until it is ready; BENCH_NODE_FLAGS are more flags of its node. */
export const startServer = async (
  env: NodeJS.ProcessEnv,
  flags: readonly string[] = [],
): Promise<{ child: ChildProcess; url: URL }> => {
  const child = spawn(
    process.execPath,
    [...(process.env.BENCH_NODE_FLAGS?.split(' ') ?? []), ...flags, ...startArguments()],
    {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  // A benchmark that is ended by a signal leaves no server behind.
  const endWithBenchmark = (): boolean => child.kill('SIGTERM')
  process.once('exit', endWithBenchmark)
  child.once('exit', () => process.off('exit', endWithBenchmark))
  const url = await new Promise<URL>((resolve, reject) => {
    let out = ''
    child.stdout?.on('data', (chunk) => {
      out += chunk
      const address = /^Farebox listens on (\S+)$/m.exec(out)?.[1]
      if (address) resolve(new URL(address))
    })
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)))
  })
  while (!(await fetch(new URL('/readyz', url))).ok) await new Promise((resolve) => setTimeout(resolve, 100))
  return { child, url }
}

/** SIGTERM, and waits for the end. */
export const stopServer = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}

/** SIGKILL, and waits for the end. */
export const killServer = async (child: ChildProcess): Promise<void> => {
  child.kill('SIGKILL')
  await once(child, 'exit')
}
