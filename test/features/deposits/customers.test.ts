import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { asCustomer } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

describe("a deposit for a reseller's customer", () => {
  test("runs on the reseller's own gateway, under its name, and credits that customer", async (t) => {
    const app = await testApp(t)
    const acme = await app.resellerWithGateways('Acme Proxies', 'nowpayments')
    const other = await app.resellerWithGateways('Other Shop', 'btcpay')
    const { client, act, openDeposit, untilDeposit } = app

    for (const [method, cents] of [
      ['card', 1500],
      ['crypto', 900],
    ] as const)
      await t.test(method, async () => {
        const before = await app.customerCredit(acme.accountId, 'c-1')
        const made = await openDeposit(acme.key, { amount_cents: cents, method }, asCustomer('c-1'))
        const page = await (await fetch(made.pay_url)).text()
        assert.match(page, /SANDBOX/)
        assert.match(page, /Acme Proxies: account credit/)
        await act(made.deposit_id, 'pay', cents)
        const paid = await untilDeposit(acme.key, made.deposit_id, { status: 'paid', credited_cents: cents })
        assert.deepEqual([paid.customer, paid.method], ['c-1', method])
        assert.equal(await app.customerCredit(acme.accountId, 'c-1'), before + cents)
        assert.equal(await app.customerCredit(other.accountId, 'c-1'), 0)
        assert.equal(await app.balance(acme.key), 0, "the money is the reseller's own, not in its wallet")
      })

    await t.test('NOWPayments: short, then more, then once again', async () => {
      const made = await openDeposit(acme.key, { amount_cents: 1000, method: 'crypto' }, asCustomer('c-2'))
      await act(made.deposit_id, 'pay', 123)
      await untilDeposit(acme.key, made.deposit_id, { status: 'partially_paid', credited_cents: 123 })
      await act(made.deposit_id, 'pay', 877)
      await untilDeposit(acme.key, made.deposit_id, { status: 'paid', credited_cents: 1000 })
      await act(made.deposit_id, 'pay', 50)
      await untilDeposit(acme.key, made.deposit_id, { status: 'paid', credited_cents: 1050 })
      assert.equal(await app.customerCredit(acme.accountId, 'c-2'), 1050)
    })

    await t.test('the default is card; other rails are refused with the two available ones', async () => {
      const made = await openDeposit(acme.key, { amount_cents: 100 }, asCustomer('c-3'))
      assert.equal(made.amount_cents, 1000)
      assert.equal((await app.readDeposit(acme.key, made.deposit_id)).method, 'card')
      const refused = await client.post(
        '/api/v1/deposits',
        { amount_cents: 1000, method: 'alipay' },
        { key: acme.key, headers: asCustomer('c-3') },
      )
      assert.deepEqual([refused.status, refused.body.code], [400, 'unsupported_method'])
      assert.match(refused.body.error, /card, crypto/)
    })

    await t.test(
      'the payer returns to the given address, else the website, else the storefront',
      async () => {
        const returns = async (body: object, name: string) => {
          const made = await openDeposit(acme.key, { amount_cents: 1000, ...body }, asCustomer(name))
          return (await app.readDeposit(acme.key, made.deposit_id)).return_url
        }
        assert.equal(await returns({}, 'r-1'), `${app.baseUrl}/paid`)
        const set = ['reseller', 'set', '--account', acme.accountId]
        await app.run(...set, '--storefront', 'https://t.me/acme')
        await until(async () => (await returns({}, `r-${Math.random()}`)) === 'https://t.me/acme')
        await app.run(...set, '--website', 'https://acme.example')
        await until(async () => (await returns({}, `r-${Math.random()}`))?.startsWith('https://acme.example'))
        assert.equal(await returns({ return_url: 'https://b.example/x' }, 'r-2'), 'https://b.example/x')
      },
    )

    await t.test(
      'customer names belong to their reseller: the same name and key of two resellers share nothing',
      async () => {
        const [mine, theirs] = await Promise.all(
          [acme, other].map(({ key }) =>
            openDeposit(key, { amount_cents: 1000 }, asCustomer('same', 'same')),
          ),
        )
        assert.notEqual(mine.deposit_id, theirs.deposit_id)
        for (const [key, id] of [
          [acme.key, theirs.deposit_id],
          [other.key, mine.deposit_id],
        ])
          assert.equal((await client.get(`/api/v1/deposits/${id}`, { key })).status, 404)
        await act(mine.deposit_id, 'pay', 1000)
        await untilDeposit(acme.key, mine.deposit_id, { status: 'paid' })
        assert.deepEqual(
          [
            await app.customerCredit(acme.accountId, 'same'),
            await app.customerCredit(other.accountId, 'same'),
          ],
          [1000, 0],
        )
      },
    )

    await t.test("a chargeback is the customer's debt, and blocks no account", async () => {
      const made = await openDeposit(acme.key, { amount_cents: 1000 }, asCustomer('c-4'))
      await act(made.deposit_id, 'pay', 1000)
      await untilDeposit(acme.key, made.deposit_id, { status: 'paid' })
      await act(made.deposit_id, 'dispute')
      await until(async () => (await app.customerCredit(acme.accountId, 'c-4')) === 0)
      await untilDeposit(acme.key, made.deposit_id, { status: 'charged_back', charged_back_cents: 1000 })
      const state = await app.accounts.read(acme.accountId, operator)
      assert.equal(state?.blocked, false)
    })

    await t.test(
      'a rail whose gateway is removed is refused with the live ones, and open invoices are still polled',
      async () => {
        const made = await openDeposit(
          other.key,
          { amount_cents: 1000, method: 'crypto' },
          asCustomer('c-5', 'c-5'),
        )
        const remove = (rail: string) =>
          app.run('reseller', 'gateway', '--account', other.accountId, '--rail', rail, '--remove')
        const refuses = (live: string) =>
          until(async () => {
            const { status, body } = await client.post(
              '/api/v1/deposits',
              { amount_cents: 1000, method: 'crypto' },
              { key: other.key, headers: asCustomer('c-6') },
            )
            return (
              status === 403 &&
              body.code === 'deposits_not_available' &&
              body.error === `no live payment gateway serves "crypto" here; ${live}`
            )
          })
        await remove('crypto')
        await refuses('method must be one of card')
        await remove('card')
        await refuses('no method has one')
        const again = { key: other.key, headers: asCustomer('c-7') }
        const refused = await client.post('/api/v1/deposits', { amount_cents: 1000 }, again)
        assert.equal(refused.body.code, 'deposits_not_available')
        const { body } = await client.get('/api/v1/reseller/customers?customer_id=c-7', { key: other.key })
        assert.equal(body.total, 0, 'a deposit that was refused leaves no customer behind')
        const retried = await openDeposit(
          other.key,
          { amount_cents: 1000, method: 'crypto' },
          asCustomer('c-5', 'c-5'),
        )
        assert.equal(retried.deposit_id, made.deposit_id)
        await act(made.deposit_id, 'pay', 1000)
        await untilDeposit(other.key, made.deposit_id, { status: 'paid' })
        assert.equal(await app.customerCredit(other.accountId, 'c-5'), 1000)
      },
    )

    await t.test('an ordinary key cannot name a customer', async () => {
      const buyer = await app.customer({ cents: 0 })
      const refused = await client.post(
        '/api/v1/deposits',
        { amount_cents: 1000 },
        { key: buyer.key, headers: asCustomer('c-1') },
      )
      assert.deepEqual([refused.status, refused.body.code], [403, 'reseller_forbidden'])
    })
  })
})
