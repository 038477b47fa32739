import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signedIn, staffBrowser } from '../../support/console.ts'
import { commandLineOf } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { lettersOf, untilRetried } from './topup-actions.ts'

const list = '/console/operator/reversals'

test('a dispute is shown to the customer, to finance and to operators', async (t) => {
  const contact = 'help@shop.example'
  const app = await testApp(t, {
    own: true,
    settings: { FAREBOX_CONTACT: contact },
  })
  const finance = await staffBrowser(app, ['finance'])
  const operator = await staffBrowser(app, ['operator'])
  const homeOf = async (staff: typeof finance) => (await staff.open('/console/staff')).html
  const customer = await app.customer({ email: 'dora@example.com', cents: 0 })
  const { key, accountId, email } = customer
  const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 5_000 })
  await app.act(id, 'pay', 5_000)
  await app.untilBalance(key, 5_000)
  for (const staff of [finance, operator])
    assert.doesNotMatch(await homeOf(staff), /after a dispute|dispute in/)
  await app.act(id, 'dispute')
  await app.untilDeposit(key, id, { status: 'charged_back', charged_back_cents: 5_000 })

  await t.test('both homes have a task, which leads to a list with the account', async () => {
    for (const staff of [finance, operator]) {
      const home = await homeOf(staff)
      assert.match(home, /1 account blocked after a dispute/)
      assert.match(home, /1 dispute in the last 7 days/)
      for (const [, href = ''] of home.matchAll(/href="(\/console\/operator\/reversals[^"]*)"/g)) {
        const { html } = await staff.open(href.replaceAll('&amp;', '&'))
        assert.match(html, /dora@example\.com<\/a> <small>blocked/)
        assert.match(html, /charged back<\/span>/)
      }
    }
    const { html: csv } = await finance.get(`${list}?kind=chargeback&format=csv`)
    assert.match(csv, /^\W?Kind,State,"Amount, USD","Taken, USD",Account/)
    assert.match(csv, new RegExp(`Dispute,charged back,50\\.00,50\\.00,${email}.*${id}`))
    assert.doesNotMatch((await finance.open(`${list}?kind=deposit_refund`)).html, /dora@example/)
    const listed = await commandLineOf(app.farebox, { kind: 'operator', name: 'alice' })(
      'deposits',
      'reversals',
    )
    assert.deepEqual(
      listed.json.reversals.map((row: Record<string, unknown>) => [
        row.accountId,
        row.state,
        row.takenMicros,
        row.blocked,
      ]),
      [[accountId, 'charged back', 50_000_000, true]],
    )
  })

  await t.test('a finance token reads it', async () => {
    const token = await app.run('finance', 'token', 'create', '--name', 'close', '--expires-in-days', '1')
    const headers = { authorization: `Bearer ${token.token}` }
    const read = async (query: string) =>
      (await (await fetch(`${app.baseUrl}/finance/v1/reversals${query}`, { headers })).json()) as {
        reversals: { reversalId: string; status: string; takenCents: number; depositId: string }[]
        total: number
      }
    const { reversals, total } = await read('?reason=chargeback')
    assert.equal(total, 1)
    assert.deepEqual(
      reversals.map(({ status, takenCents, depositId }) => [status, takenCents, depositId]),
      [['taken', 5_000, id]],
    )
    assert.equal((await read('?reason=deposit_refund')).total, 0)
  })

  await t.test('the customer gets the reason and the contact, on pages and by e-mail', async () => {
    const browser = await signedIn(app, accountId)
    const home = await browser.open('/console')
    assert.match(
      home.html,
      /The account is blocked because a payment was disputed.*href="mailto:help@shop\.example"/s,
    )
    const page = (await browser.open(`/console/deposits/${id}`)).html
    assert.match(page, /charged back<\/span>/)
    assert.match(page, /the bank took back \$50\.00.*help@shop\.example/s)
    assert.match((await browser.open('/console/deposits?status=charged_back')).html, new RegExp(id))
    assert.doesNotMatch((await browser.open('/console/deposits?status=paid')).html, new RegExp(id))
    const [letter] = await untilRetried(
      app,
      async () => {
        const letters = await lettersOf(app, customer, 'A payment was disputed')
        return letters.length > 0 ? letters : null
      },
      { what: 'the e-mail' },
    )
    assert.match(letter!.text, /took back \$50\.00/)
    assert.match(letter!.text, /The account is blocked/)
    assert.match(letter!.text, /Contact us: help@shop\.example/)
    assert.match(letter!.text, new RegExp(`/console/deposits/${id}`))
  })

  await t.test('a reason that an operator typed is not shown to the customer', async () => {
    const other = await app.customer({ email: 'otto@example.com', cents: 100 })
    await app.run('accounts', 'block', other.accountId, '--reason', 'a friend of dora')
    const { html } = await (await signedIn(app, other.accountId)).open('/console')
    assert.match(html, /The account is blocked: it can read.*help@shop\.example/s)
    assert.doesNotMatch(html, /friend of dora/)
  })

  await t.test('finance reads deposits, orders and accounts, and changes none', async () => {
    const bought = await app.customer({ email: 'paul@example.com', cents: 10_000 })
    const order = await app.client.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 1 },
      { key: bought.key },
    )
    assert.equal(order.status, 201)
    for (const [path, text] of [
      ['/console/operator/accounts', /paul@example\.com/],
      [`/console/operator/accounts/${accountId}`, /disputed|chargeback/],
      ['/console/operator/orders', /paul@example\.com/],
      [`/console/operator/orders/${order.body.orderId}`, /History/],
      ['/console/operator/deposits?status=charged_back', /dora@example\.com/],
      [`/console/operator/deposits/${id}`, /charged back<\/span>/],
      [`/console/search?q=${bought.accountId}`, /paul@example\.com/],
    ] as const) {
      const { html } = await finance.open(path)
      assert.match(html, text, path)
      assert.doesNotMatch(html, /\/(block|unblock|credit|refund)"|console\/view/, path)
    }
    for (const path of ['block', 'unblock', 'credit'])
      assert.equal((await finance.get(`/console/operator/accounts/${accountId}/${path}`)).status, 403)
    assert.equal((await finance.get(`/console/operator/deposits/${id}/refund`)).status, 403)
  })

  await t.test('a won dispute ends the state of the deposit; the account waits to be unblocked', async () => {
    await app.act(id, 'close-dispute', 5_000)
    await app.untilDeposit(key, id, { status: 'paid', charged_back_cents: 0 })
    assert.match((await finance.open(`${list}?status=returned`)).html, /won<\/span>/)
    const home = await homeOf(finance)
    assert.match(home, /1 account blocked after a dispute/)
    assert.doesNotMatch(home, /dispute in the last/)
    await app.run('accounts', 'unblock', accountId)
    await until(async () => !(await homeOf(finance)).includes('blocked after a dispute'))
  })
})
