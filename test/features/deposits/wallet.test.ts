import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const named = (name: string) => ({ 'Idempotency-Key': name })

describe('a deposit into the own wallet', () => {
  test('is paid on its page and credited with the paid amount, whether it is too much or too little', async (t) => {
    const app = await testApp(t)
    const { openDeposit, act, untilDeposit, readDeposit, balance, client } = app

    await t.test('card: the whole amount', async () => {
      const { key } = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 2500 })
      assert.deepEqual([made.amount_cents, made.status], [2500, 'awaiting_payment'])
      assert.match(made.deposit_id, /^dep_[0-9a-f]{32}$/)
      const page = await (await fetch(made.pay_url)).text()
      assert.match(page, /SANDBOX/)
      assert.match(page, /Farebox: account credit/)
      assert.equal((await act(made.deposit_id, 'pay', 2500)).status, 200)
      const paid = await untilDeposit(key, made.deposit_id, { status: 'paid' })
      assert.deepEqual(
        [paid.credited_cents, paid.for_order, paid.order_id, paid.customer_id, paid.method],
        [2500, false, null, null, 'card'],
      )
      assert.ok(paid.paid_at)
      assert.equal(await balance(key), 2500)
      const { body } = await client.get('/api/v1/wallet/transactions', { key })
      assert.deepEqual(
        [body.transactions[0].type, body.transactions[0].depositId, body.transactions[0].amountCents],
        ['deposit', made.deposit_id, 2500],
      )
      assert.equal((await act(made.deposit_id, 'pay', 2500)).status, 409, 'a session takes one payment')
    })

    await t.test('crypto: overpaid', async () => {
      const { key } = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 1000, method: 'crypto' })
      await act(made.deposit_id, 'pay', 1750)
      const paid = await untilDeposit(key, made.deposit_id, { status: 'paid' })
      assert.equal(paid.credited_cents, 1750)
      assert.equal(await balance(key), 1750)
    })

    await t.test('crypto: in parts, then overpaid, then twice', async () => {
      const { key } = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 1000, method: 'crypto' })
      await act(made.deposit_id, 'pay', 333)
      const part = await untilDeposit(key, made.deposit_id, { credited_cents: 333 })
      assert.equal(part.status, 'awaiting_payment')
      await act(made.deposit_id, 'pay', 667)
      await untilDeposit(key, made.deposit_id, { status: 'paid', credited_cents: 1000 })
      await act(made.deposit_id, 'pay', 1000)
      await untilDeposit(key, made.deposit_id, { status: 'paid', credited_cents: 2000 })
      assert.equal(await balance(key), 2000)
    })

    await t.test('crypto: an invoice that closes short, and late money', async () => {
      const { key } = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 1000, method: 'crypto' })
      await act(made.deposit_id, 'pay', 400)
      await act(made.deposit_id, 'expire')
      await untilDeposit(key, made.deposit_id, { status: 'partially_paid', credited_cents: 400 })
      await act(made.deposit_id, 'pay', 100)
      await untilDeposit(key, made.deposit_id, { status: 'partially_paid', credited_cents: 500 })
      await act(made.deposit_id, 'pay', 900)
      await untilDeposit(key, made.deposit_id, { status: 'paid', credited_cents: 1400 })
      assert.equal(await balance(key), 1400)
    })

    await t.test('no credit when it expires or fails; late money after that', async () => {
      const { key } = await app.customer({ cents: 0 })
      const card = await openDeposit(key, { amount_cents: 1000 })
      await act(card.deposit_id, 'process')
      await untilDeposit(key, card.deposit_id, { status: 'processing' })
      await act(card.deposit_id, 'fail')
      await untilDeposit(key, card.deposit_id, { status: 'failed', credited_cents: 0 })
      const other = await openDeposit(key, { amount_cents: 1000 })
      await act(other.deposit_id, 'expire')
      await untilDeposit(key, other.deposit_id, { status: 'expired' })
      const crypto = await openDeposit(key, { amount_cents: 1000, method: 'crypto' })
      await act(crypto.deposit_id, 'expire')
      await untilDeposit(key, crypto.deposit_id, { status: 'expired', credited_cents: 0, paid_at: null })
      assert.equal(await balance(key), 0)
      await act(crypto.deposit_id, 'pay', 1000)
      await untilDeposit(key, crypto.deposit_id, { status: 'paid', credited_cents: 1000 })
      assert.equal(await balance(key), 1000)
    })

    await t.test('a delayed payment is seen first and credited when it is final', async () => {
      const { key } = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 1000, method: 'alipay' })
      await act(made.deposit_id, 'process')
      await untilDeposit(key, made.deposit_id, { status: 'processing', credited_cents: 0 })
      await act(made.deposit_id, 'pay', 1000)
      await untilDeposit(key, made.deposit_id, { status: 'paid', credited_cents: 1000 })
    })

    await t.test('a blocked account: paid money is credited, and no new deposit is opened', async () => {
      const { key, accountId } = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 1000 })
      await app.accounts.block(accountId, 'fraud', {
        actor: { kind: 'operator', name: 'test' },
        correlationId: 'test',
      })
      await act(made.deposit_id, 'pay', 1000)
      await untilDeposit(key, made.deposit_id, { status: 'paid' })
      assert.equal(await balance(key), 1000)
    })

    await t.test('a chargeback takes the money, blocks the account and leaves a debt', async () => {
      const { key, accountId } = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 2000 })
      await act(made.deposit_id, 'pay', 2000)
      await untilDeposit(key, made.deposit_id, { status: 'paid', charged_back_cents: 0 })
      const bought = await client.post(
        '/api/v1/orders',
        { product_id: 'residential-premium', quantity: 1 },
        { key },
      )
      assert.equal(bought.status, 201, bought.text)
      await act(made.deposit_id, 'dispute')
      await app.untilBalance(key, 0)
      const state = await app.accounts.read(accountId, {
        actor: { kind: 'operator', name: 'test' },
        correlationId: 'test',
      })
      assert.equal(state?.blocked, true)
      // The remaining balance and the missing amount of the wallet.
      const taken = { status: 'charged_back', credited_cents: 2000, charged_back_cents: 2000 }
      await untilDeposit(key, made.deposit_id, taken)
      // Keys are looked up again within a second.
      await until(async () => {
        const refused = await client.post('/api/v1/deposits', { amount_cents: 1000 }, { key })
        return refused.body.code === 'account_blocked'
      })
    })

    await t.test('a dispute that is won: the deposit reads as before it', async () => {
      const { key, accountId } = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 2000 })
      await act(made.deposit_id, 'pay', 2000)
      await untilDeposit(key, made.deposit_id, { status: 'paid' })
      const chargeback = {
        accountId,
        depositId: made.deposit_id,
        reason: 'chargeback',
        gateway: 'stripe',
      } as const
      await app.wallets.adjust({ ...chargeback, amountCents: -700, reference: 'stripe dp_1' }, operator)
      await untilDeposit(key, made.deposit_id, {
        status: 'charged_back',
        credited_cents: 2000,
        charged_back_cents: 700,
      })
      await app.wallets.adjust({ ...chargeback, amountCents: 700, reference: 'stripe dp_1 won' }, operator)
      await untilDeposit(key, made.deposit_id, {
        status: 'paid',
        credited_cents: 2000,
        charged_back_cents: 0,
      })
      assert.equal(await balance(key), 2000)
    })

    await t.test('small amounts are raised to the minimum of the rail', async () => {
      const { key } = await app.customer({ cents: 0 })
      assert.equal((await openDeposit(key, { amount_cents: 1 })).amount_cents, 1000)
      assert.equal((await openDeposit(key, { amount_cents: 1, method: 'crypto' })).amount_cents, 300)
      assert.equal((await openDeposit(key, { amount_cents: 301, method: 'crypto' })).amount_cents, 301)
      assert.equal((await openDeposit(key, { amount_cents: 500_000 })).amount_cents, 500_000)
    })

    await t.test("the return address is the given one, else the service's page for payers", async () => {
      const { key } = await app.customer({ cents: 0 })
      const given = await openDeposit(key, {
        amount_cents: 1000,
        return_url: 'https://shop.example.com/a?b=1',
      })
      assert.equal((await readDeposit(key, given.deposit_id)).return_url, 'https://shop.example.com/a?b=1')
      assert.match(await (await fetch(given.pay_url)).text(), /https:\/\/shop\.example\.com\/a\?b=1/)
      const plain = await openDeposit(key, { amount_cents: 1000 })
      const { return_url: landing } = await readDeposit(key, plain.deposit_id)
      assert.equal(landing, `${app.baseUrl}/paid`)
      const page = await fetch(landing)
      assert.equal(page.status, 200)
      assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
      assert.match(await page.text(), /your payment is being confirmed/)
    })

    await t.test('an unknown rail is refused with the complete list', async () => {
      const { key } = await app.customer({ cents: 0 })
      const refused = await client.post('/api/v1/deposits', { amount_cents: 1000, method: 'gold' }, { key })
      assert.deepEqual([refused.status, refused.body.code], [400, 'unsupported_method'])
      for (const rail of 'card crypto alipay wechat upi momo qris pix dana fpx oxxo boleto paymaya grabpay_ph'.split(
        ' ',
      ))
        assert.match(refused.body.error, new RegExp(`\\b${rail}\\b`))
    })

    await t.test('a list is newest first, filtered by status, and hidden from others', async () => {
      const { key } = await app.customer({ cents: 0 })
      const other = await app.customer({ cents: 0 })
      const first = await openDeposit(key, { amount_cents: 1000 })
      const second = await openDeposit(key, { amount_cents: 2000 })
      await act(first.deposit_id, 'pay', 1000)
      await untilDeposit(key, first.deposit_id, { status: 'paid' })
      const list = async (query: string, whose = key) =>
        (await client.get(`/api/v1/deposits${query}`, { key: whose })).body
      const all = await list('')
      assert.deepEqual(
        all.deposits.map((one: { deposit_id: string }) => one.deposit_id),
        [second.deposit_id, first.deposit_id],
      )
      assert.deepEqual(
        [all.total, (await list('?status=paid')).total, (await list('?status=failed')).total],
        [2, 1, 0],
      )
      assert.equal((await list('', other.key)).total, 0)
      assert.equal((await client.get(`/api/v1/deposits/${first.deposit_id}`, { key: other.key })).status, 404)
    })
  })

  test('a key names one open invoice, never a closed one and never two', async (t) => {
    const app = await testApp(t)
    const { openDeposit, act, untilDeposit, client } = app
    const invoices = async () => {
      const response = await fetch(`${app.sandbox}/_sandbox/invoices`)
      return ((await response.json()) as { invoices: { deposit_id: string }[] }).invoices
    }

    for (const method of ['card', 'crypto'])
      await t.test(`${method}: retries, simultaneously and one after another`, async () => {
        const { key } = await app.customer({ cents: 0 })
        const body = { amount_cents: 1500, method }
        const made = await Promise.all(Array.from({ length: 8 }, () => openDeposit(key, body, named('same'))))
        const again = await openDeposit(key, body, named('same'))
        const [first] = made
        for (const one of [...made, again]) assert.deepEqual(one, first)
        const ours = (await invoices()).filter(({ deposit_id }) => deposit_id === first.deposit_id)
        assert.equal(ours.length, 1)
      })

    await t.test(
      'a retry returns a position from which reads show the deposit, as the first answer did',
      async () => {
        const { key } = await app.customer({ cents: 0 })
        const send = () =>
          client.post('/api/v1/deposits', { amount_cents: 1500 }, { key, headers: named('lost answer') })
        const [first, again] = [await send(), await send()]
        assert.equal(again.headers.get('idempotency-replayed'), 'true')
        assert.match(first.headers.get('x-farebox-position') ?? '', /^pos_0_\d+$/)
        assert.equal(again.headers.get('x-farebox-position'), first.headers.get('x-farebox-position'))
      },
    )

    await t.test('another request under the key is a conflict; another account may use the key', async () => {
      const { key } = await app.customer({ cents: 0 })
      const other = await app.customer({ cents: 0 })
      const made = await openDeposit(key, { amount_cents: 1500 }, named('mine'))
      for (const body of [
        { amount_cents: 1501 },
        { amount_cents: 1500, method: 'crypto' },
        { amount_cents: 1500, return_url: 'https://a.example' },
      ]) {
        const refused = await client.post('/api/v1/deposits', body, { key, headers: named('mine') })
        assert.deepEqual([refused.status, refused.body.code], [409, 'idempotency_conflict'])
      }
      const theirs = await openDeposit(other.key, { amount_cents: 1500 }, named('mine'))
      assert.notEqual(theirs.deposit_id, made.deposit_id)
    })

    await t.test('after it expired, failed or was paid, the key gives a new invoice', async () => {
      const { key } = await app.customer({ cents: 0 })
      const seen = new Set<string>()
      for (const [deed, status] of [
        ['expire', 'expired'],
        ['fail', 'failed'],
        ['pay', 'paid'],
        ['expire', 'expired'],
      ] as const) {
        const made = await openDeposit(key, { amount_cents: 1500 }, named('again'))
        assert.equal(made.status, 'awaiting_payment')
        assert.ok(!seen.has(made.deposit_id))
        seen.add(made.deposit_id)
        await act(made.deposit_id, deed)
        await untilDeposit(key, made.deposit_id, { status })
      }
      assert.equal(await app.balance(key), 1500)
    })

    await t.test(
      'a gateway that is down is 502, and the same key continues with the same deposit',
      async () => {
        for (const method of ['card', 'crypto']) {
          const { key } = await app.customer({ cents: 0 })
          await app.switches({ down: true })
          const body = { amount_cents: 1500, method }
          const refused = await client.post('/api/v1/deposits', body, { key, headers: named('down') })
          assert.deepEqual([refused.status, refused.body.code], [502, 'gateway_unavailable'])
          const list = await client.get('/api/v1/deposits', { key })
          assert.deepEqual([list.body.total, list.body.deposits[0].pay_url], [1, null])
          await app.switches({ down: false })
          const made = await openDeposit(key, body, named('down'))
          assert.equal(made.deposit_id, list.body.deposits[0].deposit_id)
          await act(made.deposit_id, 'pay', 1500)
          await untilDeposit(key, made.deposit_id, { status: 'paid' })
        }
      },
    )
  })
})
