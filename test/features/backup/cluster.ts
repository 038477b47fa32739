import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, chown, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { findLauncher } from '../../../src/platform/postgres/binaries.ts'
import { atEnd } from '../../support/cleanup.ts'
import { ownPort } from '../../support/own-port.ts'

const run = promisify(execFile)
const tools = ['initdb', 'postgres', 'pg_ctl', 'pg_dump', 'pg_restore', 'createdb', 'pg_basebackup']

/** The directory of a whole Postgres on this machine, with the tools of its own version; null without one. */
export const installedPostgres = async (): Promise<string | null> => {
  const versions = Array.from({ length: 10 }, (_, n) => `/usr/lib/postgresql/${24 - n}/bin`)
  const configured = await run('pg_config', ['--bindir']).then(
    ({ stdout }) => [stdout.trim()],
    () => [],
  )
  for (const directory of [...versions, ...configured]) {
    const found = await Promise.allSettled(tools.map((tool) => access(join(directory, tool))))
    if (found.every(({ status }) => status === 'fulfilled')) return directory
  }
  return null
}

/** The programs of the embedded Postgres: `initdb`, `pg_ctl` and `postgres` alone. */
export const embeddedPrograms = async (): Promise<string> => dirname((await findLauncher(tmpdir())).postgres)

/** A separate Postgres: a directory with its data, and a shell as its owner. */
export type Cluster = {
  readonly directory: string
  /** Of the database `farebox`. */
  readonly url: string
  /** Runs lines of a shell in the directory, with Postgres's programs first on the path. */
  sh(script: string): Promise<void>
  /** Makes the data in `name` startable on its own port; returns the database's address. */
  moveTo(name: string): Promise<string>
  query<Row extends pg.QueryResultRow>(sql: string): Promise<Row[]>
}

/** Starts a cluster with the programs in `bin` and these lines of `postgresql.conf`. It is gone with the test. */
export const startCluster = async (
  t: TestContext,
  bin: string,
  configure: (directory: string) => string,
): Promise<Cluster> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-cluster-'))
  const launcher = await findLauncher(directory)
  if (launcher.owner !== null) await chown(directory, launcher.owner.uid, launcher.owner.gid)
  await chmod(directory, 0o755)
  const port = await ownPort()

  const sh = async (script: string): Promise<void> => {
    const path = join(directory, 'shell.log')
    const log = await open(path, 'w')
    const server = { PGHOST: '127.0.0.1', PGPORT: `${port}`, PGUSER: 'farebox', DATABASE_URL: url }
    const env = Object.entries({ ...server, PATH: `${bin}:${process.env.PATH}` }).map((pair) =>
      pair.join('='),
    )
    try {
      const shell = ['bash', '-euo', 'pipefail', '-c', script]
      const child = launcher.spawn('env', [`--chdir=${directory}`, ...env, ...shell], log.fd)
      const [code] = await once(child, 'exit')
      assert.equal(code, 0, `${script}\n${await readFile(path, 'utf8')}`)
    } finally {
      await log.close()
    }
  }
  const url = `postgres://farebox@127.0.0.1:${port}/farebox`
  const started = ['data']
  atEnd(t, async () => {
    for (const name of started)
      await sh(`pg_ctl --pgdata=${name} --mode=immediate --wait stop`).catch(() => undefined)
    await rm(directory, { recursive: true, force: true })
  })
  const lines = ["listen_addresses = '127.0.0.1'", "unix_socket_directories = ''"]
  await sh('initdb --pgdata=data --username=farebox --auth=trust --encoding=UTF8 --locale=C')
  const conf = join(directory, 'data/postgresql.conf')
  await writeFile(conf, [...lines, `port = ${port}`, configure(directory), ''].join('\n'), { flag: 'a' })
  await sh('mkdir archive; pg_ctl --pgdata=data --log=data.log --wait start')

  const at = async <Row extends pg.QueryResultRow>(address: string, sql: string): Promise<Row[]> => {
    const client = new pg.Client({ connectionString: address })
    await client.connect()
    try {
      return (await client.query<Row>(sql)).rows
    } finally {
      await client.end()
    }
  }
  await at(url.replace(/farebox$/, 'postgres'), 'create database farebox')
  return {
    directory,
    url,
    sh,
    query: (sql) => at(url, sql),
    moveTo: async (name) => {
      const own = await ownPort()
      await writeFile(join(directory, name, 'postgresql.auto.conf'), `port = ${own}\n`, { flag: 'a' })
      started.push(name)
      return url.replace(`:${port}/`, `:${own}/`)
    },
  }
}
