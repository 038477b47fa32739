import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call, dataDirectory, farebox, startFarebox } from '../../support/farebox.ts'
import { until } from '../../support/until.ts'

test('an operator creates an account, credits it, blocks it and revokes its key while a server runs, and each takes effect', async (t) => {
  const env = { FAREBOX_DATA: await dataDirectory(t), FAREBOX_DEMO: 'off' }
  const { baseUrl } = await startFarebox(t, env)
  const run = async (...args: string[]) => {
    const { code, out, err } = await farebox(t, [...args, '--json'], env)
    assert.equal(code, 0, err)
    return JSON.parse(out)
  }
  const { accountId } = await run('accounts', 'create', '--email', 'ann@example.com')
  const { keyId, key } = await run('keys', 'create', '--account', accountId, '--scopes', 'buy')
  const wallet = () => call(`${baseUrl}/api/v1/wallet`, key)
  assert.deepEqual((await wallet()).body, { balanceCents: 0, currency: 'USD' })

  for (const [at, cents] of [700, 300].entries()) {
    await run(
      'wallet',
      'credit',
      '--account',
      accountId,
      '--cents',
      String(cents),
      '--reference',
      `wire ${at}`,
    )
    assert.equal((await wallet()).body.balanceCents, at === 0 ? 700 : 1_000)
  }
  assert.deepEqual((await call(`${baseUrl}/api/v1/me`, key)).body.email, 'ann@example.com')

  const order = () => call(`${baseUrl}/api/v1/orders`, key, { body: { product_id: 'none', quantity: 1 } })
  assert.equal((await order()).body.code, 'unknown_product')
  await run('accounts', 'block', accountId)
  await until(async () => (await order()).body.code === 'account_blocked')
  assert.equal((await wallet()).status, 200)
  await run('keys', 'revoke', keyId)
  await until(async () => (await wallet()).body.code === 'unauthorized')
})
