import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openShop } from './support.ts'

describe("a deposit into one's own wallet", () => {
  test('is paid on the pay page and credits the wallet', async (t) => {
    const shop = await openShop(t)
    const { key } = await shop.customer({ cents: 0 })
    const made = await shop.open(key, { amount_cents: 2500 })
    assert.equal(made.amount_cents, 2500)
    assert.equal(made.status, 'awaiting_payment')
    assert.match(made.deposit_id, /^dep_[0-9a-f]{32}$/)
    const page = await (await fetch(made.pay_url)).text()
    assert.match(page, /SANDBOX/)
    assert.match(page, /Farebox/)
    assert.equal((await shop.act(made.deposit_id, 'pay', 2500)).status, 200)
    const paid = await shop.reads(key, made.deposit_id, { status: 'paid' })
    assert.equal(paid.credited_cents, 2500)
    assert.equal(paid.for_order, false)
    assert.equal(paid.customer_id, null)
    assert.equal(await shop.balance(key), 2500)
    const { body } = await shop.client.get('/api/v1/wallet/transactions', { key })
    assert.deepEqual(
      [body.transactions[0].type, body.transactions[0].depositId, body.transactions[0].amountCents],
      ['deposit', made.deposit_id, 2500],
    )
  })
})
