import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rmdir, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { readConfig } from '../../src/app/config.ts'
import { readDemoFile } from '../../src/app/demo/demo-file.ts'
import { gatewayPort } from '../../src/app/supervise.ts'
import { atEnd } from '../support/cleanup.ts'
import { call, dataDirectory, farebox, runToEnd, startFarebox } from '../support/farebox.ts'
import { ownPort } from '../support/own-port.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { usedDirectory } from '../support/used-folder.ts'

const order = { product_id: 'residential-premium', quantity: 5 }

test('a first start needs only a data folder, prints keys once and stores them', async (t) => {
  const FAREBOX_DATA = await dataDirectory(t)
  const first = await startFarebox(t, { FAREBOX_DATA })
  const demo = (await readDemoFile(FAREBOX_DATA))!
  assert.deepEqual(Object.keys(demo), ['baseUrl', 'sandbox', 'buyer', 'reseller', 'scraper'])
  assert.equal(demo.baseUrl, first.baseUrl)
  for (const role of ['buyer', 'reseller', 'scraper'] as const) {
    assert.match(demo[role].accountId, /^acc_[0-9a-f]{32}$/)
    assert.match(demo[role].key, /^fbx_[0-9A-Za-z]{40}$/)
    assert.ok(first.out().includes(demo[role].key), `the key of ${role} is printed`)
  }
  for (const file of ['demo.json', 'master.key', 'seal.key'])
    assert.equal((await stat(join(FAREBOX_DATA, file))).mode & 0o777, 0o600, file)
  assert.match(first.out(), /Farebox listens on http:\/\/127\.0\.0\.1:\d+\n$/)

  const wallet = await call(`${first.baseUrl}/api/v1/wallet`, demo.buyer.key)
  assert.equal(wallet.body.balanceCents, 100_000)
  const { code } = await first.stop()
  assert.equal(code, 0, first.err())

  const second = await startFarebox(t, { FAREBOX_DATA })
  const stored = (await readDemoFile(FAREBOX_DATA))!
  assert.deepEqual(stored, { ...demo, baseUrl: second.baseUrl, sandbox: stored.sandbox })
  assert.doesNotMatch(second.out(), /Demo accounts|fbx_/, 'keys are shown once')
  assert.ok(second.out().includes(join(FAREBOX_DATA, 'demo.json')), 'where the keys are')
  assert.equal((await call(`${second.baseUrl}/api/v1/wallet`, demo.buyer.key)).body.balanceCents, 100_000)
})

test('the printed commands work as they are', async (t) => {
  const FAREBOX_DATA = await dataDirectory(t)
  const { out } = await startFarebox(t, { FAREBOX_DATA })
  const { spawnSync } = await import('node:child_process')
  const script = out()
    .split('\n')
    .filter((line) => /^[A-Z_]*KEY=/.test(line) || line.startsWith('curl '))
    .map((line) => (line.startsWith('curl ') ? line.replace('curl -s', 'curl -sf') : line))
    .join('\n')
  const { stdout, status, stderr } = spawnSync('bash', ['-ec', script], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  const [quote, plan, addresses, orders, plans, proxies, wallet, scraped, moved] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.equal(quote.amountCents, plan.amountCents)
  assert.equal(addresses.proxyIds.length, 3)
  assert.equal(orders.total, 2)
  assert.deepEqual(
    plans.plans.map((found: { planId: string }) => found.planId),
    [plan.planId],
  )
  assert.equal(proxies.total, 3)
  assert.equal(wallet.balanceCents, 100_000 - plan.amountCents - addresses.amountCents)
  assert.deepEqual(scraped.billing, { priceUsd: '0.0030', billed: true })
  assert.deepEqual(
    moved.transactions.map(({ type, amountMicros }: { type: string; amountMicros: number }) => [
      type,
      amountMicros,
    ]),
    [
      ['hold', -3_000],
      ['credit', 50_000_000],
    ],
  )
})

test('a wrong setting fails the start by name before anything is created', async (t) => {
  const FAREBOX_DATA = await dataDirectory(t)
  const { code, out, err } = await runToEnd(t, { FAREBOX_DATA, PORT: '70000', LOG_LEVEL: 'chatty' })
  assert.equal(code, 1)
  assert.equal(out, '')
  assert.match(err, /PORT: expected a whole number from 0 to 65535, got "70000"/)
  assert.match(err, /LOG_LEVEL: expected one of fatal, .*, got "chatty"/)
  assert.deepEqual(await readdir(FAREBOX_DATA), [])
})

test('an unknown role fails the start and the message lists the known roles', async (t) => {
  const { code, err } = await runToEnd(t, { FAREBOX_DATA: await dataDirectory(t) }, ['htp'])
  assert.equal(code, 1)
  assert.match(
    err,
    /^Farebox does not start: there is no role htp\. Start without arguments, .+ or name some of http, projections, reactors, audit, gateway, freelist\.\n$/,
  )
})

test('an invalid file in FAREBOX_DATA fails a start and a command with one line that names it', async (t) => {
  const FAREBOX_DATA = await usedDirectory(t)
  const settings = { FAREBOX_DATA, FAREBOX_DEMO: 'off' }
  const refused = async (env: NodeJS.ProcessEnv, message: RegExp): Promise<void> => {
    const { code, err } = await runToEnd(t, env)
    assert.equal(code, 1)
    assert.match(err, message)
    assert.match(err, /^Farebox does not start: .+\n$/, 'one line')
  }
  const file = join(FAREBOX_DATA, 'seal.key')
  for (const path of [file, join(file, 'below')])
    await refused({ FAREBOX_DATA: path }, /cannot be used as FAREBOX_DATA \(.+\)\. Set it to a directory/)
  for (const name of ['master.key', 'postgres.password', 'demo.json']) {
    const path = join(FAREBOX_DATA, name)
    await rename(path, `${path}.away`).catch(() => undefined)
    await mkdir(path)
    await refused(settings, new RegExp(`${name} cannot be read \\(EISDIR: .+\\)\\. Let this user read it\\.`))
    if (name === 'master.key') {
      const { code, err } = await farebox(t, ['accounts', 'list'], settings)
      assert.equal(code, 1)
      assert.match(err, /^error: .+master\.key cannot be read .+\n$/)
    }
    await rmdir(path)
    await rename(`${path}.away`, path).catch(() => undefined)
  }
  await writeFile(join(FAREBOX_DATA, 'demo.json'), '{')
  await refused(settings, /demo\.json is no JSON\. Put it back/)
  await writeFile(join(FAREBOX_DATA, 'lock'), 'garbage that is no database of SQLite')
  await refused(settings, /lock cannot be locked \(file is not a database\)/)
})

test('a database user without the right to create tables fails the start with one line', async (t) => {
  const { url } = await emptyDatabase(t)
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  const role = `farebox_guest_${randomBytes(4).toString('hex')}`
  atEnd(t, async () => {
    await admin.query(`drop role ${role}`)
    await admin.end()
  })
  await admin.query(`create role ${role} login password 'guest'`)
  const asGuest = new URL(url)
  asGuest.username = role
  asGuest.password = 'guest'
  const key = randomBytes(32).toString('base64')
  const { code, err } = await runToEnd(t, {
    DATABASE_URL: asGuest.href,
    FAREBOX_MASTER_KEY: key,
    FAREBOX_SEAL_KEY: key,
  })
  assert.equal(code, 1)
  assert.match(
    err,
    /^Farebox does not start: the user of DATABASE_URL may not do what Farebox needs there \(permission denied .+\)\. Make it the owner of the database, or set DATABASE_OWNER_URL .+\n$/,
  )
})

test('a second start on the same data is refused by process id, and the first one keeps running', async (t) => {
  const FAREBOX_DATA = await usedDirectory(t)
  const first = await startFarebox(t, { FAREBOX_DATA })
  const { code, err } = await runToEnd(t, { FAREBOX_DATA })
  assert.equal(code, 1)
  assert.match(err, new RegExp(`in use by a Farebox server with process id ${first.pid}\\.`))
  assert.equal((await fetch(`${first.baseUrl}/readyz`)).status, 200)
})

test('a used port fails the start and the message names the setting to change', async (t) => {
  const first = await startFarebox(t, { FAREBOX_DATA: await usedDirectory(t), FAREBOX_DEMO: 'off' })
  const { port } = new URL(first.baseUrl)
  const FAREBOX_DATA = join(await dataDirectory(t), 'new')
  const { code, err } = await runToEnd(t, { FAREBOX_DATA, PORT: port })
  assert.equal(code, 1)
  assert.match(err, new RegExp(`port ${port} of 127\\.0\\.0\\.1 is taken by another program; set PORT`))
  assert.doesNotMatch(err, / {4}at /, 'no stack')
  assert.equal(existsSync(FAREBOX_DATA), false, 'nothing was made')
})

test('a start fails if the data folder cannot be created', async (t) => {
  const { code, err } = await runToEnd(t, { FAREBOX_DATA: '/proc/x/y' })
  assert.equal(code, 1)
  assert.match(err, /^Farebox does not start: .*cannot be used as FAREBOX_DATA .*ENOENT/)
  assert.doesNotMatch(err, / {4}at /, 'no stack')
})

test('the default gateway port falls back to a free port, with a warning, if it is in use', async (t) => {
  // Another program of this machine may have it already.
  const taken = createServer()
  t.after(() => taken.close())
  taken.listen(9000, '127.0.0.1')
  await once(taken, 'listening').catch(() => undefined)
  const server = await startFarebox(t, {
    FAREBOX_DATA: await usedDirectory(t),
    FAREBOX_GATEWAY_WORKERS: '1',
  })
  assert.match(server.err(), /"taken":9000,"port":\d+,"msg":"the default port of the gateway is taken/)
  const port = /"taken":9000,"port":(\d+)/.exec(server.err())?.[1]
  assert.notEqual(port, '9000')
  assert.match(server.out(), new RegExp(`gateway +127\\.0\\.0\\.1:${port},`))
  const ended = await runToEnd(t, {
    FAREBOX_DATA: await usedDirectory(t),
    FAREBOX_GATEWAY_WORKERS: '1',
    FAREBOX_GATEWAY_PORT: '9000',
  })
  assert.match(ended.err, /port 9000 of 127\.0\.0\.1, the gateway's, cannot be had/)
})

test('metrics have their own listener on this machine if the settings configure one', async (t) => {
  const server = await startFarebox(t, {
    FAREBOX_DATA: await usedDirectory(t),
    FAREBOX_METRICS_PORT: '0',
    LOG_LEVEL: 'info',
  })
  const inside = await until(() => /"url":"(http:\/\/127\.0\.0\.1:\d+)\/metrics"/.exec(server.err())?.[1])
  assert.match(await (await fetch(`${inside}/metrics`)).text(), /^farebox_http_requests_in_flight \d/m)
  assert.match(await (await fetch(`${inside}/readyz`)).text(), /"checks":\{"process":"ok"/)
  assert.equal((await fetch(`${inside}/api/v1/me`)).status, 404)
  assert.equal((await fetch(`${server.baseUrl}/metrics`)).status, 404)
  assert.equal(await (await fetch(`${server.baseUrl}/readyz`)).text(), '{"status":"ready"}\n')
  const other = await runToEnd(t, {
    FAREBOX_DATA: await usedDirectory(t),
    FAREBOX_METRICS_PORT: new URL(inside).port,
  })
  assert.match(other.err, /port \d+ of 127\.0\.0\.1 is taken .*; set FAREBOX_METRICS_PORT to another one/)
})

test('a configured sandbox port in use fails the start; a default one falls back to a free port and is printed', async (t) => {
  const free = await ownPort(2)
  const port = free + 1
  const taken = createServer().listen(port, '127.0.0.1')
  t.after(() => taken.close())
  await once(taken, 'listening')
  const ended = await runToEnd(t, {
    FAREBOX_DATA: await usedDirectory(t),
    FAREBOX_SANDBOX_PORT: String(port),
  })
  assert.equal(ended.code, 1)
  assert.match(
    ended.err,
    new RegExp(`port ${port} of 127\\.0\\.0\\.1 is taken by another program; set FAREBOX_SANDBOX_PORT`),
  )
  assert.doesNotMatch(ended.err, / {4}at /, 'no stack')
  const other = await startFarebox(t, { FAREBOX_DATA: await usedDirectory(t), PORT: String(free) })
  assert.match(
    other.err(),
    new RegExp(`"port":${port},"sandboxUrl":"http://127.0.0.1:\\d+","msg":"the port after PORT, .* is taken`),
  )
})

test('a gateway port in use fails the start and the message names the setting; 0 chooses a free port', async (t) => {
  const portOf = (port: number) => gatewayPort(readConfig({ FAREBOX_GATEWAY_PORT: String(port) }))
  const port = await ownPort()
  assert.equal(await portOf(port), port)
  const taken = createServer().listen(port, '127.0.0.1')
  t.after(() => taken.close())
  await once(taken, 'listening')
  await assert.rejects(portOf(port), {
    name: 'StartRefused',
    message: new RegExp(
      `^port ${port} of 127\\.0\\.0\\.1, the gateway's, cannot be had .+; set FAREBOX_GATEWAY_PORT`,
    ),
  })
  assert.ok((await portOf(0)) > 0)
})

test('a full disk fails the start with that reason and no stack', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const FAREBOX_DATA = await dataDirectory(t)
  await symlink('/dev/full', join(FAREBOX_DATA, 'running.json.new'))
  const { code, err } = await runToEnd(t, { FAREBOX_DATA })
  assert.equal(code, 1)
  assert.match(err, /^Farebox does not start: the disk is full: .*ENOSPC.*\. Make room and start again\.$/m)
  assert.doesNotMatch(err, / {4}at /, 'no stack')
})

test('a lost password file of the embedded Postgres fails the start, which does not create a new one', async (t) => {
  const FAREBOX_DATA = await usedDirectory(t)
  const settings = { FAREBOX_DATA, FAREBOX_DEMO: 'off' }
  const path = join(FAREBOX_DATA, 'postgres.password')
  await rename(path, `${path}.away`)
  const { code, err } = await runToEnd(t, settings)
  assert.equal(code, 1)
  assert.match(err, /postgres\.password is missing or empty, .* Put the file back from a backup/)
  assert.doesNotMatch(err, / {4}at /, 'no stack')
  assert.ok(!(await readdir(FAREBOX_DATA)).includes('postgres.password'), 'one was made')
  await rename(`${path}.away`, path)
  const again = await startFarebox(t, settings)
  await again.stop()
})

test('after kill -9 the data is unchanged, and a retry returns the same order', async (t) => {
  const FAREBOX_DATA = await usedDirectory(t)
  const first = await startFarebox(t, { FAREBOX_DATA })
  const { buyer } = (await readDemoFile(FAREBOX_DATA))!
  const headers = { 'Idempotency-Key': 'before-the-kill' }
  const placed = await call(`${first.baseUrl}/api/v1/orders`, buyer.key, { body: order, headers })
  assert.equal(placed.status, 201)
  await first.kill()

  const second = await startFarebox(t, { FAREBOX_DATA })
  const read = await call(`${second.baseUrl}/api/v1/orders/${placed.body.orderId}`, buyer.key)
  assert.equal(read.status, 200)
  assert.equal(read.body.status, 'completed')
  const again = await call(`${second.baseUrl}/api/v1/orders`, buyer.key, { body: order, headers })
  assert.equal(again.status, 200)
  assert.equal(again.body.orderId, placed.body.orderId)
  const wallet = await call(`${second.baseUrl}/api/v1/wallet`, buyer.key)
  assert.equal(wallet.body.balanceCents, placed.body.balanceCents)
})

test('another master key fails the start', async (t) => {
  const FAREBOX_DATA = await usedDirectory(t)
  const path = join(FAREBOX_DATA, 'master.key')
  const key = await readFile(path, 'utf8')
  await writeFile(path, `${randomBytes(32).toString('base64')}\n`)
  const { code, err } = await runToEnd(t, { FAREBOX_DATA })
  assert.equal(code, 1)
  assert.match(err, /FAREBOX_MASTER_KEY is not the key that this database was made with/)

  await writeFile(path, key)
  const again = await startFarebox(t, { FAREBOX_DATA, FAREBOX_DEMO: 'off' })
  await again.stop()
  const { err: sealError } = await runToEnd(t, {
    FAREBOX_DATA,
    FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
  })
  assert.match(sealError, /FAREBOX_SEAL_KEY is not the key/)
})

test('a lost key file fails the start, which does not create a new one', async (t) => {
  const FAREBOX_DATA = await usedDirectory(t)
  const settings = { FAREBOX_DATA, FAREBOX_DEMO: 'off' }
  for (const name of ['master', 'seal']) {
    const path = join(FAREBOX_DATA, `${name}.key`)
    await rename(path, `${path}.away`)
    const { code, err } = await runToEnd(t, settings)
    assert.equal(code, 1)
    assert.match(
      err,
      new RegExp(`${name}\\.key is missing, .* Put the file back from a backup, or set FAREBOX_`),
    )
    assert.ok(!(await readdir(FAREBOX_DATA)).includes(`${name}.key`), 'a key was made')
    await rename(`${path}.away`, path)
  }
  const again = await startFarebox(t, settings)
  await again.stop()
})
