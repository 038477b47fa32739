import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { allMigrations } from '../src/app/migrations.ts'
import { openPostgresLog } from '../src/platform/eventstore/postgres/log.ts'
import { migrate } from '../src/platform/postgres/migrate.ts'
import { clientConfig, createPool } from '../src/platform/postgres/pool.ts'

export const withClient = async <Value>(
  url: string,
  use: (client: pg.Client) => Promise<Value>,
): Promise<Value> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

/** An empty database on this server, which is gone when the work is done, however it ended. */
export const withDatabase = async <Value>(
  server: string,
  work: (url: string) => Promise<Value>,
): Promise<Value> => {
  const name = `farebox_bench_${randomBytes(4).toString('hex')}`
  await withClient(server, (admin) => admin.query(`create database ${name}`))
  try {
    return await work(Object.assign(new URL(server), { pathname: `/${name}` }).toString())
  } finally {
    await withClient(server, (admin) => admin.query(`drop database ${name} with (force)`))
  }
}

export type BenchLog = {
  readonly url: string
  readonly pool: pg.Pool
  readonly log: ReturnType<typeof openPostgresLog>
}

/** The log of a database, migrated if it was not, with a pool whose statements may take as long as they need. */
export const withLogOf = async <Value>(
  url: string,
  work: (place: BenchLog) => Promise<Value>,
): Promise<Value> => {
  const settings = { url, applicationName: 'farebox-bench', statementTimeoutMs: 0 }
  const pool = createPool(settings)
  try {
    await migrate(pool, allMigrations)
    const log = openPostgresLog({ pool, connection: clientConfig(settings) })
    try {
      return await work({ url, pool, log })
    } finally {
      await log.close()
    }
  } finally {
    await pool.end()
  }
}

/** An empty log in a database of its own, which is gone when the work is done. */
export const withLog = <Value>(server: string, work: (place: BenchLog) => Promise<Value>): Promise<Value> =>
  withDatabase(server, (url) => withLogOf(url, work))

const durabilitySettings = [
  'server_version',
  'fsync',
  'synchronous_commit',
  'full_page_writes',
  'wal_init_zero',
  'shared_buffers',
  'max_wal_size',
]

/** The settings that say what a commit is worth on this server, e.g. `fsync on, synchronous_commit on, …`. */
export const durabilityOf = (url: string): Promise<string> =>
  withClient(url, async (client) => {
    const { rows } = await client.query<{ name: string; value: string }>(
      'select name, current_setting(name) as value from unnest($1::text[]) name',
      [durabilitySettings],
    )
    return rows.map(({ name, value }) => `${name} ${value}`).join(', ')
  })
