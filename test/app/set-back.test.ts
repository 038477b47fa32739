import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setBack } from '../platform/eventstore/set-back.ts'
import { logInPostgres } from '../support/service-env.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const skip = logInPostgres ? false : 'the log is set back in Postgres'

test('a process ends when the log has lost events that the process knows', { skip }, async (t) => {
  const app = await testApp(t, { own: true })
  const { core, failed } = app.farebox
  const { key } = await app.customer({ cents: 10_000 })
  // A key that the read models do not have yet is unknown, whatever happened to the log.
  await until(async () => (await app.balance(key)) === 10_000)
  await setBack(core.pool, (await core.log.head()) - 1)
  const order = { product_id: 'residential-premium', quantity: 1 }
  let ended: Error | null = null
  void failed.then((error) => {
    ended = error
  })
  const answers = new Set<number>()
  // The first one may be refused by the key look-up, whose connection ended too: then nothing was appended
  // yet.
  await until(async () => {
    answers.add((await app.client.post('/api/v1/orders', order, { key })).status)
    return ended !== null
  })
  assert.deepEqual([...answers], [503])
  assert.match((await failed).message, /^the log was set back under this process: it does not have event /)
})
