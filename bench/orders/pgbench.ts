import { execFile } from 'node:child_process'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Times } from './load-process.ts'

const run = promisify(execFile)

/** Whether `pgbench` is on the path (Debian: postgresql-contrib or postgresql-client-common with a client). */
export const hasPgbench = async (): Promise<boolean> =>
  run('pgbench', ['--version']).then(
    () => true,
    () => false,
  )

const environment = (url: string): NodeJS.ProcessEnv => {
  const { hostname, port, username, password, pathname } = new URL(url)
  return {
    ...process.env,
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: pathname.slice(1),
  }
}

/**
 * Makes the tables of TPC-B at a scale; 150 is 15 million accounts, about 2.2 GB. The checkpoint leaves what a server has
 * that has run for a while: files of its write-ahead log to use again. Making each new one holds up every commit.
 */
export const initialisePgbench = async (url: string, scale: number): Promise<void> => {
  await run('pgbench', ['--initialize', '--quiet', '--scale', String(scale)], {
    env: environment(url),
    maxBuffer: 64 * 1024 * 1024,
  })
  await run('psql', ['--quiet', '--command=checkpoint'], { env: environment(url) })
}

export type TpcB = {
  readonly perSecond: number
  /** Of every measured transaction, rising. */
  readonly latenciesMs: readonly number[]
}

/** When each transaction ended and how long it took, from the lines of pgbench's log. */
const transactionsIn = (log: string): { endedMs: number; latencyMs: number }[] =>
  log
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [, , latencyMicros, , seconds, micros] = line.split(' ').map(Number)
      return { endedMs: seconds! * 1000 + micros! / 1000, latencyMs: latencyMicros! / 1000 }
    })

/** Its time begins before all clients are connected, so that it would end before the last measured second is full. */
const marginMs = 1_000

/** TPC-B, prepared statements: transactions a second and their latencies, from the log of every transaction. */
export const runTpcB = async (
  url: string,
  clients: number,
  { warmUpMs, measureMs }: Times,
  directory: string,
): Promise<TpcB> => {
  const prefix = `tpcb-${clients}`
  await run(
    'pgbench',
    [
      '--protocol=prepared',
      '--no-vacuum',
      `--client=${clients}`,
      '--jobs=2',
      `--time=${Math.ceil((warmUpMs + measureMs + marginMs) / 1000)}`,
      '--log',
      `--log-prefix=${join(directory, prefix)}`,
    ],
    { env: environment(url), cwd: directory, maxBuffer: 64 * 1024 * 1024 },
  )
  const transactions: { endedMs: number; latencyMs: number }[] = []
  for (const name of await readdir(directory)) {
    if (!name.startsWith(`${prefix}.`)) continue
    for (const each of transactionsIn(await readFile(join(directory, name), 'utf8'))) transactions.push(each)
    await rm(join(directory, name))
  }
  const begunMs = transactions.reduce(
    (first, { endedMs, latencyMs }) => Math.min(first, endedMs - latencyMs),
    Number.POSITIVE_INFINITY,
  )
  const startMs = begunMs + warmUpMs
  const latenciesMs = transactions
    .filter(({ endedMs }) => endedMs >= startMs && endedMs < startMs + measureMs)
    .map(({ latencyMs }) => latencyMs)
    .sort((a, b) => a - b)
  return { perSecond: latenciesMs.length / (measureMs / 1000), latenciesMs }
}
