import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type TestApp, testApp } from '../support/test-app.ts'

/** More wallets than a stopping process lists for the next one. */
const orders = 210

test('a stopping service lists its busy wallets, and the next one has read them when it is ready', async (t) => {
  const first = await testApp(t, { own: true })
  const { env, demo } = first
  await first.credit(demo.buyer.accountId, 10_000_000)
  const order = ({ client }: TestApp, key: string) =>
    client.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 1 },
      { key: demo.buyer.key, headers: { 'Idempotency-Key': key } },
    )
  const placed = await Promise.all(Array.from({ length: orders }, (_, n) => order(first, `order-${n}`)))
  for (const { status, text } of placed) assert.equal(status, 201, text)
  await first.close()

  const lines: string[] = []
  const logTo = { write: (line: string) => void lines.push(line) }
  const second = await testApp(t, { own: true, settings: { ...env, LOG_LEVEL: 'info' }, logTo })
  const line = lines.find((each) => each.includes('busy streams were read ahead'))
  assert.ok(line, lines.join(''))
  const { streams, of } = JSON.parse(line)
  // The wallet, and the plan that each order tops up.
  assert.ok(streams === of && streams >= 2, line)
  const again = await order(second, 'order-7')
  assert.deepEqual([again.status, again.body.orderId], [200, placed[7]!.body.orderId])
})
