import assert from 'node:assert/strict'
import { test } from 'node:test'
import { operate } from '../../../../../support/operator.ts'
import { testApp } from '../../../../../support/test-app.ts'

test('an operator sets the sample thing of an account', async (t) => {
  const { demo, env } = await testApp(t)
  const { accountId } = demo.buyer
  const set = (account: string, value: string) =>
    operate(['sample-area', 'sample-thing', account, value, '--json'], env)

  const first = await set(accountId, 'one')
  assert.equal(first.code, 0, first.err)
  assert.deepEqual(JSON.parse(first.out), { account: accountId, value: 'one', changed: true })
  assert.equal(JSON.parse((await set(accountId, 'one')).out).changed, false)
  assert.match((await set(accountId, ' ')).err, /must have 1 to \d+ characters/)
  const unknown = await set('acc_none', 'one')
  assert.equal(unknown.code, 2)
  assert.match(unknown.err, /no account has this id/)
})
