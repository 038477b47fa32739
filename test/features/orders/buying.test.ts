import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Browser, hiddenField, type Page, signedIn } from '../../support/console.ts'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** The form fields that buy the quoted item of a page. */
/** The default submission of a product's form. */
const orderFormOf = ({ html }: Page): Record<string, string> => {
  const [form = ''] = /<form [^>]*data-quotes[\s\S]*?<\/form>/.exec(html) ?? []
  const fields: Record<string, string> = {}
  for (const [tag] of form.matchAll(/<input [^>]*>/g)) {
    const [, name = ''] = / name="([^"]*)"/.exec(tag) ?? []
    const [, value = ''] = / value="([^"]*)"/.exec(tag) ?? []
    if (!/type="(radio|checkbox)"/.test(tag) || tag.includes(' checked')) fields[name] = value
  }
  for (const [, name = '', options = ''] of form.matchAll(
    /<select [^>]*name="([^"]*)"[^>]*>([\s\S]*?)<\/select>/g,
  ))
    fields[name] = (/value="([^"]*)" selected/.exec(options) ?? /value="([^"]*)"/.exec(options))?.[1] ?? ''
  return fields
}

const priceOn = ({ html }: Page): string | undefined => /<p class="figure">\$([\d,.]+)<\/p>/.exec(html)?.[1]
const orderIdIn = ({ to }: Page): string =>
  /^\/console\/orders\/(ord_[0-9a-f]{32})$/.exec(to ?? '')?.[1] ?? ''
const figure = (cents: number): string => (cents / 100).toFixed(2)

test('a customer buys in the console', async (t) => {
  const app = await testApp(t)
  const account = await app.customer({ email: 'bea@example.com', cents: 30_000 })
  const browser = await signedIn(app, account.accountId)
  const api = (path: string) => app.buyer.get(`/api/v1${path}`, { key: account.key })
  const balance = async () => (await api('/wallet')).body.balanceCents as number
  const isp = '/console/catalogue/isp-static'

  /** Adds money on the page of the provider, and shows the deposit once the wallet has it. */
  const toppedUp = async (visitor: Browser, cents: number): Promise<Page> => {
    const form = hiddenField(await visitor.get('/console/top-up'), 'form')
    const sent = { form, amount: figure(cents), method: 'card' }
    const made = await visitor.post('/console/top-up', sent)
    assert.match(made.to ?? '', /^\/console\/deposits\/dep_[0-9a-f]{32}$/)
    assert.equal((await visitor.post('/console/top-up', sent)).to, made.to)
    const page = await visitor.get(made.to!)
    const payUrl = /<a class="button first" href="([^"]+)"/.exec(page.html)?.[1] ?? ''
    assert.equal((await fetch(payUrl.replaceAll('&amp;', '&'))).status, 200)
    const id = made.to!.split('/').at(-1)
    const answer = await fetch(`${app.demo.sandbox}/_sandbox/invoices/${id}/pay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    const { return_url: back = null } = (await api(`/deposits/${id}`)).body
    assert.ok(answer.ok, await answer.text())
    assert.equal(back, null, 'a deposit of another account is not shown')
    let shown = page
    await until(
      async () => {
        shown = await visitor.get(made.to!)
        return /Credited to the wallet/.test(shown.html)
      },
      { what: 'the credit' },
    )
    return shown
  }

  await t.test('the catalogue lists what the API lists, and every product has its quote', async () => {
    const { products } = (await api('/products')).body
    const { html } = await browser.get('/console/catalogue')
    for (const { id, minQuantity } of products) {
      assert.ok(html.includes(`/console/catalogue/${id}"`), id)
      const page = await browser.get(`/console/catalogue/${id}`)
      assert.equal(page.status, 200, id)
      const search = new URLSearchParams({ ...orderFormOf(page), quantity: String(minQuantity) })
      const quoted = await api(`/products/${id}/price?${search}`)
      if (quoted.body.available) assert.equal(priceOn(page), figure(quoted.body.amountCents), id)
    }
  })

  await t.test('the requested item is quoted as by the API, and the input stays', async () => {
    const query = 'quantity=3&country=DEU&period_days=7'
    const page = await browser.get(`${isp}?${query}`)
    const quoted = await api(`/products/isp-static/price?${query}`)
    assert.equal(quoted.status, 200)
    assert.equal(priceOn(page), figure(quoted.body.amountCents))
    assert.match(page.html, /<option value="DEU" selected>/)
    for (const quantity of ['0', '1.5', '-1', '"><b>', '99999999']) {
      const refused = await browser.get(`${isp}?${new URLSearchParams({ quantity })}`)
      assert.equal(refused.status, 400, quantity)
      assert.match(refused.html, /id="quantity-problem">Quantity must be a whole number/)
      assert.ok(refused.html.includes(`value="${quantity.replace('"><b>', '&quot;&gt;&lt;b&gt;')}"`))
      assert.doesNotMatch(refused.html, /Buy for/)
    }
    assert.equal((await browser.get('/console/catalogue/none')).status, 404)
  })

  await t.test(
    'an order is paid by the session, leads to its page, and is the same when sent again',
    async () => {
      const before = await balance()
      const page = await browser.get(`${isp}?quantity=2`)
      const form = orderFormOf(page)
      const answers = await Promise.all([1, 2, 3].map(() => browser.post(isp, form)))
      const [orderId = '', ...others] = new Set(answers.map(orderIdIn))
      assert.match(orderId, /^ord_/)
      assert.deepEqual(others, [])
      assert.equal(orderIdIn(await browser.post(isp, form)), orderId)
      const order = (await api(`/orders/${orderId}`)).body
      assert.deepEqual([order.status, order.quantity], ['completed', 2])
      assert.equal(before - (await balance()), order.amountCents)
      assert.match((await browser.get(`/console/orders/${orderId}`)).html, /in the console/)
      for await (const { type, data, metadata } of app.core.log.readStream(
        `ledger-${account.accountId}` as never,
      ))
        if (type === 'WalletDebited') {
          assert.equal(JSON.parse(data).order.keyId, null)
          const { actor } = JSON.parse(metadata)
          assert.deepEqual([actor.kind, actor.subjectId], ['session', account.accountId])
        }
      // Another quantity under the key of the form is another request.
      assert.equal((await browser.post(isp, { ...form, quantity: '1' })).status, 409)
      // And an order of the API under it is one as well.
      const input = {
        product_id: 'isp-static',
        quantity: 2,
        fulfillment_meta: { country: 'USA', period_days: 30 },
      }
      const taken = await app.buyer.post('/api/v1/orders', input, {
        key: account.key,
        headers: { 'Idempotency-Key': form.form! },
      })
      assert.equal(taken.body.code, 'idempotency_conflict')
    },
  )

  await t.test('a changed price is refused with the new one, and nothing is ordered', async () => {
    const before = await balance()
    const form = orderFormOf(await browser.get(`${isp}?quantity=2`))
    const refused = await browser.post(isp, { ...form, expected: '1' })
    assert.equal(refused.status, 409)
    assert.match(refused.html, /The price of 2 IPs? is \$[\d.]+, not \$0\.01 as quoted/)
    assert.notEqual(hiddenField(refused, 'form'), form.form)
    assert.equal(hiddenField(refused, 'expected'), form.expected)
    assert.equal((await browser.post(isp, { ...form, expected: '' })).status, 400)
    assert.equal((await browser.post(isp, { ...form, form: '' })).to, isp)
    assert.equal(await balance(), before)
    assert.match(orderIdIn(await browser.post(isp, orderFormOf(refused))), /^ord_/)
  })

  await t.test('invalid form input orders nothing', async () => {
    const before = await balance()
    for (const change of [
      { country: 'XXX' },
      { country: '' },
      { period_days: '31' },
      { quantity: 'many' },
      { quantity: '100000' },
      { carrier_id: 'x' },
    ]) {
      const form = orderFormOf(await browser.get(isp))
      const { status, html } = await browser.post(isp, { ...form, ...change })
      assert.ok(status === 400 || status === 409, `${JSON.stringify(change)}: ${status}`)
      assert.match(html, /Nothing was ordered\./)
    }
    assert.equal(await balance(), before)
  })

  await t.test('the missing amount of a wallet is shown, with a link to add it', async () => {
    const poor = await app.customer({ email: 'poor@example.com', cents: 100 })
    const visitor = await signedIn(app, poor.accountId)
    const premium = '/console/catalogue/residential-premium'
    const page = await visitor.get(`${premium}?quantity=5`)
    const missing = Number(hiddenField(page, 'expected')) - 100
    const refused = await visitor.post(premium, orderFormOf(page))
    assert.equal(refused.status, 409)
    assert.ok(refused.html.includes(`The wallet has $1.00: $${figure(missing)} are missing`), refused.html)
    assert.ok(refused.html.includes(`<a href="/console/top-up?cents=${missing}">`))
    assert.ok(
      (await visitor.get(`/console/top-up?cents=${missing}`)).html.includes(`value="${figure(missing)}"`),
    )
    const paid = await toppedUp(visitor, missing)
    assert.match(paid.html, /Credited to the wallet/)
    assert.match(orderIdIn(await visitor.post(premium, orderFormOf(page))), /^ord_/)
  })

  await t.test('invalid top-up input is reported at its field', async () => {
    for (const [amount, method, field] of [
      ['1.234', 'card', 'amount'],
      ['', 'card', 'amount'],
      ['5000.01', 'card', 'amount'],
      ['10', 'pix', 'method'],
    ] as const) {
      const form = hiddenField(await browser.get('/console/top-up'), 'form')
      const { status, html } = await browser.post('/console/top-up', { form, amount, method })
      assert.equal(status, 400, amount)
      assert.match(html, new RegExp(`id="${field}-problem"`))
      assert.ok(html.includes(`value="${amount}"`), amount)
    }
    for (const cents of ['500001', '1', '0', 'x']) {
      const form = hiddenField(await browser.get('/console/top-up'), 'form')
      const sent = { form, amount: '', method: 'card', cents }
      assert.equal((await browser.post('/console/top-up', sent)).status, 400, `a button for ${cents} cents`)
    }
    assert.equal((await browser.get(`/console/deposits/dep_${'0'.repeat(32)}`)).status, 404)
  })

  await t.test("a reseller pays its cost, and sees the customer's price", async () => {
    const shop = await app.customer({ email: 'shop@example.com', cents: 30_000, reseller: true })
    const set = ['--account', shop.accountId, '--discount', '20', '--markup', '1.5']
    assert.equal((await operate(['reseller', 'set', ...set], app.env)).code, 0)
    const visitor = await signedIn(app, shop.accountId)
    // A process learns of new terms a moment after the command that set them.
    const quoted = await until(async () => {
      const path = '/api/v1/products/residential-premium/price?quantity=10'
      const { body } = await app.buyer.get(path, { key: shop.key })
      return body.yourCostCents < body.amountCents && body
    })
    const page = await visitor.get('/console/catalogue/residential-premium?quantity=10')
    assert.equal(priceOn(page), figure(quoted.yourCostCents))
    assert.match(
      orderIdIn(await visitor.post('/console/catalogue/residential-premium', orderFormOf(page))),
      /^ord_/,
    )
  })

  await t.test('the books pass verification', async () => {
    await app.verified()
  })
})
