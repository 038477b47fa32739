import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { call, dataDirectory, startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { serviceEnv } from '../support/service-env.ts'

/** More wallets than a stopping process lists for the next one. */
const orders = 210

test('a stopping process lists its busy wallets, and the next process has read them when it is ready', async (t) => {
  const dataDir = await dataDirectory(t)
  const env = { ...(await serviceEnv(t, dataDir)), LOG_LEVEL: 'info' }
  const first = await startFarebox(t, env)
  const { buyer } = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const money = ['--account', buyer.accountId, '--cents', '10000000', '--reference', 'orders']
  assert.equal((await operate(['wallet', 'credit', ...money], env)).code, 0)
  const order = (baseUrl: string, key: string) =>
    call(`${baseUrl}/api/v1/orders`, buyer.key, {
      body: { product_id: 'residential-premium', quantity: 1 },
      headers: { 'Idempotency-Key': key },
    })
  const placed = await Promise.all(
    Array.from({ length: orders }, (_, n) => order(first.baseUrl, `order-${n}`)),
  )
  for (const { status, body } of placed) assert.equal(status, 201, JSON.stringify(body))
  assert.equal((await first.stop()).code, 0)

  const second = await startFarebox(t, env)
  const line = second
    .err()
    .split('\n')
    .find((each) => each.includes('busy streams were read ahead'))
  assert.ok(line, second.err())
  const { streams, of } = JSON.parse(line)
  // The wallet, and the plan that each order tops up.
  assert.ok(streams === of && streams >= 2, line)
  const again = await order(second.baseUrl, 'order-7')
  assert.deepEqual([again.status, again.body.orderId], [200, placed[7]!.body.orderId])
  assert.equal((await second.stop()).code, 0)
})
