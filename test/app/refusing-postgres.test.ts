import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { cookieNames } from '../../src/platform/ui/cookies.ts'
import { newSecret } from '../../src/platform/vault/secrets.ts'
import { skipWithoutPostgresLog } from '../support/service-env.ts'
import { type TestApp, testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

/** The service, and a session on another database that changes the service's database. */
const openRefusable = async (t: TestContext) => {
  const lines: { msg: string }[] = []
  const app = await testApp(t, {
    own: true,
    settings: { LOG_LEVEL: 'warn' },
    logTo: { write: (line) => void lines.push(JSON.parse(line)) },
  })
  const url = new URL(app.env.DATABASE_URL!)
  const name = url.pathname.slice(1)
  const admin = createPool({
    url: Object.assign(url, { pathname: '/postgres' }).toString(),
    applicationName: 'farebox-admin',
  })
  t.after(() => admin.end())
  /** @param ends whether open sessions end, so that all of them see the change */
  const alter = async (change: string, ends = true): Promise<void> => {
    await admin.query(`alter database ${name} ${change}`)
    if (!ends) return
    await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1::text', [
      name,
    ])
  }
  return { app, lines, alter }
}

type Exchange = { readonly what: string; readonly response: Response; readonly text: string }

/** Every documented operation and some pages, with a cached key and one that must be looked up. */
const askAll = async ({ baseUrl, document, demo }: TestApp): Promise<readonly Exchange[]> => {
  const operations = Object.entries(document.paths as Record<string, Record<string, unknown>>).flatMap(
    ([path, methods]) => Object.keys(methods).map((method) => [method.toUpperCase(), path] as const),
  )
  const pages = ['/console', '/console/orders', '/console/sign-in', '/mcp'].map(
    (path) => ['GET', path] as const,
  )
  const ask = async (method: string, path: string, key: string): Promise<Exchange> => {
    const headers = {
      'x-api-key': key,
      cookie: `${cookieNames.session}=${newSecret()}`,
      ...(method !== 'GET' && { 'content-type': 'application/json', 'idempotency-key': randomUUID() }),
    }
    // The console is reached by this name.
    const response = await fetch(
      `${baseUrl.replace('127.0.0.1', 'localhost')}${path.replaceAll(/\{\w+\}/g, 'x')}`,
      {
        method,
        headers,
        redirect: 'manual',
        ...(method !== 'GET' && { body: '{}' }),
      },
    )
    return { what: `${method} ${path}`, response, text: await response.text() }
  }
  const keys = [demo.buyer.key, demo.reseller.key, `fbx_${randomUUID()}`]
  return Promise.all(
    [...operations, ...pages].flatMap(([method, path]) => keys.map((key) => ask(method, path, key))),
  )
}

const order = (app: TestApp, key: string) =>
  app.client.post('/api/v1/orders', { product_id: 'residential-basic', quantity: 1 }, { key })

test('a database that accepts no connections causes 503 on every route and only a few log lines', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const { app, lines, alter } = await openRefusable(t)
  const { key } = await app.customer({ cents: 100_000 })
  assert.equal((await order(app, key)).status, 201)
  await alter('with allow_connections false')
  const answers = await askAll(app)
  const away = answers.filter(({ response }) => response.status === 503)
  for (const { what, response, text } of answers)
    assert.ok(response.status < 500 || response.status === 503, `${what}: ${response.status} ${text}`)
  for (const { what, response } of away)
    assert.match(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/, what)
  assert.ok(away.length > 50, `${away.length} of ${answers.length}`)
  assert.ok(away.some(({ response }) => response.headers.get('content-type')?.startsWith('text/html')))
  assert.ok(lines.some(({ msg }) => msg === 'the database does not answer'))
  for (const [msg, repeated = []] of Object.entries(Object.groupBy(lines, (line) => line.msg)))
    assert.ok(repeated.length <= 10, `${repeated.length} lines: ${msg}`)
  await alter('with allow_connections true')
  await until(async () => (await order(app, key)).status === 201, { what: 'an order after the outage' })
})

test('a read-only database causes 503 for changing requests, and the service recovers by itself', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const { app, alter } = await openRefusable(t)
  const { key } = await app.customer({ cents: 100_000 })
  const hook = { url: 'http://127.0.0.1:9/hook', events: ['ping'] }
  assert.equal((await order(app, key)).status, 201)
  assert.ok(await app.farebox.projecting.caughtUp(30_000))
  await alter('set default_transaction_read_only = on')
  const changes = () =>
    Promise.all([
      order(app, key),
      app.client.post('/api/v1/webhooks', hook, { key }),
      app.client.post('/api/v1/deposits', { amount_cents: 1_000, method: 'card' }, { key }),
    ])
  for (let n = 0; n < 5; n += 1)
    for (const { status, headers, text } of await changes()) {
      assert.equal(status, 503, text)
      assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
    }
  // The sandbox of the payment provider stores its pages in the same database.
  const isOfSandbox = (what: string, text: string): boolean =>
    what === 'POST /api/v1/wallet/auto-topup/card' && text.includes('"code":"gateway_unavailable"')
  for (const { what, response, text } of await askAll(app))
    assert.ok(
      response.status < 500 || response.status === 503 || isOfSandbox(what, text),
      `${what}: ${response.status} ${text}`,
    )
  // Sessions that are open now stay read-only.
  await alter('reset default_transaction_read_only', false)
  let succeeded = 0
  const succeed = async () => {
    succeeded = (await changes()).every(({ status }) => status < 300) ? succeeded + 1 : 0
    return succeeded === 6
  }
  await until(succeed, { timeoutMs: 30_000, what: 'changes after the outage' })
  await until(async () => (await fetch(`${app.baseUrl}/readyz`)).ok, { what: 'readiness' })
})
