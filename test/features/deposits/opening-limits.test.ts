import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOpeningLimits } from '../../../src/features/deposits/deposit-service.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { ApiError } from '../../../src/platform/http/errors.ts'
import { testApp } from '../../support/test-app.ts'

const limited = { FAREBOX_RATE_LIMIT: 'on', FAREBOX_RATE_KEY: '1000/1000', FAREBOX_RATE_ADDRESS: '1000/1000' }
const named = (n: number) => ({ 'Idempotency-Key': `deposit ${n}` })

test('an account that opened a hundred deposits waits a minute for each', async (t) => {
  const app = await testApp(t, { own: true, settings: limited })
  const [greedy, other] = [await app.customer({ cents: 0 }), await app.customer({ cents: 0 })]
  const deposit = { amount_cents: 1500, method: 'crypto' }
  const ids: string[] = []
  for (let n = 0; n < 100; n += 20) {
    const made = Array.from({ length: 20 }, (_, i) => app.openDeposit(greedy.key, deposit, named(n + i)))
    ids.push(...(await Promise.all(made)).map(({ deposit_id }) => deposit_id))
  }
  const { log } = app.core

  await t.test('waiting requests are not logged', async () => {
    const head = await log.head()
    const refused = await app.client.post('/api/v1/deposits', deposit, {
      key: greedy.key,
      headers: named(100),
    })
    assert.equal(refused.status, 429, refused.text)
    assert.equal(refused.body.code, 'rate_limited')
    const waitS = Number(refused.headers.get('retry-after'))
    assert.ok(waitS >= 1 && waitS <= 60, String(waitS))
    assert.equal(await log.head(), head)

    const again = await app.openDeposit(greedy.key, deposit, named(7))
    assert.equal(again.deposit_id, ids[7], 'a retry is no new deposit')
    await app.openDeposit(other.key, deposit, named(0))
  })

  await t.test(
    'an order on a payment page counts as a deposit of its account, and is refused before anything is stored',
    async () => {
      const { key } = greedy
      const head = await log.head()
      const order = { product_id: 'isp-static', quantity: 4, method: 'crypto' }
      const meta = { fulfillment_meta: { country: 'USA', period_days: 30 } }
      const { status, text } = await app.client.post('/api/v1/orders', { ...order, ...meta }, { key })
      assert.equal(status, 429, text)
      assert.equal(await log.head(), head)
      assert.equal((await app.client.get('/api/v1/orders', { key })).body.orders.length, 0)
    },
  )
})

test("deposits of a reseller's customers are counted separately: five hundred, then ten a second", () => {
  let nowMs = 0
  const limits = createOpeningLimits(() => nowMs)
  const [reseller, other] = ['acc_1', 'acc_2'] as AccountId[]
  const refused = (own: boolean, account = reseller!): boolean => {
    try {
      limits.take(account, own)
      return false
    } catch (error) {
      assert.ok(error instanceof ApiError && error.code === 'rate_limited')
      return true
    }
  }
  const opened = (own: boolean): number => {
    for (let count = 0; ; count += 1) if (refused(own)) return count
  }
  assert.equal(opened(false), 500)
  assert.equal(opened(true), 100)
  assert.equal(refused(false, other), false)
  nowMs += 60_000
  assert.equal(opened(true), 1)
  assert.equal(opened(false), 500)
  nowMs += 1_000
  assert.equal(opened(false), 10)
})
