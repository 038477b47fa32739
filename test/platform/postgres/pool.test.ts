import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { TLSSocket } from 'node:tls'
import { sql } from 'kysely'
import { isOutage } from '../../../src/platform/eventstore/errors.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { openSession } from '../../../src/platform/postgres/postgres-session.ts'
import { selfSigned } from '../../gateway/support/certificate.ts'
import { databaseUsers, emptyDatabase, testDatabase } from '../../support/postgres.ts'
import { stopRunning } from '../../support/stop-running.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'

test('columns are read as safe numbers, UTC texts and exact decimals', async (t) => {
  const { pool } = await testDatabase(t)
  const { rows } = await pool.query(`
    select 9007199254740991::bigint as safe,
           '{1,-2,null}'::bigint[] as many,
           '2026-11-21 03:00:00.123456+02'::timestamptz as moment,
           '2026-11-21 03:00:00+00'::timestamptz as whole,
           array['2026-11-21 03:00:00.5+00']::timestamptz[] as moments,
           1.10::numeric as exact`)
  assert.deepEqual(rows, [
    {
      safe: 9007199254740991,
      many: [1, -2, null],
      moment: '2026-11-21T01:00:00.123Z',
      whole: '2026-11-21T03:00:00.000Z',
      moments: ['2026-11-21T03:00:00.500Z'],
      exact: '1.10',
    },
  ])
})

test('a bigint past the safe integers is refused, never rounded', async (t) => {
  const { pool } = await testDatabase(t)
  await assert.rejects(
    pool.query('select 9007199254740993::bigint'),
    /bigint 9007199254740993 is not a safe integer/,
  )
})

test('an infinite time is refused', async (t) => {
  const { pool } = await testDatabase(t)
  await assert.rejects(pool.query("select 'infinity'::timestamptz"), /timestamptz infinity/)
})

test('sessions run in UTC with explicit limits and their name, also if the address has options', async (t) => {
  const { url } = await testDatabase(t)
  const withOptions = new URL(url)
  withOptions.searchParams.set('options', '-c work_mem=8MB -c timezone=Asia/Tokyo')
  const pool = createPool({
    url: withOptions.toString(),
    applicationName: 'farebox-x',
    statementTimeoutMs: 1234,
  })
  t.after(() => pool.end())
  const { rows } = await pool.query(`
    select current_setting('timezone') as timezone, current_setting('statement_timeout') as statement,
           current_setting('idle_in_transaction_session_timeout') as idle, current_setting('work_mem') as memory,
           current_setting('application_name') as name`)
  assert.deepEqual(rows, [
    { timezone: 'UTC', statement: '1234ms', idle: '30s', memory: '8MB', name: 'farebox-x' },
  ])
})

test('a committed transaction is on disk, whatever default the database has', async (t) => {
  const { url, pool: admin } = await testDatabase(t)
  await admin.query(`alter database ${nameOf(url)} set synchronous_commit = off`)
  const commitOf = async (address: string): Promise<string> => {
    const pool = createPool({ url: address, applicationName: 'farebox-x' })
    t.after(() => pool.end())
    return (await pool.query("select current_setting('synchronous_commit') as value")).rows[0].value
  }
  assert.equal(await commitOf(url), 'on')
  const stricter = new URL(url)
  stricter.searchParams.set('options', '-c synchronous_commit=remote_apply')
  assert.equal(await commitOf(stricter.toString()), 'remote_apply')
})

test('Postgres ends the sessions of a vanished machine within a minute, unless the address says otherwise', async (t) => {
  const { url, pool } = await testDatabase(t)
  const wanted = `
    select current_setting('tcp_keepalives_idle')::int as idle, current_setting('tcp_keepalives_interval')::int as each,
           current_setting('tcp_keepalives_count')::int as probes, current_setting('tcp_user_timeout') as unanswered`
  const [ours] = (await pool.query(wanted)).rows
  assert.deepEqual(ours, { idle: 30, each: 10, probes: 3, unanswered: '60000' })
  const withOptions = new URL(url)
  withOptions.searchParams.set('options', '-c tcp_keepalives_idle=300')
  const other = createPool({ url: withOptions.toString(), applicationName: 'farebox-x' })
  t.after(() => other.end())
  assert.equal((await other.query(wanted)).rows[0].idle, 300)
})

test('a connection that breaks while idle is reported and replaced', async (t) => {
  const { url, pool: other } = await testDatabase(t)
  const errors: Error[] = []
  const pool = createPool({
    url,
    applicationName: 'farebox-x',
    max: 1,
    onError: (error) => errors.push(error),
  })
  t.after(() => pool.end())
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  await other.query('select pg_terminate_backend($1, 5000)', [rows[0]?.pid])
  await until(() => errors.length === 1)
  assert.equal((await pool.query('select 1 as one')).rows[0].one, 1)
})

test('a connection that breaks during a query fails that query, and the process continues', async (t) => {
  const { url, pool: other } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const pool = createPool({ url: proxy.url, applicationName: 'farebox-broken', max: 1 })
  t.after(() => pool.end())
  const db = createKysely<Record<string, never>>(pool)
  const rejected = assert.rejects(sql`select pg_sleep(60)`.execute(db), /Connection terminated/)
  await until(async () => {
    const { rowCount } = await other.query(
      "select from pg_stat_activity where application_name = 'farebox-broken' and wait_event = 'PgSleep'",
    )
    return rowCount === 1
  })
  proxy.cut()
  await rejected
  assert.deepEqual((await sql`select 1 as one`.execute(db)).rows, [{ one: 1 }])
})

test('a query without an answer is abandoned as an outage, with its connection', async (t) => {
  const { url, pool: other } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const pool = createPool({ url: proxy.url, applicationName: 'farebox-silent', max: 1, answerTimeoutMs: 300 })
  t.after(() => pool.end())
  const own = async (): Promise<number> => (await pool.query('select pg_backend_pid() as pid')).rows[0].pid
  const former = await own()
  proxy.mute()
  await assert.rejects(own(), (error: Error) => {
    assert.match(error.message, /Postgres did not answer within 300 ms/)
    return isOutage(error)
  })
  await proxy.accept()
  assert.notEqual(await own(), former)
  await until(async () => {
    const { rowCount } = await other.query('select from pg_stat_activity where pid = $1', [former])
    return rowCount === 0
  })
})

test('a connection is not abandoned for silence while it is idle, or while rows arrive', async (t) => {
  const { url, pool: other } = await testDatabase(t)
  const pool = createPool({ url, applicationName: 'farebox-quiet', max: 1, answerTimeoutMs: 500 })
  t.after(() => pool.end())
  const own = async (): Promise<number> => (await pool.query('select pg_backend_pid() as pid')).rows[0].pid
  const former = await own()
  await other.query('select pg_sleep(1)')
  assert.equal(await own(), former)
  // Ten rows of 16 kB, one each tenth of a second: more than twice the bound in all.
  const slow = "select repeat('x', 16384) as text, pg_sleep(0.12) from generate_series(1, 10)"
  assert.equal((await pool.query(slow)).rowCount, 10)
  assert.equal(await own(), former)
})

test('a connection and a query are not given up for answers that this process could not read in time', async (t) => {
  const { url } = await testDatabase(t)
  const limits = { connectTimeoutMs: 1_500, answerTimeoutMs: 1_500 }
  const pool = createPool({ url, applicationName: 'farebox-starved', max: 1, ...limits })
  t.after(() => pool.end())
  const connecting = pool.query('select')
  stopRunning(1_700)
  await connecting
  const asking = pool.query('select pg_sleep(2)')
  await sleep(50)
  // Postgres answers after that, because it waited for a lock of this process, for example.
  stopRunning(1_700)
  await asking
  const session = openSession(pool, 'farebox-starved')
  stopRunning(1_700)
  await (await session).close()
})

test('a connection without an answer is given up, and a caller waits a limited time for one of a full pool', async (t) => {
  const { url } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const pool = createPool({ url: proxy.url, applicationName: 'farebox-x', max: 1, connectTimeoutMs: 300 })
  t.after(() => pool.end())
  proxy.mute()
  await assert.rejects(pool.query('select'), /Postgres did not answer within 300 ms/)
  await assert.rejects(openSession(pool, 'farebox-x'), /Postgres did not answer within 300 ms/)
  await proxy.accept()
  const client = await pool.connect()
  await assert.rejects(pool.query('select'), /timeout exceeded when trying to connect/)
  client.release()
})

const nameOf = (url: string): string => new URL(url).pathname.slice(1)

const inDatabase = (url: string, name: string): string =>
  Object.assign(new URL(url), { pathname: `/${name}` }).toString()

for (const [what, fail, mend] of [
  [
    'takes no connections (55000)',
    'alter database $name with allow_connections false',
    'alter database $name with allow_connections true',
  ],
  [
    'has no connection left for it (53300)',
    'alter database $name connection limit 0',
    'alter database $name connection limit -1',
  ],
  [
    'does not know the password (28P01)',
    "alter role $role password 'changed'",
    "alter role $role password 'secret'",
  ],
  ['lets its role not log in (28000)', 'alter role $role nologin', 'alter role $role login'],
  [
    'lets its role not connect (42501)',
    'revoke connect on database $name from public',
    'grant connect on database $name to public',
  ],
] as const)
  test(`a database that ${what} is an outage, and works again once it can`, async (t) => {
    const { service, as } = await databaseUsers(t)
    const { url } = await emptyDatabase(t)
    const admin = createPool({ url: inDatabase(url, 'postgres'), applicationName: 'farebox-admin' })
    t.after(() => admin.end())
    const run = (statement: string) =>
      admin.query(statement.replaceAll('$name', nameOf(url)).replaceAll('$role', service))
    const pool = createPool({ url: as(url, service), applicationName: 'farebox-refused', max: 2 })
    t.after(() => pool.end())
    await pool.query('select')
    await run(fail)
    await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1', [
      service,
    ])
    await until(async () => {
      const outcome = await pool.query('select').then(
        () => null,
        (error: Error) => error,
      )
      return outcome !== null && isOutage(outcome) && (outcome as { code?: string }).code !== undefined
    })
    await run(mend)
    await pool.query('select')
  })

/** A server in front of Postgres that accepts only TLS, with a certificate that nothing has signed. */
const tlsServer = async (t: TestContext, url: string): Promise<URL> => {
  const { hostname, port } = new URL(url)
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write('S')
      const secure = new TLSSocket(socket, { isServer: true, ...selfSigned() }).on('error', () => undefined)
      const upstream = connect(Number(port), hostname).on('error', () => secure.destroy())
      secure.pipe(upstream).pipe(secure)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return Object.assign(new URL(url), { port: String((server.address() as AddressInfo).port) })
}

test('sslmode=require accepts every certificate, as in libpq, and verify-full only one that is signed', async (t) => {
  const { url } = await testDatabase(t)
  const address = await tlsServer(t, url)
  const connectWith = async (mode: string) => {
    address.search = `?sslmode=${mode}`
    const pool = createPool({ url: address.toString(), applicationName: 'farebox-tls' })
    await pool.query('select').finally(() => pool.end())
  }
  await connectWith('require')
  await assert.rejects(connectWith('verify-full'), /self-signed certificate/)
})

test('an unknown host and a server of another protocol are outages', async (t) => {
  const { url } = await testDatabase(t)
  const addresses = [
    Object.assign(new URL(url), { hostname: 'no-such-host.invalid' }),
    Object.assign(new URL(url), { port: '1' }),
    Object.assign(new URL(url), { search: '?sslmode=require' }),
    Object.assign(new URL(url), { pathname: '/no_such_database' }),
  ]
  for (const address of addresses) {
    const pool = createPool({ url: address.toString(), applicationName: 'farebox-refused' })
    t.after(() => pool.end())
    await assert.rejects(pool.query('select'), isOutage, address.search)
    await assert.rejects(openSession(pool, 'farebox-refused'), isOutage)
  }
})

test('an error of a statement is not an outage', async (t) => {
  const { pool } = await testDatabase(t)
  for (const statement of ['selec', 'select 1/0', 'alter table no_such_table'])
    await assert.rejects(pool.query(statement), (error: unknown) => !isOutage(error))
})

test('a prepared statement on an exchanged table is refused as an outage once, and then works', async (t) => {
  const { url, pool: admin } = await testDatabase(t)
  await admin.query('create table public.shown (n integer); insert into public.shown values (1)')
  const pool = createPool({ url, applicationName: 'farebox-x', max: 5 })
  t.after(() => pool.end())
  const db = createKysely<Record<string, never>>(pool)
  const shown = () => sql`select n from public.shown, pg_sleep(0.05)`.execute(db)
  await Promise.all(Array.from({ length: 5 }, shown))
  assert.equal(pool.idleCount, 5)
  await admin.query(`
    begin;
    drop table public.shown;
    create table public.shown (n text);
    insert into public.shown values ('one');
    commit`)
  await assert.rejects(shown(), isOutage)
  for (const { rows } of await Promise.all(Array.from({ length: 5 }, shown)))
    assert.deepEqual(rows, [{ n: 'one' }])
  await admin.query('drop table public.shown')
  await assert.rejects(shown(), isOutage)
})

test('sessions opened while the database was read-only are replaced afterwards', async (t) => {
  const { url, pool: admin } = await testDatabase(t)
  await admin.query('create table public.written (n integer)')
  const pool = createPool({ url, applicationName: 'farebox-x', max: 5 })
  t.after(() => pool.end())
  const db = createKysely<Record<string, never>>(pool)
  await admin.query(`alter database ${nameOf(url)} set default_transaction_read_only = on`)
  await Promise.all(Array.from({ length: 5 }, () => pool.query('select pg_sleep(0.05)')))
  assert.equal(pool.idleCount, 5)
  await assert.rejects(sql`insert into public.written values (1)`.execute(db), isOutage)
  await admin.query(`alter database ${nameOf(url)} reset default_transaction_read_only`)
  await until(() =>
    pool.query('insert into public.written values (2)').then(
      () => true,
      () => false,
    ),
  )
  await Promise.all(
    Array.from({ length: 5 }, () => pool.query('insert into public.written select 3 from pg_sleep(0.05)')),
  )
})
