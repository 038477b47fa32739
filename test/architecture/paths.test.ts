import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createWorkers } from '../../src/platform/work/queue-workers.ts'
import { openShop } from '../features/deposits/support.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { filesOnPath } from './paths.ts'

/**
 * How many files a reader opens to follow a request. The files are those of `src` that run code for it, without the
 * kernel and without background work (see paths.ts).
 */
const assertAtMost = (limit: number, path: readonly string[]): void =>
  assert.ok(
    path.length <= limit,
    `${path.length} files are on the path, more than ${limit}:\n${path.join('\n')}`,
  )

describe('a path has few files:', () => {
  test('an order that the wallet pays, from the request to the answer', async (t) => {
    const { buyer } = await startService(t, {}, { roles: ['http'] })
    const order = async (name: string) => {
      const json = {
        product_id: 'isp-static',
        quantity: 1,
        fulfillment_meta: { country: 'USA', period_days: 30 },
      }
      const answer = await buyer.post('/api/v1/orders', json, { headers: { 'Idempotency-Key': name } })
      assert.equal(answer.status, 201, answer.text)
    }
    for (let n = 0; n < 5; n += 1) await order(`warm-${n}`)
    assertAtMost(78, await filesOnPath(() => order('measured')))
  })

  test('a payment, from the callback of its provider to the credit of the wallet', async (t) => {
    const shop = await openShop(t, {}, { roles: ['http'] })
    const { core, features } = shop.farebox
    // Of the workers only this one runs, so that the others do nothing meanwhile.
    const workers = createWorkers(core)
    const callbacks = features.deposits.takeCallbacks({ workers })
    t.after(async () => {
      await callbacks.stop()
      await workers.stop()
    })
    const { key } = await shop.customer({ cents: 0 })
    const pay = async () => {
      const { deposit_id: depositId } = await shop.open(key, { amount_cents: 2500 })
      return async () => {
        const before = await core.log.head()
        assert.equal((await shop.act(depositId, 'pay')).status, 200)
        await until(async () => (await core.log.head()) > before, { what: 'the credit' })
      }
    }
    await (await pay())()
    assertAtMost(79, await filesOnPath(await pay()))
  })
})
