import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  chooseRate,
  parseMeta,
  parseQuery,
  parseTargeting,
  type RateRequest,
  ratesIn,
  unitPriceMicros,
} from '../../../src/domain/catalog/catalog.ts'
import type { Product } from '../../../src/domain/catalog/product.ts'
import fc from '../../support/fast-check.ts'
import { demoProduct } from './samples.ts'

const isp = demoProduct('isp-static')
const mobile = demoProduct('mobile-dedicated')
const gateway = demoProduct('residential-premium')

const refusal = (result: ReturnType<typeof parseMeta>) => {
  assert.ok(!result.ok)
  return result.refusal
}
const open = { carrierId: null, service: null, rotationMinutes: null }

test('an order takes country and period, with the country in any case', () => {
  const parsed = parseMeta(isp, { country: 'deu', period_days: 30 })
  assert.deepEqual(parsed, { ok: true, value: { country: 'DEU', periodDays: 30, ...open } })
})

const refusals: readonly [string, Product, Record<string, unknown> | undefined, string, RegExp][] = [
  ['no meta', isp, undefined, 'invalid_country', /one of AUS, BRA/],
  ['no country', isp, { period_days: 30 }, 'invalid_country', /alpha-3 code, one of AUS, .*USA/],
  ['an alpha-2 country', isp, { country: 'US', period_days: 30 }, 'invalid_country', /USA/],
  ['a country that is a number', isp, { country: 1, period_days: 30 }, 'invalid_country', /USA/],
  ['a country that is not sold', isp, { country: 'CHN', period_days: 30 }, 'invalid_country', /USA/],
  ['no period', isp, { country: 'USA' }, 'invalid_period', /one of 7, 30, 90, 365 in USA/],
  ['a period as text', isp, { country: 'USA', period_days: '30' }, 'invalid_period', /7, 30, 90, 365/],
  ['a period that is not sold', isp, { country: 'USA', period_days: 31 }, 'invalid_period', /7, 30/],
  ['a fraction of a period', isp, { country: 'USA', period_days: 30.5 }, 'invalid_period', /7, 30/],
  [
    'an unknown field',
    isp,
    { country: 'USA', period_days: 30, city: 'Dallas' },
    'invalid_targeting',
    /fulfillment_meta\.city .*accepted fields: country, period_days$/,
  ],
  [
    'a mobile field on another product',
    isp,
    { country: 'USA', period_days: 30, carrier_id: 'att-us' },
    'invalid_targeting',
    /accepted fields: country, period_days$/,
  ],
  [
    'a prototype field',
    isp,
    JSON.parse('{"country": "USA", "period_days": 30, "__proto__": {}}'),
    'invalid_targeting',
    /__proto__/,
  ],
  [
    'meta on a gateway product',
    gateway,
    { country: 'USA' },
    'invalid_targeting',
    /takes no fulfillment_meta/,
  ],
  [
    'a carrier of another country',
    mobile,
    { country: 'USA', period_days: 30, carrier_id: 'ee-uk' },
    'invalid_targeting',
    /carrier_id must be one of att-us, tmobile-us, verizon-us in USA/,
  ],
  [
    'an unknown field that is null',
    mobile,
    { country: 'USA', period_days: 30, city: null },
    'invalid_targeting',
    /city/,
  ],
  [
    'an unknown service',
    mobile,
    { country: 'USA', period_days: 30, service: 'private' },
    'invalid_targeting',
    /service must be one of dedicated, shared/,
  ],
  [
    'an unknown rotation',
    mobile,
    { country: 'USA', period_days: 30, rotation_minutes: 7 },
    'invalid_targeting',
    /rotation_minutes must be one of 0, 5, 10, 30/,
  ],
]
for (const [name, product, meta, code, message] of refusals)
  test(`an order with ${name} is refused as ${code}`, () => {
    const refused = refusal(parseMeta(product, meta))
    assert.equal(refused.code, code)
    assert.match(refused.message, message)
    assert.match(refused.message, /fulfillment_meta/)
  })

test('a field outside fulfillment_meta is reported at its own path', () => {
  const elsewhere = [
    parseQuery(isp, { country: 'USA', period_days: '8' }),
    parseTargeting(isp, { country: 'USA', period_days: 8 }),
  ]
  for (const result of elsewhere) assert.match(refusal(result).message, /^period_days must be/)
})

test('a mobile field that is null equals an omitted one', () => {
  const unset = { carrier_id: null, service: null, rotation_minutes: null }
  const wanted = { country: 'USA', period_days: 30 }
  assert.deepEqual(parseMeta(mobile, { ...wanted, ...unset }), parseMeta(mobile, wanted))
})

test('a null field of other products equals an omitted one', () => {
  const unset = { carrier_id: null, service: null, rotation_minutes: null }
  const wanted = { country: 'USA', period_days: 30 }
  assert.deepEqual(parseMeta(isp, { ...wanted, ...unset }), parseMeta(isp, wanted))
  assert.deepEqual(
    parseMeta(gateway, { country: null, period_days: null, ...unset }),
    parseMeta(gateway, undefined),
  )
  assert.match(refusal(parseMeta(gateway, { city: null })).message, /city/)
})

test('a gateway product accepts only an empty or omitted meta', () => {
  assert.deepEqual(parseMeta(gateway, undefined), { ok: true, value: null })
  assert.deepEqual(parseQuery(gateway, { country: 'USA' }), { ok: true, value: null })
})

test('a price query defaults to the USA and 30 days', () => {
  assert.deepEqual(parseQuery(isp, {}), { ok: true, value: { country: 'USA', periodDays: 30, ...open } })
  assert.deepEqual(parseQuery(mobile, { country: 'gbr', period_days: '7', rotation_minutes: '0' }), {
    ok: true,
    value: { country: 'GBR', periodDays: 7, carrierId: null, service: null, rotationMinutes: 0 },
  })
  for (const period of ['x', '', '30.0', '3e1', '-30', '0x1e'])
    assert.equal(refusal(parseQuery(isp, { period_days: period })).code, 'invalid_period')
})

const wantedLine: fc.Arbitrary<RateRequest> = fc.constantFrom('USA', 'GBR', 'DEU', 'BRA').chain((country) => {
  const rates = ratesIn(mobile as never, country)
  return fc.record({
    country: fc.constant(country),
    periodDays: fc.constantFrom(7, 30, 90),
    carrierId: fc.option(fc.constantFrom(...rates.map((rate) => rate.target.carrierId as string))),
    service: fc.option(fc.constantFrom('dedicated', 'shared')),
    rotationMinutes: fc.option(fc.constantFrom(0, 5, 10, 30)),
  })
})

test('omitted targeting becomes the cheapest line in stock, else the cheapest; given targeting stays', () => {
  fc.assert(
    fc.property(wantedLine, fc.integer({ min: 1, max: 50 }), fc.func(fc.boolean()), (wanted, units, luck) => {
      const inStock = (target: { carrierId: string | null; service: string | null }) =>
        luck(target.carrierId, target.service)
      const rates = ratesIn(mobile as never, wanted.country).filter(
        ({ target }) =>
          target.periodDays === wanted.periodDays &&
          [wanted.carrierId ?? target.carrierId].includes(target.carrierId) &&
          [wanted.service ?? target.service].includes(target.service) &&
          [wanted.rotationMinutes ?? target.rotationMinutes].includes(target.rotationMinutes),
      )
      const chosen = chooseRate(mobile, wanted, units, inStock)
      if (rates.length === 0) return assert.equal(refusal(chosen as never).code, 'invalid_targeting')
      assert.ok(chosen.ok)
      assert.ok(rates.some((rate) => JSON.stringify(rate) === JSON.stringify(chosen.value)))
      const stocked = rates.filter((rate) => inStock(rate.target))
      const candidates = stocked.length > 0 ? stocked : rates
      const cheapest = Math.min(...candidates.map((rate) => unitPriceMicros(rate.tiers, units)))
      assert.equal(unitPriceMicros(chosen.value.tiers, units), cheapest)
      if (stocked.length > 0) assert.ok(inStock(chosen.value.target))
    }),
  )
})

test('a fully specified line is accepted even if it is sold out', () => {
  const wanted = {
    country: 'USA',
    periodDays: 30,
    carrierId: 'att-us',
    service: 'dedicated',
    rotationMinutes: 10,
  }
  const chosen = chooseRate(mobile, wanted, 1, () => false)
  assert.ok(chosen.ok)
  assert.deepEqual(chosen.value.target, wanted)
})
