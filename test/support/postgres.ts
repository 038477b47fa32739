import { createHash, randomBytes } from 'node:crypto'
import { channel } from 'node:diagnostics_channel'
import { after, type TestContext } from 'node:test'
import pg from 'pg'
import { allMigrations } from '../../src/app/migrations.ts'
import { migrate } from '../../src/platform/postgres/migrate.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { atEnd } from './cleanup.ts'
import { startTestServer } from './postgres-server.ts'

let ownServer: ReturnType<typeof startTestServer> | null = null

// A file that runs alone starts its own server; `test/run.ts` gives one to all files.
after(async () => {
  await (await ownServer)?.stop()
})

/** The address of the server of all tests of this process. */
export const serverUrl = async (): Promise<string> => {
  if (process.env.FAREBOX_TEST_DATABASE_URL) return process.env.FAREBOX_TEST_DATABASE_URL
  ownServer ??= startTestServer()
  return (await ownServer).url
}

const withDatabase = (url: string, database: string): string => {
  const changed = new URL(url)
  changed.pathname = `/${database}`
  return changed.toString()
}

const withClient = async <Value>(url: string, use: (client: pg.Client) => Promise<Value>): Promise<Value> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

/** A machine that runs many tests may open a connection slowly. */
const connectTimeoutMs = 60_000

const withPool = async <Value>(url: string, use: (pool: pg.Pool) => Promise<Value>): Promise<Value> => {
  const pool = createPool({ url, applicationName: 'farebox-test-template', connectTimeoutMs })
  try {
    return await use(pool)
  } finally {
    await pool.end()
  }
}

const templateName = `farebox_template_${createHash('sha256')
  .update(JSON.stringify(Object.entries(allMigrations)))
  .digest('hex')
  .slice(0, 16)}`

/**
 * A database that others are cloned from, filled by the first test that needs it. It is filled under another
 * name, so that it is complete when it can be found.
 * @returns the result of `fill`, as JSON in the comment of the database
 */
export const ensureTemplate = async (
  name: string,
  fill: (half: { readonly url: string }) => Promise<unknown>,
): Promise<unknown> => {
  const server = await serverUrl()
  return withClient(server, async (admin) => {
    await admin.query('select pg_advisory_lock(7230900)')
    const found = await admin.query<{ comment: string }>(
      `select shobj_description(oid, 'pg_database') as comment from pg_database where datname = $1`,
      [name],
    )
    if (found.rows[0]) return JSON.parse(found.rows[0].comment)
    const half = `${name}_half`
    await admin.query(`drop database if exists ${half}`)
    await admin.query(`create database ${half}`)
    const filled = (await fill({ url: withDatabase(server, half) })) ?? null
    await admin.query(`comment on database ${half} is ${pg.escapeLiteral(JSON.stringify(filled))}`)
    await admin.query(`alter database ${half} rename to ${name}`)
    return filled
  })
}

const migrated = ({ url }: { readonly url: string }) =>
  withPool(url, async (pool) => {
    await migrate(pool, allMigrations)
  })

let template: Promise<unknown> | null = null

/** An unused database name on the test server; dropped with the test, with its connections. */
export const emptyDatabase = async (t: TestContext, from = 'template1'): Promise<{ url: string }> => {
  const server = await serverUrl()
  const name = `farebox_test_${randomBytes(6).toString('hex')}`
  channel('test.database').publish({})
  await withClient(server, (admin) =>
    // Copied as files, in a third of the time that its blocks take through the write-ahead log.
    admin.query(`create database ${name} template ${from} strategy file_copy`),
  )
  atEnd(t, () => withClient(server, (admin) => admin.query(`drop database if exists ${name} with (force)`)))
  return { url: withDatabase(server, name) }
}

/**
 * Three users without any right: a serving role, an auditor, which is a member of it, and an owner, which is a member of
 * both. All are removed with the test, so their databases must be created after them.
 * @returns `as` gives a database's address with another user
 */
export const databaseUsers = async (t: TestContext) => {
  const server = await serverUrl()
  const [owner, service, auditor] = ['owner', 'service', 'auditor'].map(
    (part) => `farebox_${part}_${randomBytes(6).toString('hex')}`,
  )
  await withClient(server, (admin) =>
    admin.query(
      `create role ${service} login password 'secret';
       create role ${auditor} login password 'secret' in role ${service};
       create role ${owner} login password 'secret' in role ${service}, ${auditor}`,
    ),
  )
  atEnd(t, () => withClient(server, (admin) => admin.query(`drop role ${owner}, ${auditor}, ${service}`)))
  const as = (url: string, user: string): string =>
    Object.assign(new URL(url), { username: user, password: 'secret' }).toString()
  return { owner: owner!, service: service!, auditor: auditor!, as }
}

/**
 * A fresh, migrated database and a pool of 10 connections on it; both are gone with the test. Open more pools or start
 * processes on `url` as the test needs.
 */
export const testDatabase = async (t: TestContext): Promise<{ url: string; pool: pg.Pool }> => {
  template ??= ensureTemplate(templateName, migrated)
  await template
  const { url } = await emptyDatabase(t, templateName)
  const pool = createPool({ url, applicationName: 'farebox-test', connectTimeoutMs })
  atEnd(t, () => pool.end())
  return { url, pool }
}
