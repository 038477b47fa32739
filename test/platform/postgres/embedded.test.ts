import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { DataInUse, readDataUser } from '../../../src/platform/postgres/data-lock.ts'
import { initdbProblem, roleUrlsOf, startEmbeddedPostgres } from '../../../src/platform/postgres/embedded.ts'
import { postmasterPid } from '../../../src/platform/postgres/postmaster.ts'
import { atEnd } from '../../support/cleanup.ts'
import { until } from '../../support/until.ts'

const temporaryDir = async (t: TestContext): Promise<string> => {
  const dir = await mkdtemp(join(tmpdir(), 'farebox-embedded-'))
  atEnd(t, () => rm(dir, { recursive: true, force: true }))
  return dir
}

const one = async <Row>(url: string, sql: string): Promise<Row> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows[0]
  } finally {
    await client.end()
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** A separate process that starts Postgres on the data and then waits to be killed. */
const startElsewhere = async (t: TestContext, dataDir: string): Promise<ChildProcess> => {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'embedded-holder.ts'), dataDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  atEnd(t, () => child.kill('SIGKILL'))
  const [line] = await once(child.stdout!, 'data')
  assert.equal(String(line).trim(), 'ready')
  return child
}

test('data, password and settings survive a clean restart, and the data is durable', async (t) => {
  const dataDir = await temporaryDir(t)
  const first = await startEmbeddedPostgres({ dataDir })
  await one(first.ownerUrl, 'create table saved as select 42 as n')
  await first.stop()
  assert.equal(await readDataUser(dataDir), null)
  assert.equal(isAlive(first.pid), false)

  const second = await startEmbeddedPostgres({ dataDir })
  atEnd(t, () => second.stop())
  assert.deepEqual(await one(second.ownerUrl, 'select n from saved'), { n: 42 })
  assert.equal(new URL(second.url).password, new URL(first.url).password)
  assert.deepEqual(
    await one(
      second.url,
      `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
              current_setting('full_page_writes') as pages, current_setting('data_checksums') as sums`,
    ),
    { fsync: 'on', commit: 'on', pages: 'on', sums: 'on' },
  )
})

test('secrets are readable by the owner only', async (t) => {
  const dataDir = await temporaryDir(t)
  const server = await startEmbeddedPostgres({ dataDir })
  atEnd(t, () => server.stop())
  for (const file of ['postgres.password', 'running.json', 'postgres.log'])
    assert.equal((await stat(join(dataDir, file))).mode & 0o777, 0o600, file)
  assert.equal((await stat(join(dataDir, 'postgres'))).mode & 0o777, 0o700)
  assert.equal((await readdir(dataDir)).includes('postgres.initdb'), false)
  assert.equal(
    (await readdir(tmpdir())).some((name) => name.startsWith('pg-password')),
    false,
  )
})

test("the serving role owns nothing and its address is the printed one; its password does not reveal the owner's", async (t) => {
  const dataDir = await temporaryDir(t)
  const server = await startEmbeddedPostgres({ dataDir })
  atEnd(t, () => server.stop())
  assert.deepEqual(
    await one(
      server.url,
      'select rolname as name, rolsuper as super, rolcreaterole as makes from pg_roles where rolname = current_user',
    ),
    { name: 'farebox_service', super: false, makes: false },
  )
  assert.equal((await readDataUser(dataDir))!.url, server.url)
  assert.deepEqual(await roleUrlsOf(dataDir, server.url), {
    ownerUrl: server.ownerUrl,
    auditorUrl: server.auditorUrl,
  })
  const owner = Object.assign(new URL(server.url), { username: 'farebox' })
  await assert.rejects(one(owner.toString(), 'select 1'), /password authentication failed/)
})

test('a wrong password is refused', async (t) => {
  const server = await startEmbeddedPostgres({ dataDir: await temporaryDir(t) })
  atEnd(t, () => server.stop())
  const wrong = new URL(server.url)
  wrong.password = 'guess'
  await assert.rejects(one(wrong.toString(), 'select 1'), /password authentication failed/)
})

test('a second start on the same data is refused and names the running process', async (t) => {
  const dataDir = await temporaryDir(t)
  const holder = await startElsewhere(t, dataDir)
  await assert.rejects(startEmbeddedPostgres({ dataDir }), (error) => {
    assert(error instanceof DataInUse)
    assert.match(error.message, new RegExp(`in use by a Farebox server with process id ${holder.pid}\\b`))
    return true
  })
  const user = await readDataUser(dataDir)
  assert.deepEqual(await one(user!.url!, 'select 1 as one'), { one: 1 })
})

test('after kill -9 of the process its Postgres is found, stopped and started again', async (t) => {
  const dataDir = await temporaryDir(t)
  const holder = await startElsewhere(t, dataDir)
  const { url } = (await readDataUser(dataDir))!
  await one((await roleUrlsOf(dataDir, url!))!.ownerUrl, 'create table saved as select 7 as n')
  const orphan = (await postmasterPid(join(dataDir, 'postgres')))!
  holder.kill('SIGKILL')
  await once(holder, 'exit')
  assert.equal(isAlive(orphan), true)

  const server = await startEmbeddedPostgres({ dataDir })
  atEnd(t, () => server.stop())
  assert.equal(isAlive(orphan), false)
  assert.deepEqual(await one(server.ownerUrl, 'select n from saved'), { n: 7 })
})

test('after kill -9 of the process and of Postgres the data is recovered', async (t) => {
  const dataDir = await temporaryDir(t)
  const holder = await startElsewhere(t, dataDir)
  const { url } = (await readDataUser(dataDir))!
  await one((await roleUrlsOf(dataDir, url!))!.ownerUrl, 'create table saved as select 8 as n')
  const orphan = (await postmasterPid(join(dataDir, 'postgres')))!
  holder.kill('SIGKILL')
  process.kill(orphan, 'SIGKILL')
  await until(() => !isAlive(orphan))

  const server = await startEmbeddedPostgres({ dataDir })
  atEnd(t, () => server.stop())
  assert.deepEqual(await one(server.ownerUrl, 'select n from saved'), { n: 8 })
})

test('a lock file with the process id of another program does not prevent the start', async (t) => {
  const dataDir = await temporaryDir(t)
  const holder = await startElsewhere(t, dataDir)
  const lockFile = join(dataDir, 'postgres', 'postmaster.pid')
  const orphan = (await postmasterPid(join(dataDir, 'postgres')))!
  holder.kill('SIGKILL')
  const text = await readFile(lockFile, 'utf8')
  process.kill(orphan, 'SIGKILL')
  await until(() => !isAlive(orphan))
  await writeFile(lockFile, text.replace(String(orphan), String(process.ppid)))

  const server = await startEmbeddedPostgres({ dataDir })
  atEnd(t, () => server.stop())
  assert.deepEqual(await one(server.url, 'select 1 as one'), { one: 1 })
})

test('a first start that was killed while it created the cluster is repeated', async (t) => {
  const dataDir = await temporaryDir(t)
  await mkdir(join(dataDir, 'postgres.new', 'base'), { recursive: true })
  const server = await startEmbeddedPostgres({ dataDir })
  atEnd(t, () => server.stop())
  assert.deepEqual(await one(server.url, 'select current_database() as name'), { name: 'farebox' })
})

test('a folder that is closed to other users works', async (t) => {
  const closed = await temporaryDir(t)
  await chmod(closed, 0o700)
  const server = await startEmbeddedPostgres({ dataDir: join(closed, 'data') })
  atEnd(t, () => server.stop())
  assert.deepEqual(await one(server.url, 'select 1 as one'), { one: 1 })
})

test('a Postgres that ends by itself is reported, with the end of its log', async (t) => {
  const server = await startEmbeddedPostgres({ dataDir: await temporaryDir(t) })
  process.kill(server.pid, 'SIGQUIT')
  assert.match((await server.failed).message, /ended by itself.*received immediate shutdown request/s)
  await server.stop()
})

test('a Postgres that cannot start is reported with the reason', async (t) => {
  await assert.rejects(
    startEmbeddedPostgres({ dataDir: await temporaryDir(t), settings: { shared_buffers: 'plenty' } }),
    /invalid value for parameter "shared_buffers": "plenty"/,
  )
})

test('a user without a name is named as the reason that no cluster can be created', () => {
  assert.match(
    initdbProblem('initdb: could not look up effective user ID 12345: user does not exist\n'),
    /^the user 12345 has no name on this machine, .*: add it to \/etc\/passwd, or set DATABASE_URL$/,
  )
  assert.equal(initdbProblem('initdb: error: x'), 'initdb failed:\ninitdb: error: x')
})
