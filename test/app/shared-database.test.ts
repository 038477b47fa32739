import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { readDemoFile } from '../../src/app/demo/demo-file.ts'
import { isOutage } from '../../src/platform/eventstore/errors.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { connectWhileAway, waitForDatabase } from '../../src/platform/postgres/wait-for-database.ts'
import { call, dataDirectory, runToEnd, startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { testDatabase } from '../support/postgres.ts'
import { seededDatabase } from '../support/seeded.ts'
import { type TcpProxy, tcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

/** Settings for a database of the user's. */
const settingsFor = async (t: TestContext) => {
  const { url, pool } = await testDatabase(t)
  return {
    pool,
    env: {
      DATABASE_URL: url,
      FAREBOX_DEMO: 'on',
      FAREBOX_DATA: await dataDirectory(t),
      FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
      FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
    },
  }
}

/** The same of one on which a service has started before. */
const startedSettings = async (t: TestContext) => ({
  ...(await seededDatabase(t, await dataDirectory(t))),
  LOG_LEVEL: 'warn',
})

const order = { product_id: 'residential-premium', quantity: 5 }

test('with an external database only demo.json is written under FAREBOX_DATA', async (t) => {
  const { env } = await settingsFor(t)
  const { baseUrl } = await startFarebox(t, env)
  assert.deepEqual(await readdir(env.FAREBOX_DATA), ['demo.json'])
  assert.equal((await stat(join(env.FAREBOX_DATA, 'demo.json'))).mode & 0o777, 0o600)
  assert.equal((await readDemoFile(env.FAREBOX_DATA))!.baseUrl, baseUrl)
})

test('FAREBOX_DEMO=off leaves an empty log empty', async (t) => {
  const { env, pool } = await settingsFor(t)
  const { baseUrl } = await startFarebox(t, { ...env, FAREBOX_DEMO: 'off' })
  assert.equal((await fetch(`${baseUrl}/readyz`)).status, 200)
  assert.deepEqual((await pool.query('select last_position from log.head')).rows, [{ last_position: 0 }])
  assert.deepEqual(await readdir(env.FAREBOX_DATA), [])
})

test('a log with events gets no demo data', async (t) => {
  const { env, pool } = await settingsFor(t)
  const made = await operate(['accounts', 'create', '--email', 'a@example.com', '--json'], env)
  assert.equal(made.code, 0, made.err)
  const head = async () => (await pool.query('select last_position from log.head')).rows[0].last_position
  const before = await head()
  assert.ok(before > 0)
  await startFarebox(t, env)
  assert.equal(await head(), before)
  assert.equal(await readDemoFile(env.FAREBOX_DATA), null)
})

for (const pass of [1, 2, 40, 48, 52])
  test(`a start completes demo data whose creation was killed at append ${pass}, without duplicates`, async (t) => {
    const { env, pool } = await settingsFor(t)
    const killed = await runToEnd(t, { ...env, FAREBOX_CRASH_AT: `after-append:${pass}` })
    assert.equal(killed.signal, 'SIGKILL', killed.err)
    const { baseUrl, out } = await startFarebox(t, env)
    const demo = (await readDemoFile(env.FAREBOX_DATA))!
    assert.match(out(), /Demo accounts/)
    for (const [role, cents] of [
      ['buyer', 100_000],
      ['reseller', 500_000],
    ] as const) {
      const { status, body } = await call(`${baseUrl}/api/v1/wallet`, demo[role].key)
      assert.deepEqual([status, body.balanceCents], [200, cents], role)
    }
    assert.equal((await call(`${baseUrl}/api/v1/me`, demo.scraper.key)).status, 200)
    assert.deepEqual((await pool.query('select count(*) from vault.accounts')).rows, [{ count: 3 }])
    const usable = await pool.query('select count(*) from read.keys where not revoked')
    // The scraper has one for its calls and one to read its wallet with.
    assert.deepEqual(usable.rows, [{ count: 4 }])
  })

test('a start shows no demo of another database, and leaves its file unchanged', async (t) => {
  const env = await startedSettings(t)
  const demo = await readDemoFile(env.FAREBOX_DATA)
  const { url } = await testDatabase(t)
  const { out } = await startFarebox(t, { ...env, DATABASE_URL: url, FAREBOX_DEMO: 'off' })
  assert.doesNotMatch(out(), /demo|fbx_/i)
  assert.deepEqual(await readDemoFile(env.FAREBOX_DATA), demo)
})

test('a second process with another master key does not start', async (t) => {
  const env = await startedSettings(t)
  const { code, err } = await runToEnd(t, {
    ...env,
    FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
  })
  assert.equal(code, 1)
  assert.match(err, /FAREBOX_MASTER_KEY is not the key that this database was made with/)
})

test('a start fails if the database belongs to a newer version', async (t) => {
  const { env, pool } = await settingsFor(t)
  await pool.query("insert into public.farebox_migration (name, checksum) values ('9999_future', 'x')")
  const { code, err } = await runToEnd(t, env)
  assert.equal(code, 1)
  assert.match(err, /newer than this version of Farebox: it has 9999_future/)
  assert.doesNotMatch(err, / {4}at /, 'no stack')
})

test('a start waits for a long migration of another process, prints which one, and continues afterwards', async (t) => {
  const { env, pool } = await settingsFor(t)
  const migrating = await pool.connect()
  await migrating.query('select pg_advisory_lock(7230001)')
  const started = startFarebox(t, { ...env, FAREBOX_DEMO: 'off' })
  await until(async () => {
    const { rowCount } = await pool.query(
      "select from pg_stat_activity where datname = current_database() and query like '%pg_try_advisory_lock%' and pid <> pg_backend_pid()",
    )
    return rowCount! > 0
  })
  const { code } = await operate(['accounts', 'list'], env)
  migrating.release(true)
  assert.equal(code, 0, 'a command migrates nothing')
  const { err } = await started
  assert.match(
    err(),
    /"holder":\{"application":"farebox-test","address":"[^"]+","backend":\d+\},"msg":"another process is migrating the database: waiting for it"/,
  )
})

test('a start fails if the database cannot be reached, and does not print its password', async (t) => {
  const { env } = await settingsFor(t)
  const { code, err } = await runToEnd(t, { ...env, DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/none' })
  assert.equal(code, 1)
  assert.match(err, /waiting for the database none on 127\.0\.0\.1:1 \(0 s so far\): .*ECONNREFUSED/)
  assert.match(
    err,
    /^Farebox does not start: the database none on 127\.0\.0\.1:1 gave no connection within 10 s \(.*ECONNREFUSED.*\)\. Is it running, and is DATABASE_URL right\?$/m,
  )
  assert.doesNotMatch(err, /hunter2/)
})

for (const [what, fail] of [
  ['takes no connections yet', (proxy: TcpProxy) => proxy.refuse()],
  ['says nothing for a while', (proxy: TcpProxy) => proxy.mute()],
] as const)
  test(`a start waits a limited time for a database that ${what}`, async (t) => {
    const { env } = await settingsFor(t)
    const proxy = await tcpProxy(t, env.DATABASE_URL)
    const { url } = proxy
    const pool = createPool({ url, applicationName: 'farebox-test', connectTimeoutMs: 1_000 })
    t.after(() => pool.end())
    await fail(proxy)
    await assert.rejects(waitForDatabase(pool, { url, withinMs: 1_500 }), { name: 'DatabaseUnreachable' })
    const reasons: string[] = []
    const onWait = (reason: string): void => {
      reasons.push(reason)
      void proxy.accept()
    }
    await waitForDatabase(pool, { url, withinMs: 60_000, onWait })
    assert.equal(reasons.length, 1)
  })

test('a server waits for a silent database longer than for one that refuses connections', async (t) => {
  const { env } = await settingsFor(t)
  const proxy = await tcpProxy(t, env.DATABASE_URL)
  const { url } = proxy
  const pool = createPool({ url, applicationName: 'farebox-test', connectTimeoutMs: 200 })
  t.after(() => pool.end())
  proxy.mute()
  const waiting = waitForDatabase(pool, { url, withinMs: 400, isPatient: true })
  await sleep(1_500)
  await proxy.accept()
  await waiting
  await proxy.refuse()
  await assert.rejects(waitForDatabase(pool, { url, withinMs: 400, isPatient: true }), {
    name: 'DatabaseUnreachable',
  })
})

test('during a start each connection of a pool waits for the database, afterwards none', async (t) => {
  const { env } = await settingsFor(t)
  const proxy = await tcpProxy(t, env.DATABASE_URL)
  const pool = createPool({ url: proxy.url, applicationName: 'farebox-test', connectTimeoutMs: 200 })
  t.after(() => pool.end())
  const starting = new AbortController()
  const reasons: string[] = []
  connectWhileAway(pool, { signal: starting.signal, onWait: (reason) => void reasons.push(reason) })
  for (const fail of [() => proxy.mute(), () => proxy.refuse()]) {
    await fail()
    proxy.cut()
    await until(() => pool.totalCount === 0)
    const asking = Promise.all([pool.query('select 1 as one'), pool.query('select 1 as one')])
    const taking = pool.connect()
    await sleep(1_000)
    await proxy.accept()
    for (const { rows } of await asking) assert.deepEqual(rows, [{ one: 1 }])
    ;(await taking).release()
  }
  assert.match(reasons[0]!, /did not answer within 200 ms/)
  await proxy.refuse()
  await until(() => pool.totalCount === 0)
  const waiting = [pool.query('select'), pool.connect()].map((each) => assert.rejects(each, isOutage))
  await sleep(300)
  starting.abort()
  await Promise.all(waiting)
  await assert.rejects(pool.query('select'), isOutage)
})

test('a start reports at once an error that waiting does not resolve', async (t) => {
  const { env } = await settingsFor(t)
  const url = Object.assign(new URL(env.DATABASE_URL), { password: 'wrong', pathname: '/absent' }).toString()
  const pool = createPool({ url, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  await assert.rejects(waitForDatabase(pool, { url, withinMs: 600_000 }), { name: 'StartRefused' })
})

for (const [what, changes, message] of [
  [
    'password',
    { password: 'wr0ng' },
    /refuses the user "farebox" or its password\. Is DATABASE_URL right\?$/m,
  ],
  ['database', { pathname: '/absent' }, /has no database "absent"\. Is DATABASE_URL right\?$/m],
] as const)
  test(`a wrong ${what} in DATABASE_URL fails the start with the reason and no stack`, async (t) => {
    const { env } = await settingsFor(t)
    const url = Object.assign(new URL(env.DATABASE_URL), changes as Partial<URL>).toString()
    const { code, err } = await runToEnd(t, { ...env, DATABASE_URL: url })
    assert.equal(code, 1)
    assert.match(err, message)
    assert.doesNotMatch(err, / {4}at |wr0ng/)
  })

test('a start waits for an unknown host in DATABASE_URL as for a database that is down', async (t) => {
  const { env } = await settingsFor(t)
  const { code, err } = await runToEnd(t, { ...env, DATABASE_URL: 'postgres://u@no-such-host.invalid/none' })
  assert.equal(code, 1)
  assert.match(err, /gave no connection within 10 s \(.*no-such-host\.invalid.*\)\. Is it running/)
  assert.doesNotMatch(err, / {4}at /)
})

test('roles can run in separate processes: one serves what another projects', async (t) => {
  const env = await startedSettings(t)
  const worker = await startFarebox(t, env, ['projections', 'reactors'])
  assert.match(worker.out(), /Farebox runs/)
  const web = await startFarebox(t, env, ['http'])
  const { buyer } = (await readDemoFile(env.FAREBOX_DATA))!
  const placed = await call(`${web.baseUrl}/api/v1/orders`, buyer.key, { body: order })
  assert.equal(placed.status, 201)
  const read = await call(`${web.baseUrl}/api/v1/orders/${placed.body.orderId}`, buyer.key)
  assert.deepEqual([read.status, read.body.status], [200, 'completed'])

  await worker.kill()
  await until(async () => (await fetch(`${web.baseUrl}/readyz`)).ok, { what: 'readiness with no new event' })
  const unread = await call(`${web.baseUrl}/api/v1/orders`, buyer.key, { body: order })
  assert.equal(unread.status, 201, 'orders need no projection')
  const behind = await call(`${web.baseUrl}/api/v1/wallet`, buyer.key)
  assert.equal(behind.status, 503, 'never an old balance')
  assert.equal((await fetch(`${web.baseUrl}/readyz`)).status, 503)
})

test('SIGTERM finishes the running requests, then the process exits with 0', async (t) => {
  const env = await startedSettings(t)
  const server = await startFarebox(t, env)
  const { buyer } = (await readDemoFile(env.FAREBOX_DATA))!
  const sent = Array.from({ length: 40 }, (_, n) =>
    call(`${server.baseUrl}/api/v1/orders`, buyer.key, {
      body: order,
      headers: { 'Idempotency-Key': `shutdown-${n}` },
    }).catch((error: Error) => error),
  )
  await Promise.race(sent)
  const { code, err } = await server.stop()
  assert.equal(code, 0, err)
  const answers = await Promise.all(sent)
  const placed = answers.filter((answer) => !(answer instanceof Error) && answer.status === 201)

  const again = await startFarebox(t, env)
  const wallet = await call(`${again.baseUrl}/api/v1/wallet`, buyer.key)
  const orders = await call(`${again.baseUrl}/api/v1/orders?limit=100`, buyer.key)
  assert.ok(placed.length > 0)
  assert.equal(orders.body.total, placed.length, 'each order that stands was answered')
  assert.equal(wallet.body.balanceCents, 100_000 - 2750 * placed.length)
})
