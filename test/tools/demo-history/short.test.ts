import assert from 'node:assert/strict'
import { test } from 'node:test'
import { demoEnv } from '../../support/demo-env.ts'
import { dataDirectory } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { emptyDatabase } from '../../support/postgres.ts'

const command = ['demo', 'history', '--days', '2', '--customers', '2', '--json']

test('a short history is made once, with past events, and passes verification', async (t) => {
  const env = demoEnv((await emptyDatabase(t)).url, await dataDirectory(t))
  const { code, out, err } = await operate(command, env)
  assert.equal(code, 0, err)
  const { accounts, orders } = JSON.parse(out)
  assert.equal(accounts, 3 + 2)
  assert.ok(orders >= 1)
  const verified = await operate(['ledger', 'verify', '--json'], env)
  assert.equal(verified.code, 0, verified.out)
  const once = await operate(command, env)
  assert.deepEqual([once.code, JSON.parse(once.out).code], [1, 'has_history'])
})

test('a history is refused if payments or scrapes would be real, or if it would not have its own clock', async (t) => {
  const dataDir = await dataDirectory(t)
  const { url } = await emptyDatabase(t)
  for (const setting of [
    { FAREBOX_DEMO: 'off' },
    { FAREBOX_CLOCK_OFFSET_MS: '1000' },
    { FAREBOX_SANDBOX_URL: 'http://127.0.0.1:1' },
  ]) {
    const refused = await operate(command, { ...demoEnv(url, dataDir), ...setting })
    assert.equal(refused.code, 2, `${JSON.stringify(setting)} ${refused.out} ${refused.err}`)
    assert.match(refused.err, new RegExp(Object.keys(setting)[0]!))
  }
})
