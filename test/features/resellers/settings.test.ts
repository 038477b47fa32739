import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createResellerCredentials } from '../../../src/features/resellers/gateway-credentials.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { termsStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { createVault, SealBroken } from '../../../src/platform/vault/seal.ts'
import { operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const streamOf = async ({ farebox }: TestApp, accountId: string) => {
  const events = []
  for await (const stored of farebox.core.log.readStream(termsStream(accountId as AccountId)))
    events.push(decode(stored))
  return events
}

const isp = '/api/v1/products/isp-static'

test('each setting of a reseller is an event with its actor, and prices change within a moment', async (t) => {
  const app = await testApp(t)
  const { accountId } = app.demo.reseller
  const { cli } = app
  const quote = async (path: string) => (await app.reseller.get(path)).body
  const plain = await quote('/api/v1/products/residential-premium/price?quantity=10')
  assert.deepEqual([plain.yourCostCents, plain.amountCents, plain.listCents], [4_900, 4_900, 4_900])

  const set = await cli(
    ...['reseller', 'set', '--account', accountId, '--discount', '12.5', '--markup', '1.30'],
    ...['--merchant-name', 'Acme Proxies', '--website', 'https://acme.example'],
    ...['--storefront', 'https://t.me/acme', '--sellable', 'isp-static,residential-premium'],
  )
  assert.deepEqual([set.code, set.json], [0, { accountId, changed: true }], set.err)
  const retail = ['reseller', 'retail', '--account', accountId, '--product', 'isp-static']
  const priced = await cli(...retail, '--country', 'usa,deu', '--period-days', '30', '--price', '3.50')
  assert.deepEqual([priced.code, priced.json?.changed], [0, true], priced.err)
  assert.equal(
    (await cli(...retail, '--country', 'DEU', '--period-days', '30', '--remove')).json.changed,
    true,
  )
  assert.equal(
    (await cli(...retail, '--country', 'DEU', '--period-days', '30', '--remove')).json.changed,
    false,
  )

  const shown = (await cli('reseller', 'show', accountId)).json
  assert.deepEqual(shown, {
    accountId,
    discountPct: '12.5',
    markup: '1.30',
    markupAdjusted: false,
    priceLimits: null,
    sellable: ['isp-static', 'residential-premium'],
    merchantName: 'Acme Proxies',
    website: 'https://acme.example/',
    storefrontLink: 'https://t.me/acme',
    bot: null,
    gateways: { card: null, crypto: null },
    retail: [
      {
        productId: 'isp-static',
        country: 'USA',
        periodDays: 30,
        tiers: [{ from: 1, unitPrice: '3.50' }],
        belowCost: false,
        adjusted: false,
      },
    ],
  })

  const events = await streamOf(app, accountId)
  assert.deepEqual(
    events.map(({ type }) => type),
    [
      ...['DiscountChanged', 'MarkupChanged', 'SellableChanged', 'ShopChanged'],
      ...['RetailPriceSet', 'RetailPriceSet', 'RetailPriceRemoved'],
    ],
  )
  for (const { metadata } of events) assert.deepEqual(metadata.actor, operator.actor)

  await until(async () => (await quote(`${isp}/price?quantity=2`)).amountCents === 700)
  const premium = await quote('/api/v1/products/residential-premium/price?quantity=10')
  assert.deepEqual(
    [premium.yourCostCents, premium.amountCents, premium.marginCents, premium.listCents],
    [4_288, 6_370, 2_082, 4_900],
  )
  assert.match(premium.note, /retail price/)
  const list = await quote(`${isp}/price-list?country=USA`)
  assert.deepEqual(list.partner, { discountPct: 12.5, markup: 1.3, sellable: true })
  assert.match(list.note, /markup/)
  // biome-ignore lint/suspicious/noExplicitAny: one line of an answer
  const line = (days: number) => list.lines.find((one: any) => one.days === days)
  assert.deepEqual(
    [line(30).listCents, line(30).yourCostCents, line(30).customerCents, line(30).marginCents],
    [280, 245, 350, 105],
  )
  assert.equal(line(90).customerCents, Math.round(line(90).listCents * 1.3))
  const mobile = await quote('/api/v1/products/mobile-dedicated/price-list?country=USA')
  assert.equal(mobile.partner.sellable, false)
  const ordinary = (await app.buyer.get(`${isp}/price?quantity=2`)).body
  assert.deepEqual([ordinary.amountCents, ordinary.yourCostCents], [560, undefined])

  await cli('reseller', 'set', '--account', accountId, '--no-markup', '--sell-all', '--no-website')
  const back = (await cli('reseller', 'show', accountId)).json
  assert.deepEqual([back.markup, back.sellable, back.website, back.discountPct], [null, null, null, '12.5'])
})

test("a reseller's own order is charged its cost, and the expected amount is compared with that", async (t) => {
  const app = await testApp(t)
  const { cli } = app
  await cli(
    'reseller',
    'set',
    '--account',
    app.demo.reseller.accountId,
    '--discount',
    '12.5',
    '--markup',
    '2',
  )
  const path = '/api/v1/products/residential-premium/price?quantity=10'
  await until(async () => (await app.reseller.get(path)).body.yourCostCents === 4_288)
  const before = (await app.reseller.get('/api/v1/wallet')).body.balanceCents
  const order = (expected: number, key: string) =>
    app.reseller.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 10, expected_amount_cents: expected },
      { headers: { 'Idempotency-Key': key } },
    )
  const refused = await order(9_800, 'guard')
  assert.deepEqual(
    [refused.status, refused.body.code, refused.body.amountCents],
    [409, 'price_changed', 4_288],
  )
  const placed = await order(4_288, 'own')
  assert.deepEqual([placed.status, placed.body.amountCents, placed.body.yourCostCents], [201, 4_288, 4_288])
  const after = (await app.reseller.get('/api/v1/wallet')).body.balanceCents
  assert.equal(before - after, 4_288)
})

test('credentials of gateways and bots are sealed in the vault; events contain only provider, rail and reference', async (t) => {
  const app = await testApp(t)
  const { core } = app
  const { accountId } = app.demo.reseller
  const { cli, file } = app
  const stripe = await file('stripe.json', { secretKey: 'sk_live_s3cret', webhookSecret: 'whsec_s3cret' })
  const btcpay = await file('btcpay.json', {
    url: 'https://pay.acme.example',
    storeId: 'store',
    apiKey: 'api_s3cret',
    webhookSecret: 'hook_s3cret',
  })
  const bot = await file('bot.json', { token: '123456:s3cret' })
  const gateway = ['reseller', 'gateway', '--account', accountId]
  for (const args of [
    [...gateway, '--rail', 'card', '--provider', 'stripe', '--credentials', stripe],
    [...gateway, '--rail', 'crypto', '--provider', 'btcpay', '--credentials', btcpay],
    ['reseller', 'set', '--account', accountId, '--bot', bot],
  ]) {
    const ran = await cli(...args)
    assert.deepEqual([ran.code, ran.json?.changed], [0, true], ran.err)
    assert.doesNotMatch(ran.out + ran.err, /s3cret/)
  }
  const shown = (await cli('reseller', 'show', accountId)).json
  const { reference } = shown.gateways.card
  assert.equal(shown.gateways.card.provider, 'stripe')
  assert.doesNotMatch(JSON.stringify(await streamOf(app, accountId)), /s3cret/)
  const { rows } = await core.pool.query(
    "select encode(sealed, 'escape') as sealed from vault.reseller_credentials where reseller_id = $1",
    [accountId],
  )
  assert.equal(rows.length, 3)
  for (const { sealed } of rows) assert.doesNotMatch(sealed, /s3cret/)

  const vaultOf = (keys: typeof core.keys.master) =>
    createResellerCredentials({ pool: core.pool, vault: createVault(keys) })
  const credentials = vaultOf(core.keys.master)
  const expected = {
    resellerId: accountId,
    reference,
    rail: 'card',
    provider: 'stripe',
    secretKey: 'sk_live_s3cret',
    webhookSecret: 'whsec_s3cret',
  }
  assert.deepEqual(await credentials.gateway(reference), expected)
  assert.deepEqual(await credentials.bot(shown.bot.reference), {
    resellerId: accountId,
    reference: shown.bot.reference,
    provider: 'telegram',
    token: '123456:s3cret',
  })
  assert.equal(await credentials.gateway(shown.bot.reference), null)
  assert.equal(await credentials.gateway('crd_none'), null)
  await assert.rejects(vaultOf(masterKey(Buffer.alloc(32, 1))).gateway(reference), SealBroken)

  assert.equal((await cli(...gateway, '--rail', 'card', '--remove')).json.changed, true)
  assert.equal((await cli(...gateway, '--rail', 'card', '--remove')).json.changed, false)
  assert.equal((await cli('reseller', 'show', accountId)).json.gateways.card, null)
  assert.deepEqual(await vaultOf(core.keys.master).gateway(reference), expected)
})

test('a wrong input is refused with the accepted values, exits with 2 and writes nothing', async (t) => {
  const app = await testApp(t)
  const { core } = app
  const { reseller, buyer } = app.demo
  const { cli, file } = app
  const broken = await file('broken.json', '{"secretKey":')
  const short = await file('short.json', { secretKey: 's3cret' })
  const http = await file('http.json', {
    url: 'http://pay.example',
    storeId: 's',
    apiKey: 'k',
    webhookSecret: 's3cret',
  })
  const set = ['reseller', 'set', '--account', reseller.accountId]
  const retail = ['reseller', 'retail', '--account', reseller.accountId, '--product']
  const gateway = ['reseller', 'gateway', '--account', reseller.accountId, '--rail']
  const head = await core.log.head()
  const stored = async () => (await core.pool.query('select from vault.reseller_credentials')).rowCount
  const before = await stored()
  const cases: readonly (readonly [args: readonly string[], message: RegExp])[] = [
    [set, /name something to change/],
    [[...set, '--discount', '100'], /percentage from 0 to 99\.99/],
    [[...set, '--discount', '12.345'], /at most two decimals/],
    [[...set, '--discount', '-1'], /percentage from 0 to 99\.99/],
    [[...set, '--discount', '1e1'], /percentage from 0 to 99\.99/],
    [[...set, '--markup', '0'], /above 0 and up to 100/],
    [[...set, '--markup', '130%'], /e\.g\. 1\.30/],
    [[...set, '--markup', '1.0000001'], /at most six decimals/],
    [[...set, '--markup', '100.1'], /up to 100/],
    [[...set, '--website', 'http://acme.example'], /start with https:\/\//],
    [[...set, '--website', 'acme'], /start with https:\/\//],
    [[...set, '--storefront', 'https://a:b@t.me/acme'], /without a user name/],
    [[...set, '--merchant-name', ''], /1 to 64 printable/],
    [
      [...set, '--sellable', 'isp-static,nothing'],
      /no product has the id nothing; the products are .*isp-static/,
    ],
    [[...set, '--sellable', 'isp-static', '--sell-all'], /cannot be used with/],
    [[...set, '--discount', '5', '--bot', short], /must be \{"token"\}/],
    [[...retail, 'nothing', '--price', '1'], /the products are/],
    [[...retail, 'residential-premium'], /--price or --remove/],
    [[...retail, 'residential-premium', '--price', '0'], /above 0 and up to 10000/],
    [[...retail, 'residential-premium', '--price', '1', '--country', 'USA'], /one price for all countries/],
    [[...retail, 'isp-static', '--price', '1'], /country of isp-static must be some of/],
    [[...retail, 'isp-static', '--price', '1', '--country', 'XXX'], /must be some of .*USA/],
    [[...retail, 'isp-static', '--price', '1', '--country', 'USA'], /some of .*30.* days/],
    [
      [...retail, 'isp-static', '--price', '1', '--country', 'USA', '--period-days', '31'],
      /some of .*30.* days/,
    ],
    [
      [...retail, 'isp-static', '--price', '1', '--country', 'USA', '--period-days', 'x'],
      /whole numbers of days/,
    ],
    [[...gateway, 'pix', '--remove'], /Allowed choices are card, crypto/],
    [[...gateway, 'card', '--provider', 'btcpay', '--credentials', short], /card is served by stripe/],
    [[...gateway, 'card', '--provider', 'stripe'], /--provider and --credentials/],
    [[...gateway, 'card', '--provider', 'stripe', '--credentials', broken], /not JSON.*"webhookSecret"/],
    [[...gateway, 'card', '--provider', 'stripe', '--credentials', short], /webhookSecret/],
    [[...gateway, 'card', '--provider', 'stripe', '--credentials', '/nowhere'], /cannot be read/],
    [[...gateway, 'crypto', '--provider', 'btcpay', '--credentials', http], /does not fit \(url\)/],
    [['reseller', 'set', '--account', 'acc_none', '--discount', '5'], /accounts create --reseller/],
    [['reseller', 'set', '--account', buyer.accountId, '--discount', '5'], /not a reseller's/],
    [['reseller', 'show', buyer.accountId], /not a reseller's/],
  ]
  for (const [args, message] of cases) {
    const ran = await cli(...args)
    assert.equal(ran.code, 2, `${args.join(' ')}: ${ran.err}`)
    assert.match(ran.err, message, args.join(' '))
    assert.doesNotMatch(ran.out + ran.err, /s3cret/)
  }
  const written = (await core.log.readAll(head, 1_000)).map(({ metadata }) => JSON.parse(metadata).actor.kind)
  assert.ok(!written.includes('operator'), String(written))
  assert.equal(await stored(), before)
})

test('customers cannot order what a reseller does not sell, and orders of 0 cents are refused', async (t) => {
  const app = await testApp(t)
  const { cli } = app
  const { accountId } = app.demo.reseller
  await cli('reseller', 'set', '--account', accountId, '--sellable', 'isp-static', '--discount', '99.99')
  const path = '/api/v1/products/residential-premium/price?quantity=1'
  await until(async () => (await app.reseller.get(path)).body.yourCostCents === 0)
  const order = (headers: Record<string, string>) =>
    app.reseller.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 }, { headers })
  const customers = await order({ 'Idempotency-Key': 'a', 'X-Reseller-Customer-Id': 'ann' })
  assert.deepEqual([customers.status, customers.body.code], [409, 'product_unavailable'])
  assert.match(customers.body.error, /not in your catalogue/)
  const own = await order({ 'Idempotency-Key': 'b' })
  assert.deepEqual([own.status, own.body.code], [400, 'invalid_quantity'])
  assert.match(own.body.error, /order more/)
})
