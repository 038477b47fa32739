import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

export type TpcB = { readonly perSecond: number; readonly p50Ms: number; readonly p99Ms: number }

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

/** TPC-B, prepared statements: transactions a second and their latency, from the log of every transaction. */
export const runTpcB = async (
  url: string,
  clients: number,
  seconds: number,
  directory: string,
): Promise<TpcB> => {
  const { readdir, readFile, rm } = await import('node:fs/promises')
  const { join } = await import('node:path')
  const prefix = join(directory, `tpcb-${clients}`)
  const { stdout } = await run(
    'pgbench',
    [
      '--protocol=prepared',
      '--no-vacuum',
      `--client=${clients}`,
      '--jobs=2',
      `--time=${seconds}`,
      '--log',
      `--log-prefix=${prefix}`,
    ],
    { env: environment(url), cwd: directory, maxBuffer: 64 * 1024 * 1024 },
  )
  const perSecond = Number(/tps = ([\d.]+) \(without/.exec(stdout)?.[1])
  const latenciesMs: number[] = []
  for (const name of await readdir(directory)) {
    if (!name.startsWith(`tpcb-${clients}.`)) continue
    for (const line of (await readFile(join(directory, name), 'utf8')).split('\n')) {
      const micros = Number(line.split(' ')[2])
      if (Number.isFinite(micros)) latenciesMs.push(micros / 1000)
    }
    await rm(join(directory, name))
  }
  latenciesMs.sort((a, b) => a - b)
  const at = (share: number) => latenciesMs[Math.floor(latenciesMs.length * share)] ?? Number.NaN
  return { perSecond, p50Ms: at(0.5), p99Ms: at(0.99) }
}
