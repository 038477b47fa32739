import assert from 'node:assert/strict'
import { test } from 'node:test'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('an operator creates an account, credits it, blocks it and revokes its key while a server runs, and each takes effect', async (t) => {
  const { client, env } = await testApp(t)
  const tried = async (...args: readonly string[]) => {
    const { code, out, err } = await operate([...args, '--json'], env)
    return { code, err, json: JSON.parse(out) }
  }
  const run = async (...args: readonly string[]) => {
    const { code, err, json } = await tried(...args)
    assert.equal(code, 0, err)
    return json
  }
  const { accountId } = await run('accounts', 'create', '--email', 'ann@example.com')
  const { keyId, key } = await run('keys', 'create', '--account', accountId, '--scopes', 'buy')
  const wallet = () => client.get('/api/v1/wallet', { key })
  const order = (product = 'residential-premium') =>
    client.post('/api/v1/orders', { product_id: product, quantity: 5 }, { key })
  assert.deepEqual((await wallet()).body, { balanceCents: 0, owedCents: 0, currency: 'USD' })
  assert.equal((await client.get('/api/v1/me', { key })).body.email, 'ann@example.com')

  // The server has folded the empty wallet when it refuses; the credit must not be lost on that fold.
  const short = await order()
  assert.deepEqual([short.status, short.body.code], [402, 'insufficient_balance'])
  const credit = [
    ...['wallet', 'credit', '--kind=payment', '--account', accountId],
    ...['--cents', '5000', '--reference', 'wire 0'],
  ]
  assert.equal((await run(...credit)).balanceCents, 5000)
  assert.equal((await wallet()).body.balanceCents, 5000)
  const placed = await order()
  assert.deepEqual([placed.status, placed.body.balanceCents], [201, 2250])

  const again = await tried(...credit)
  assert.deepEqual([again.code, again.json.code], [1, 'already_applied'])
  assert.match(again.err, /nothing moved/)
  assert.equal((await wallet()).body.balanceCents, 2250)
  await run(...credit.with(-1, 'wire 1'))
  assert.equal((await wallet()).body.balanceCents, 7250)

  assert.equal((await order('none')).body.code, 'unknown_product')
  await run('accounts', 'block', accountId)
  await until(async () => (await order('none')).body.code === 'account_blocked')
  assert.equal((await wallet()).status, 200)
  await run('keys', 'revoke', keyId)
  await until(async () => (await wallet()).body.code === 'unauthorized')
})
