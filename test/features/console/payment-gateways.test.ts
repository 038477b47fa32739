import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createGateways } from '../../../src/features/payments/gateways.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { hiddenField, signedIn, staffBrowser } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const root = '/console/reseller/gateways'

test('a reseller sets up its gateways', async (t) => {
  const app = await testApp(t)
  const shop = await app.newReseller(100_000)
  const rival = await app.newReseller(100_000)
  const browser = await signedIn(app, shop.accountId)
  const { pool } = app.core
  const sent = async (path: string, form: Readonly<Record<string, string>>) => {
    const page = await browser.open(path)
    assert.equal(page.status, 200, page.html)
    return browser.post(path, { form: hiddenField(page, 'form'), ...form })
  }
  const events = async () =>
    (
      await pool.query<{ type: string; data: Readonly<Record<string, unknown>>; actor: object }>(
        `select type, data::jsonb, metadata::jsonb->'actor' as actor from log.events where stream = $1 order by revision`,
        [`terms-${shop.accountId}`],
      )
    ).rows

  await t.test('invalid values are reported at their fields, and no secret is returned', async () => {
    const path = `${root}/card/set/stripe`
    const secrets = { secretKey: 'sk_wrong_s3cret', webhookSecret: 'whsec_s3cret' }
    const refused = await sent(path, { with: 'real', ...secrets })
    assert.equal(refused.status, 400)
    assert.match(refused.html, /id="secretKey-problem"/)
    assert.doesNotMatch(refused.html, /id="webhookSecret-problem"|s3cret/)
    const { html, status } = await sent(`${root}/crypto/set/btcpay`, {
      url: 'http://10.0.0.1',
      storeId: 'a b',
    })
    assert.equal(status, 400)
    for (const field of ['url', 'storeId', 'apiKey', 'webhookSecret'])
      assert.match(html, new RegExp(`id="${field}-problem"`))
    assert.match(html, /value="http:\/\/10\.0\.0\.1"/, 'what is no secret stays')
    for (const path of [`${root}/card/set/btcpay`, `${root}/paper`, `${root}/paper/remove`])
      assert.equal((await browser.get(path)).status, 404, path)
    assert.deepEqual(await events(), [])
  })

  await t.test('a gateway is set up once, named, never shown, and can be removed', async () => {
    const path = `${root}/card/set/stripe`
    const form = {
      form: hiddenField(await browser.open(path), 'form'),
      with: 'real',
      secretKey: 'sk_test_s3cret',
      webhookSecret: 'whsec_s3cret',
    }
    assert.equal((await browser.post(path, form)).to, `${root}/card`)
    await browser.post(path, form)
    const [set, ...more] = await events()
    assert.equal(set?.type, 'GatewaySet')
    assert.deepEqual(more, [], 'a form that is sent twice acts once')
    assert.equal((set?.actor as { subjectId?: string } | undefined)?.subjectId, shop.accountId)
    const { html } = await browser.open(`${root}/card`)
    assert.match(html, new RegExp(`/callbacks/${set?.data.reference}`))
    assert.match(html, /enabled/)
    assert.doesNotMatch(html + JSON.stringify(set), /s3cret/)
    assert.doesNotMatch((await browser.open(path)).html, /s3cret/)
    const { rows } = await pool.query('select * from vault.reseller_credentials where reseller_id = $1', [
      shop.accountId,
    ])
    assert.equal(rows.length, 1)
    assert.equal((await browser.post(`${root}/card/remove`)).to, `${root}/card`)
    assert.match((await browser.open(`${root}/card`)).html, /No gateway is set up/)
    assert.equal((await events()).at(-1)?.type, 'GatewayRemoved')
  })

  await t.test('its payment pages carry its name, and a test payment takes the normal way', async () => {
    const wrong = await sent('/console/reseller/shop', { name: 'Acme', website: 'http://acme.example' })
    assert.equal(wrong.status, 400)
    assert.match(wrong.html, /id="website-problem"/)
    assert.match(wrong.html, /value="Acme"/)
    const named = { name: 'Acme <Proxies>', website: 'https://acme.example', storefront: '' }
    assert.equal((await sent('/console/reseller/shop', named)).to, root)
    assert.equal((await sent(`${root}/card/set/stripe`, { with: 'sandbox' })).to, `${root}/card`)
    const form = { form: hiddenField(await browser.open(`${root}/card`), 'form') }
    const { to } = await browser.post(`${root}/card`, form)
    assert.match(to ?? '', /^\/console\/deposits\/dep_[0-9a-f]{32}$/)
    assert.equal((await browser.post(`${root}/card`, form)).to, to, 'sent twice, it is one invoice')
    const { html } = await browser.open(to!)
    assert.match(html, />gateway-test<\/a>/)
    const [, payUrl = ''] = /href="([^"]+)" rel="noreferrer">Open pay page/.exec(html) ?? []
    const payPage = await (await fetch(payUrl)).text()
    assert.match(payPage, /Acme &lt;Proxies&gt;/)
    const sandbox = new URL(payUrl).origin
    const paid = await fetch(`${sandbox}/_sandbox/invoices/${to?.split('/').at(-1)}/pay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    assert.equal(paid.status, 200)
    await until(async () => (await browser.open(to!)).html.includes('class="state good">paid<'), {
      what: 'the payment',
    })
    const { customers } = (await shop.client.get('/api/v1/reseller/customers?customer=gateway-test')).body
    assert.equal(customers[0].creditCents, 1_000)
    assert.match((await browser.open(`${root}/card`)).html, /class="state good">paid</)
  })

  await t.test('a provider that creates no invoice is reported next to the button', async () => {
    const btcpay = { url: 'https://pay.invalid', storeId: 'store', apiKey: 'key', webhookSecret: 'secret' }
    assert.equal((await sent(`${root}/crypto/set/btcpay`, { with: 'real', ...btcpay })).to, `${root}/crypto`)
    const refused = await sent(`${root}/crypto`, {})
    assert.equal(refused.status, 409)
    assert.match(refused.html, /The provider created no invoice/)
  })

  await t.test('another reseller has no access to it', async () => {
    const other = await signedIn(app, rival.accountId)
    assert.match((await other.open(`${root}/card`)).html, /No gateway is set up/)
    const refused = await other.post(`${root}/card`, { form: 'x'.repeat(43) })
    assert.equal(refused.status, 409)
    assert.match(refused.html, /No live payment gateway serves/)
    assert.deepEqual((await rival.client.get('/api/v1/reseller/customers')).body.customers, [])
  })
})

test('the gateways of the service have pages, and a test payment takes the normal way', async (t) => {
  const app = await testApp(t)
  const page = '/console/operator/gateways'
  const account = await app.customer({ email: 'hal@example.com', cents: 10_000 })
  const operator = await staffBrowser(app, ['operator', 'finance'])
  const listed = await operator.open(page)
  for (const word of ['Stripe', 'BTCPay Server', 'enabled', 'sandbox', 'USD', 'none in 30 days'])
    assert.ok(listed.html.includes(word), word)
  const cameIn = (html: string): number =>
    Number(/gateway%3Astripe">(−?[\d,.]+)<\/a><\/td>/.exec(html)?.[1]?.replaceAll(',', '').replace('−', '-'))
  const before = cameIn(listed.html)
  assert.ok(Number.isFinite(before), listed.html)
  const here = `${page}/sandbox-stripe`
  const form = hiddenField(await operator.open(here), 'form')
  const wrong = await operator.post(here, { form, account: '"><script>x', rail: 'crypto' })
  assert.equal(wrong.status, 400)
  for (const field of ['account', 'rail']) assert.match(wrong.html, new RegExp(`id="${field}-problem"`))
  assert.match(wrong.html, /value="&quot;&gt;&lt;script&gt;x"/)
  const input = { form, account: account.email, rail: 'card' }
  const { to } = await operator.post(here, input)
  const depositId = new URLSearchParams(to?.split('?')[1]).get('deposit') ?? ''
  assert.match(depositId, /^dep_[0-9a-f]{32}$/)
  assert.equal((await operator.post(here, input)).to, to, 'sent twice, it is one invoice')
  const made = await operator.open(to!)
  const [, payUrl = ''] = /href="([^"]+)" rel="noreferrer">Open pay page of \$10\.00/.exec(made.html) ?? []
  const paid = await fetch(`${new URL(payUrl).origin}/_sandbox/invoices/${depositId}/pay`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  assert.equal(paid.status, 200)
  await until(async () => (await operator.open(to!)).html.includes('class="state good">paid<'), {
    what: 'the payment',
  })
  const wallet = await app.buyer.get('/api/v1/wallet', { key: account.key })
  assert.equal(wallet.body.balanceCents, 11_000)
  await until(async () => cameIn((await operator.open(page)).html) === before + 10, { what: 'what came in' })
  const after = await operator.open(here)
  assert.match(after.html, /<dt>Last callback<\/dt><dd><time/)
  assert.equal((await operator.get(`${page}/service-stripe`)).status, 404)
  const plain = await staffBrowser(app, ['operator'])
  assert.doesNotMatch((await plain.open(page)).html, /\/console\/finance\//)
  await app.verified()
})

test("the information about a reseller's gateways has no secret, and shows which of two is preferred", async (t) => {
  const gateways = createGateways({
    config: {
      publicUrl: null,
      merchantName: 'Shop',
      sandbox: null,
      depositPollMs: 1_000,
      adaptivePricing: false,
      gateways: [
        { provider: 'stripe', secretKey: 'rk_test_s3cret', webhookSecret: 'whsec_s3cret' },
        {
          provider: 'btcpay',
          url: 'https://pay.invalid',
          storeId: 'x',
          apiKey: 's3cret',
          webhookSecret: 's3cret',
        },
        {
          provider: 'nowpayments',
          apiKey: 's3cret',
          ipnSecret: 's3cret',
          email: 'a@b.example',
          password: 's3cret',
        },
      ],
    },
    resellers: { forRail: async () => null, byId: async () => null },
    sandboxUrl: null,
    master: masterKey(Buffer.alloc(32, 7)),
    callbackUrl: (id) => id,
    clock: () => 0,
  })
  t.after(gateways.close)
  const own = gateways.own()
  assert.deepEqual(
    own.map(({ gatewayId, mode, rails }) => [gatewayId, mode, rails.map(({ rail }) => rail).join()]),
    [
      ['service-stripe', 'test', 'card,alipay,wechat'],
      ['service-btcpay', 'live', 'crypto'],
      ['service-nowpayments', 'live', ''],
    ],
  )
  assert.doesNotMatch(JSON.stringify(own), /s3cret/)
})
