import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StockCount } from '../../../src/domain/catalog/availability.ts'
import { defaultResellerTerms, quote } from '../../../src/domain/catalog/pricing.ts'
import type { AddressesProduct, DedicatedProduct, Product } from '../../../src/domain/catalog/product.ts'
import { howTo } from '../../../src/features/catalog/how-to.ts'
import { optionsView, priceListView, productView, quoteView } from '../../../src/features/catalog/views.ts'
import { demoCatalog, demoProduct } from '../../domain/catalog/samples.ts'

const isp = demoProduct('isp-static') as Product & DedicatedProduct
const mobile = demoProduct('mobile-dedicated') as Product & DedicatedProduct
const plain = (country: string, available: number): StockCount => ({
  country,
  carrierId: null,
  service: null,
  available,
})
const line = (carrierId: string, service: string, available: number): StockCount => ({
  country: 'USA',
  carrierId,
  service,
  available,
})
const context = { stock: [plain('USA', 5)], terms: null, importedAt: demoCatalog.importedAt }

test('a gateway product is available while it is active, a dedicated one while it is in stock', () => {
  assert.equal(productView(demoProduct('residential-premium'), []).available, true)
  assert.equal(productView(demoProduct('isp-gateway'), []).available, false)
  assert.equal(productView(demoProduct('residential-classic'), []).available, false)
  assert.equal(productView(isp, []).available, false)
  assert.equal(productView(isp, [plain('USA', 1)]).available, true)
  const ipv6 = demoProduct('ipv6-datacenter')
  assert.equal(productView(ipv6, [plain('USA', 9)]).available, false)
  assert.equal(productView(ipv6, [plain('USA', 10)]).available, true)
})

test('a retired product gives its date and its successor', () => {
  const { state, successorId, lifecycle, howTo: steps } = productView(demoProduct('residential-classic'), [])
  assert.equal(state, 'retired')
  assert.equal(successorId, 'residential-basic')
  assert.deepEqual(lifecycle, {
    state: 'retired',
    since: '2026-11-21T02:30:00.000Z',
    parkedUntil: null,
    retiredAt: '2026-11-21T02:30:00.000Z',
    successorId: 'residential-basic',
    aliases: ['residential'],
  })
  assert.deepEqual(steps, [])
})

test('options omit what cannot be ordered now', () => {
  const options = optionsView(isp, [plain('USA', 5), plain('DEU', 0), plain('POL', 1)])
  assert.deepEqual(options.countries, [
    { alpha3: 'POL', name: 'Poland', available: 1 },
    { alpha3: 'USA', name: 'United States', available: 5 },
  ])
  assert.deepEqual(
    options.periods.map(({ label }) => label),
    ['7 days', '30 days', '90 days', '365 days'],
  )
  assert.deepEqual(optionsView(isp, []).periods, [])
  assert.deepEqual(optionsView({ ...isp, state: 'parked' }, [plain('USA', 5)]).countries, [])
})

test('options of a mobile product count what one order can have: the carrier and service with most stock, and only those on sale', () => {
  const of = (carrierId: string, service: string, available: number): StockCount => ({
    country: 'USA',
    carrierId,
    service,
    available,
  })
  const stock = [
    of('verizon-us', 'dedicated', 2),
    of('att-us', 'dedicated', 7),
    of('unknown-us', 'dedicated', 90),
  ]
  assert.deepEqual(optionsView(mobile, stock).countries, [
    { alpha3: 'USA', name: 'United States', available: 7 },
  ])
  assert.deepEqual(optionsView(mobile, [of('unknown-us', 'dedicated', 90)]).countries, [])
})

test('a price list has a line for each period, priced for the quantity, and false if fewer are free', () => {
  const list = priceListView(isp, { country: 'USA', quantity: 5, periodDays: null }, context)
  assert.deepEqual(
    list.lines.map(({ days, available, listCents }) => [days, available, listCents]),
    [
      [7, true, 600],
      [30, true, 1_400],
      [90, true, 3_900],
      [365, true, 14_000],
    ],
  )
  const more = priceListView(isp, { country: 'USA', quantity: 6, periodDays: null }, context)
  assert.ok(more.lines.every(({ available }) => !available))
  assert.ok(!('refreshedAt' in list) && !('partner' in list))
})

test('a mobile price list has a line for each carrier, service and rotation of one period', () => {
  const stock = [line('att-us', 'dedicated', 1), line('att-us', 'shared', 0)]
  const list = priceListView(mobile, { country: 'USA', quantity: 1, periodDays: 30 }, { ...context, stock })
  assert.equal(list.lines.length, 3 * (4 + 2))
  assert.deepEqual(list.lines[0], {
    days: 30,
    period: '30 days',
    available: true,
    listCents: 7_900,
    carrierId: 'att-us',
    carrier: 'AT&T',
    service: 'dedicated',
    rotation: 'by_link',
    rotationMinutes: 0,
  })
  assert.equal(list.refreshedAt, demoCatalog.importedAt)
  assert.equal(list.lines.filter(({ available }) => available).length, 4)
})

test('a reseller sees cost, customer price and margin on every line', () => {
  const terms = { ...defaultResellerTerms, discountBp: 1_250, markupMillionths: 1_300_000 }
  const list = priceListView(isp, { country: 'USA', quantity: 1, periodDays: null }, { ...context, terms })
  assert.deepEqual(list.partner, { discountPct: 12.5, markup: 1.3, sellable: true })
  assert.deepEqual(list.lines[1], {
    days: 30,
    period: '30 days',
    available: true,
    listCents: 280,
    yourCostCents: 245,
    customerCents: 364,
    marginCents: 119,
  })
  assert.equal(typeof list.note, 'string')
})

test('a quote has the figures of the price list, and the priced target', () => {
  const terms = { ...defaultResellerTerms, discountBp: 1_250, markupMillionths: 1_300_000 }
  const wanted = { country: 'USA', periodDays: 30, carrierId: null, service: null, rotationMinutes: null }
  const priced = quote(isp, { quantity: 1, rateRequest: wanted, terms })
  assert.ok(priced.ok)
  const { note, ...view } = quoteView(isp, priced.value, [plain('USA', 1)])
  assert.deepEqual(view, {
    productId: 'isp-static',
    quantity: 1,
    unitPriceCents: 364,
    amountCents: 364,
    currency: 'USD',
    billingType: 'PAYG',
    available: true,
    targeting: { country: 'USA', period_days: 30 },
    yourCostCents: 245,
    marginCents: 119,
    listCents: 280,
  })
  assert.match(note ?? '', /amountCents is what your customer pays/)
  assert.equal(quoteView(isp, priced.value, []).available, false)
})

test('how-to steps buy in a country and on a line that are in stock', () => {
  const order = (product: Product, stock: readonly StockCount[]) =>
    howTo(product, stock).find(({ path }) => path === '/api/v1/orders')?.body
  assert.deepEqual(order(isp, [plain('DEU', 1)]), {
    product_id: 'isp-static',
    quantity: 1,
    fulfillment_meta: { country: 'DEU', period_days: 30 },
  })
  assert.deepEqual(order(mobile, [line('verizon-us', 'dedicated', 1)]), {
    product_id: 'mobile-dedicated',
    quantity: 1,
    fulfillment_meta: {
      country: 'USA',
      period_days: 30,
      carrier_id: 'verizon-us',
      service: 'dedicated',
      rotation_minutes: 0,
    },
  })
})

test("how-to steps follow the product's shape", () => {
  const subscription = [
    ['POST', '/api/v1/subscriptions'],
    ['GET', '/api/v1/subscriptions/{subscriptionId}'],
    ['DELETE', '/api/v1/subscriptions/{subscriptionId}'],
  ]
  const paths = (id: string) =>
    howTo(demoProduct(id), [plain('USA', 100)]).map(({ method, path }) => [method, path])
  assert.deepEqual(paths('residential-premium'), [
    ['GET', '/api/v1/products/residential-premium/price?quantity=1'],
    ['POST', '/api/v1/orders'],
    ['GET', '/api/v1/plans/{planId}'],
    ['GET', '/api/v1/geo/countries'],
    ['POST', '/api/v1/plans/{planId}/generate'],
    ...subscription,
  ])
  assert.deepEqual(paths('residential-unlimited-day').slice(-1), [
    ['POST', '/api/v1/plans/{planId}/generate'],
  ])
  assert.deepEqual(paths('ipv6-datacenter'), [
    ['GET', '/api/v1/products/ipv6-datacenter/options'],
    ['GET', '/api/v1/products/ipv6-datacenter/price-list?country=USA'],
    ['GET', '/api/v1/products/ipv6-datacenter/price?quantity=10&country=USA&period_days=30'],
    ['POST', '/api/v1/orders'],
    ['GET', '/api/v1/proxies?order_id={orderId}'],
    ['POST', '/api/v1/proxies/extend'],
    ...subscription,
  ])
})

test('how-to steps subscribe with an interval equal to the sold period, and not if there is none', () => {
  const subscriptionBody = (product: Product) =>
    howTo(product, [plain('USA', 100)]).find(({ path }) => path === '/api/v1/subscriptions')?.body
  const targeted = { product_id: 'isp-static', quantity: 1, fulfillment_meta: { country: 'USA' } }
  const sold = (periodDays: readonly number[]): Product =>
    ({ ...isp, rates: [{ ...(isp as AddressesProduct).rates[0]!, periodDays }] }) as Product
  assert.deepEqual(subscriptionBody(isp), {
    ...targeted,
    interval: 'month',
    fulfillment_meta: { country: 'USA', period_days: 30 },
  })
  assert.deepEqual(subscriptionBody(sold([7, 365])), {
    ...targeted,
    interval: 'year',
    fulfillment_meta: { country: 'USA', period_days: 365 },
  })
  assert.equal(subscriptionBody(sold([7, 90])), undefined)
  const unlimited = demoProduct('residential-unlimited')
  assert.equal(subscriptionBody(unlimited)?.interval, 'month')
  assert.equal(subscriptionBody({ ...unlimited, periodDays: 31 } as Product), undefined)
})

test('the published price is the lowest price of a unit, for 30 days where that period is sold', () => {
  const published = (id: string) => productView(demoProduct(id), []).publishedPrice
  assert.deepEqual(published('residential-premium'), {
    fromCents: 240,
    unit: 'GB',
    per: 'GB',
    currency: 'USD',
  })
  assert.deepEqual(published('isp-static'), { fromCents: 200, unit: 'IP', per: 'IP/30d', currency: 'USD' })
  assert.equal(published('residential-unlimited').per, '100 Mbps/30d')
})
