import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const orders = '/api/v1/orders'
const hourMs = 3_600_000
/** $5.50 of traffic. */
const traffic = { product_id: 'residential-premium', quantity: 1 }

/** The service, and what it answers to a key. */
const opened = async (t: TestContext) => {
  const app = await testApp(t, { own: 'file' })
  const codeOf = async (key: string) => {
    const answer = await app.client.get('/api/v1/me', { key })
    return answer.status === 200 ? 200 : answer.body.code
  }
  return { ...app, codeOf }
}

test('the last use of a key is shown by the commands, and written without delaying requests', async (t) => {
  const { client, customer, run, farebox } = await opened(t)
  const { accountId } = await customer({ cents: 0 })
  const { key, keyId } = await run('keys', 'create', '--account', accountId, '--scopes', 'buy')
  const lastUsed = async () =>
    (await run('keys', 'list', '--account', accountId)).keys.find(
      (each: { keyId: string }) => each.keyId === keyId,
    ).lastUsedAt
  assert.equal(await lastUsed(), null)
  const beforeMs = Date.now()
  const { head } = farebox.core.log
  const at = await head()
  for (let n = 0; n < 20; n += 1) await client.get('/api/v1/me', { key })
  const used = await until(lastUsed, { timeoutMs: 30_000, what: 'the last use to be written' })
  assert.ok(Date.parse(used) >= beforeMs - 60_000 && Date.parse(used) <= Date.now(), used)
  assert.equal(await head(), at, 'no use is an event')
})

// The clock leaps in the tests that follow.
test('a rotated key works until its overlap ends, its successor works on, and both share one cap', async (t) => {
  const { client, customer, run, codeOf, ahead, verified } = await opened(t)
  const { accountId } = await customer({ cents: 10_000 })
  const former = await run(
    ...['keys', 'create', '--account', accountId, '--scopes', 'buy', '--daily-cap-cents', '1650'],
  )
  const buy = async (key: string, name: string) => {
    const answer = await client.post(orders, traffic, { key, headers: { 'Idempotency-Key': name } })
    return answer.status === 201 ? 201 : answer.body
  }
  assert.equal(await buy(former.key, 'one'), 201)
  const next = await run('keys', 'roll', former.keyId, '--overlap', '2h')
  assert.equal(await buy(next.key, 'two'), 201)
  assert.equal(await buy(former.key, 'three'), 201)
  for (const key of [former.key, next.key]) {
    const { code, spentCents, capCents } = (await buy(key, `over ${key}`)) as Record<string, unknown>
    assert.deepEqual([code, spentCents, capCents], ['spend_cap_reached', 1_650, 1_650])
  }
  const last = await run('keys', 'roll', next.keyId, '--overlap', '0m')
  assert.equal(((await buy(last.key, 'four')) as Record<string, unknown>).code, 'spend_cap_reached')
  await verified()

  await until(async () => (await codeOf(next.key)) === 'unauthorized')
  assert.deepEqual([await codeOf(former.key), await codeOf(last.key)], [200, 200])
  ahead(2 * hourMs)
  assert.deepEqual([await codeOf(former.key), await codeOf(last.key)], ['unauthorized', 200])
})

test('the answer is the same for a key that is unknown, expired, revoked or for other networks', async (t) => {
  const { client, customer, run, ahead, codeOf } = await opened(t)
  const { accountId } = await customer({ cents: 0 })
  const make = (...more: readonly string[]) =>
    run('keys', 'create', '--account', accountId, '--scopes', 'buy', ...more)
  const elsewhere = await make('--networks', '203.0.113.0/24,2001:db8::/32')
  const here = await make('--networks', '127.0.0.0/8,::1')
  const ends = await make('--expires-in-days', '1')
  const revoked = await make()
  await run('keys', 'revoke', revoked.keyId)
  assert.deepEqual([await codeOf(ends.key), await codeOf(here.key)], [200, 200])
  ahead(25 * hourMs)
  const unknown = 'fbx_000000000000000000000000000000000000'
  const answerTo = async (key: string) => {
    const { status, body } = await client.get('/api/v1/me', { key })
    return [status, body.code, body.error]
  }
  const first = await answerTo(unknown)
  assert.deepEqual(first.slice(0, 2), [401, 'unauthorized'])
  for (const { key } of [elsewhere, ends, revoked]) assert.deepEqual(await answerTo(key), first)
})
