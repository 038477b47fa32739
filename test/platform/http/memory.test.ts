import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { testApp } from '../../support/test-app.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** The process's heap and external memory, after everything collectable is collected. */
const heldBytes = async (): Promise<number> => {
  for (let pass = 0; pass < 3; pass++) {
    collect()
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const mebibyte = 1024 * 1024

test('requests of one account, however long and varied, leave no growing memory', async (t) => {
  const { baseUrl, demo } = await testApp(t, { own: true })
  const headers = { 'x-api-key': demo.buyer.key }
  const padding = 'x'.repeat(14_000)
  let requestCount = 0
  const questions = ['plans?product=', 'orders?subscription_id=', 'proxies?product_id=', 'proxies?order_id=']
  const ask = async (count: number): Promise<void> => {
    for (let more = count; more > 0; more--) {
      requestCount += 1
      const question = questions[requestCount % questions.length]
      const answer = await fetch(`${baseUrl}/api/v1/${question}${requestCount}${padding}`, { headers })
      const text = await answer.text()
      assert.equal(answer.status, 200, text)
    }
  }
  const askers = (count: number) => Promise.all(Array.from({ length: 8 }, () => ask(count / 8)))
  await askers(160)
  const before = await heldBytes()
  await askers(1_000)
  const grown = (await heldBytes()) - before
  t.diagnostic(`${Math.round(grown / mebibyte)} MiB more after 1,000 questions of 14 KB`)
  assert.ok(grown < 8 * mebibyte, `${Math.round(grown / mebibyte)} MiB`)
})
