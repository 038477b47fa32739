import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { done } from '../support/app-actions.ts'
import type { Called } from '../support/http.ts'
import type { TestApp } from '../support/test-app.ts'
import type { orderlyCases } from './cases.ts'

/** Everything that a log line or an event must never contain, by name. */
const secretsOf = async (app: TestApp, keys: readonly string[]): Promise<Map<string, string>> => {
  const { client, demo, env, farebox } = app
  const secrets = new Map<string, string>()
  for (const key of keys) secrets.set(key, 'a key')
  for (const name of ['FAREBOX_MASTER_KEY', 'FAREBOX_SEAL_KEY']) secrets.set(env[name] ?? '', name)
  const databasePassword = new URL(env.DATABASE_URL ?? '').password
  if (databasePassword.length >= 8) secrets.set(databasePassword, "the database's password")
  const { rows } = await farebox.core.pool.query<{ email: string }>('select email from vault.accounts')
  for (const { email } of rows) secrets.set(email, 'an e-mail')
  for (const { key } of [demo.buyer, demo.reseller]) {
    const proxies = (await done(client.get('/api/v1/proxies?limit=100', { key }))).body.proxies
    const plans = (await done(client.get('/api/v1/plans?limit=100', { key }))).body.plans
    for (const { password } of proxies) secrets.set(password, "a proxy's password")
    for (const { connection } of plans) secrets.set(connection.password, "a plan's password")
  }
  return secrets
}

const security = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** Lists of locations are the same for all clients and requested often: clients may cache them. */
export const assertSecured = (operation: string, { status, headers }: Called): void => {
  const expected =
    operation.startsWith('listGeo') && status < 400 ? { ...security, 'cache-control': 'no-cache' } : security
  for (const [name, value] of Object.entries(expected))
    assert.equal(headers.get(name), value, `${operation} ${status}: ${name}`)
  assert.equal(headers.get('x-powered-by'), null)
  assert.equal(headers.get('server'), null)
}

type Prepared = Awaited<ReturnType<typeof orderlyCases>>['prepared']

/**
 * No log line, event or read table contains a secret.
 * @param lines of a service that logs everything
 */
export const assertNoSecrets = async (
  t: TestContext,
  app: TestApp,
  prepared: Prepared,
  lines: readonly string[],
): Promise<void> => {
  const { farebox, demo, client } = app
  const { core } = farebox
  // Where clients put their keys by mistake.
  const { key } = demo.buyer
  for (const path of [`/api/v1/me?api_key=${key}`, `/api/v1/orders/${key}`, `/${key}`])
    await client.get(path, { key })
  const mistaken = { label: `${key} ${prepared.poor.email}`.slice(0, 64) }
  await client.call('PATCH', `/api/v1/plans/${prepared.bought.plan.planId}`, { json: mistaken, key })

  await app.caughtUp()
  const keys = [
    demo.buyer.key,
    demo.reseller.key,
    demo.scraper.key,
    prepared.blocked.key,
    prepared.poor.key,
    prepared.revokedKey,
    prepared.cappedKey,
  ]
  const secrets = await secretsOf(app, keys)
  secrets.set(prepared.webhook.secret, 'a webhook secret')
  secrets.set(prepared.webhook.url, 'a webhook URL')
  const found = (text: string): string[] =>
    [...secrets].filter(([secret]) => text.includes(secret)).map(([, what]) => what)
  assert.deepEqual(found(`"${key}"`), ['a key'])

  await t.test('log lines', () => {
    for (const line of lines) assert.deepEqual(found(line), [], line)
    assert.doesNotMatch(lines.join(''), /@customers\.example|@demo\.farebox|fbx_[0-9A-Za-z]{40}/)
  })

  await t.test('events, with their metadata', async () => {
    // The service continues its automatic appends.
    const head = await core.log.head()
    let events = 0
    for (let from = 0; ; ) {
      const page = await core.log.readAll(from, 1_000)
      const last = page.at(-1)
      if (last === undefined) break
      for (const stored of page) {
        const { data, metadata } = core.codec.decode(stored)
        const text = JSON.stringify([data, metadata, stored])
        assert.deepEqual(found(text), [], text)
        assert.doesNotMatch(text, /password|@customers\.example|@demo\.farebox|fbx_[0-9A-Za-z]{40}/i)
        events += 1
      }
      from = last.position
    }
    assert.ok(events >= head, `${events} of ${head}`)
    t.diagnostic(`${secrets.size} secrets looked for in ${lines.length} lines and ${events} events`)
  })

  await t.test('read tables, which may be dumped for reports', async () => {
    const tables = await core.pool.query<{ schema: string; name: string }>(
      `select table_schema as schema, table_name as name from information_schema.tables
       where table_schema in ('read', 'engine', 'work')`,
    )
    for (const { schema, name } of tables.rows) {
      const { rows: whole } = await core.pool.query<{ text: string }>(
        `select t::text as text from ${schema}.${name} t`,
      )
      for (const { text } of whole) assert.deepEqual(found(text), [], `${schema}.${name}: ${text}`)
    }
  })
}
