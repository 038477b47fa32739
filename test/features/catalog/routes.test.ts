import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'

const products = '/api/v1/products'

test('the catalogue over HTTP', async (t) => {
  const app = await testApp(t)
  const api = app.buyer

  const refused = async (path: string, status: number, code: string, message: RegExp) => {
    const answer = await api.get(path)
    assert.deepEqual([answer.status, answer.body.code], [status, code], answer.text)
    assert.match(answer.body.error, message)
    return answer.body
  }

  await t.test('any key can read it, and a missing key cannot', async () => {
    assert.equal((await app.scraper.get(products)).status, 200)
    assert.equal((await fetch(`${app.baseUrl}${products}`)).status, 401)
  })

  await t.test('products are listed by family and id, retired ones only on request', async () => {
    const { body } = await api.get(products)
    const keys = body.products.map((p: { family: string; id: string }) => `${p.family} ${p.id}`)
    assert.deepEqual(keys, [...keys].sort())
    assert.equal(keys.length, 10)
    const states = async (query: string) => {
      const answer = await api.get(`${products}?state=${query}`)
      return answer.body.products.map((p: { id: string }) => p.id)
    }
    assert.deepEqual(await states('retired'), ['residential-classic'])
    assert.deepEqual(await states('parked'), ['isp-gateway'])
    assert.equal((await states('active')).length, 9)
    await refused(`${products}?state=gone`, 400, 'invalid_parameter', /active/)
  })

  await t.test('a product is found by its id and by an old one, also when it is retired', async () => {
    const byId = await api.get(`${products}/residential-premium`)
    const byAlias = await api.get(`${products}/resi-premium`)
    assert.equal(byAlias.text, byId.text)
    const retired = await api.get(`${products}/residential`)
    assert.deepEqual([retired.status, retired.body.successorId], [200, 'residential-basic'])
    await refused(`${products}/nothing`, 404, 'not_found', /GET \/api\/v1\/products/)
  })

  await t.test('a retired product has no price, price list or options, and names its successor', async () => {
    for (const path of ['price?quantity=1', 'price-list?country=USA', 'options']) {
      const body = await refused(`${products}/residential/${path}`, 409, 'product_unavailable', /buy/)
      assert.equal(body.successorId, 'residential-basic')
    }
  })

  await t.test('a parked product is quotable and not available', async () => {
    const { status, body } = await api.get(`${products}/isp-gateway/price?quantity=50`)
    assert.deepEqual([status, body.amountCents, body.available], [200, 13_500, false])
  })

  await t.test('a quote defaults to the USA and 30 days', async () => {
    const { body } = await api.get(`${products}/isp-static/price?quantity=5`)
    assert.deepEqual(body, {
      productId: 'isp-static',
      quantity: 5,
      unitPriceCents: 280,
      amountCents: 1_400,
      currency: 'USD',
      billingType: 'PAYG',
      available: true,
      targeting: { country: 'USA', period_days: 30 },
    })
    const dearer = await api.get(`${products}/isp-static/price?quantity=5&country=jpn&period_days=90`)
    assert.equal(dearer.body.amountCents, 4_875)
  })

  await t.test('a mobile quote uses the named line, else the cheapest available one', async () => {
    const open = await api.get(`${products}/mobile-dedicated/price?quantity=1`)
    assert.deepEqual(open.body.targeting, {
      country: 'USA',
      period_days: 30,
      carrier_id: 'att-us',
      service: 'shared',
      rotation_minutes: 0,
    })
    const named = await api.get(
      `${products}/mobile-dedicated/price?quantity=1&country=GBR&carrier_id=ee-uk&service=dedicated&rotation_minutes=30`,
    )
    assert.equal(named.body.amountCents, 6_715)
  })

  await t.test('a quote that is not possible names the possible values', async () => {
    const price = `${products}/isp-static/price`
    await refused(price, 400, 'invalid_quantity', /from 1 to 500/)
    for (const wrong of ['0', '-1', '1.5', '501', 'x', '1e2', '99999999999999999999', ' 1'])
      await refused(`${price}?quantity=${wrong}`, 400, 'invalid_quantity', /from 1 to 500/)
    await refused(`${products}/ipv6-datacenter/price?quantity=9`, 400, 'invalid_quantity', /from 10 to 1000/)
    await refused(`${price}?quantity=1&country=US`, 400, 'invalid_country', /one of AUS, .*USA/)
    await refused(`${price}?quantity=1&period_days=31`, 400, 'invalid_period', /one of 7, 30, 90, 365/)
    const gateway = `${products}/residential-premium/price?quantity=1`
    await refused(`${gateway}&country=zz!`, 400, 'invalid_country', /must be an alpha-3 code such as USA/)
    await refused(`${gateway}&period_days=0`, 400, 'invalid_period', /must be a whole number of at least 1/)
    await refused(
      `${gateway}&rotation_minutes=x`,
      400,
      'invalid_targeting',
      /must be a whole number of at least 0/,
    )
    const mobile = `${products}/mobile-dedicated/price?quantity=1`
    await refused(`${mobile}&carrier_id=ee-uk`, 400, 'invalid_targeting', /att-us, tmobile-us, verizon-us/)
    await refused(`${mobile}&service=x`, 400, 'invalid_targeting', /dedicated, shared/)
    await refused(
      `${mobile}&service=shared&rotation_minutes=5`,
      400,
      'invalid_targeting',
      /not sold together/,
    )
    await refused(`${products}/nothing/price?quantity=1`, 404, 'not_found', /products/)
  })

  await t.test(
    'a price list prices the smallest order or a quantity, and its lines equal the quotes',
    async () => {
      const list = await api.get(`${products}/ipv6-datacenter/price-list?country=USA`)
      assert.equal(list.body.quantity, 10)
      const more = await api.get(`${products}/isp-static/price-list?country=BRA&quantity=12`)
      for (const { days, listCents } of more.body.lines) {
        const quote = await api.get(
          `${products}/isp-static/price?quantity=12&country=BRA&period_days=${days}`,
        )
        assert.equal(quote.body.amountCents, listCents)
      }
      const soldOut = await api.get(`${products}/isp-static/price-list?country=USA&quantity=61`)
      assert.ok(soldOut.body.lines.every((line: { available: boolean }) => !line.available))
    },
  )

  await t.test('a mobile price list covers one period and says when its figures were set', async () => {
    const { body } = await api.get(`${products}/mobile-dedicated/price-list?country=DEU&period_days=7`)
    assert.equal(body.lines.length, 12)
    assert.ok(body.lines.every((line: { days: number }) => line.days === 7))
    assert.ok(Date.parse(body.refreshedAt) <= Date.now())
  })

  await t.test('a price list that is not possible says why', async () => {
    const path = (id: string, query: string) => `${products}/${id}/price-list?${query}`
    await refused(path('residential-premium', 'country=USA'), 400, 'no_price_list', /ask its price/)
    await refused(path('residential-unlimited', 'country=USA'), 400, 'no_price_list', /speed tier/)
    await refused(path('isp-static', ''), 400, 'invalid_country', /one of AUS/)
    await refused(path('isp-static', 'country=CHN'), 400, 'invalid_country', /one of AUS/)
    await refused(path('isp-static', 'country=USA&quantity=0'), 400, 'invalid_quantity', /from 1 to 500/)
    await refused(path('mobile-dedicated', 'country=USA&period_days=8'), 400, 'invalid_period', /7, 30, 90/)
    await refused(path('nothing', 'country=USA'), 404, 'not_found', /products/)
  })

  await t.test('options list countries in stock and periods; gateway products have none', async () => {
    const { body } = await api.get(`${products}/ipv6-datacenter/options`)
    assert.deepEqual(
      body.countries.map((c: { alpha3: string }) => c.alpha3),
      ['DEU', 'FRA', 'GBR', 'JPN', 'NLD', 'POL', 'SGP', 'USA'],
    )
    assert.deepEqual(
      body.periods.map((p: { days: number }) => p.days),
      [7, 30, 90],
    )
    await refused(`${products}/residential-premium/options`, 400, 'no_options', /gateway product/)
    await refused(`${products}/nothing/options`, 404, 'not_found', /products/)
  })

  await t.test('a reseller key sees cost, customer price and margin everywhere', async () => {
    const { body: quote } = await app.reseller.get(`${products}/residential-premium/price?quantity=10`)
    const { amountCents, yourCostCents, marginCents, listCents } = quote
    assert.deepEqual([amountCents, yourCostCents, marginCents, listCents], [4_900, 4_900, 0, 4_900])
    assert.equal(typeof quote.note, 'string')
    const { body: list } = await app.reseller.get(`${products}/isp-static/price-list?country=USA`)
    assert.deepEqual(list.partner, { discountPct: 0, markup: 1, sellable: true })
    assert.deepEqual(list.lines[1], {
      days: 30,
      period: '30 days',
      available: true,
      listCents: 280,
      yourCostCents: 280,
      customerCents: 280,
      marginCents: 0,
    })
  })
})
