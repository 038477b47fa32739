import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { runToEnd } from '../../support/farebox.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { dayMs, path } from './subscriptions.ts'

const price = 550

test('two processes that are killed while a month passes renew once', async (t) => {
  const { env, demo, buyer, credit, balance, close } = await testApp(t, { own: true })
  const { key, accountId } = demo.buyer
  await credit(accountId, 100_000)
  const paths: string[] = []
  for (let n = 0; n < 10; n += 1) {
    const { status, body } = await buyer.post(path, {
      product_id: 'residential-premium',
      quantity: 1,
      interval: 'month',
    })
    assert.equal(status, 201)
    paths.push(`${path}/${body.subscriptionId}`)
  }
  const before = await balance(key)
  await close()

  // A month later two processes wake up; each dies at its first renewals, again and again.
  const later = { ...env, FAREBOX_CLOCK_OFFSET_MS: String(32 * dayMs) }
  const roles = ['projections', 'reactors']
  for (const at of ['before-append:1', 'after-append:1', 'before-answer:2']) {
    const two = [0, 1].map(() => runToEnd(t, { ...later, FAREBOX_CRASH_AT: at }, roles))
    // A process that finds no more work does not end; it continues with the others.
    await Promise.race([Promise.all(two), sleep(4_000, undefined, { ref: false })])
  }
  const last = await testApp(t, { own: true, settings: later })
  const records = await until(
    async () => {
      const read = await Promise.all(paths.map((one) => last.buyer.get(one)))
      return read.every(({ body }) => body.currentPeriodStart !== body.startedAt)
        ? read.map(({ body }) => body)
        : null
    },
    { timeoutMs: 20_000, what: 'the renewals' },
  )
  for (const { startedAt, currentPeriodStart } of records) assert.notEqual(startedAt, currentPeriodStart)
  assert.equal(await last.balance(key), before - paths.length * price, 'a period was charged twice')
})
