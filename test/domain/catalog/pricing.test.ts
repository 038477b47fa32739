import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import * as pricing from '../../../src/domain/catalog/pricing.ts'
import {
  defaultResellerTerms,
  type OwnPrice,
  quote,
  type ResellerTerms,
  retailKey,
} from '../../../src/domain/catalog/pricing.ts'
import type { Tier } from '../../../src/domain/catalog/product.ts'
import fc from '../../support/fast-check.ts'
import { demoProduct } from './samples.ts'

/** Tiers as the schema lets them through: from 1 up, prices falling. */
const tiers: fc.Arbitrary<readonly Tier[]> = fc
  .tuple(
    fc.uniqueArray(fc.integer({ min: 2, max: 5_000 }), { maxLength: 5 }),
    fc.array(fc.integer({ min: 1, max: 2_000_000_000 }), { minLength: 6, maxLength: 6 }),
  )
  .map(([steps, prices]) => {
    const froms = [1, ...steps.sort((a, b) => a - b)]
    const falling = prices.sort((a, b) => b - a)
    return froms.map((from, index) => ({ from, unitPriceMicros: falling[index]! }))
  })
const quantity = fc.integer({ min: 1, max: 5_000 })
const atEveryQuantity = (unitPriceMicros: number): readonly Tier[] => [{ from: 1, unitPriceMicros }]
const retail = (price: OwnPrice | null) => new Map(price === null ? [] : [[retailKey(null), price]])
const terms: fc.Arbitrary<ResellerTerms> = fc.record({
  discountBp: fc.integer({ min: 0, max: 10_000 }),
  markupMillionths: fc.option(fc.integer({ min: 1, max: 10_000_000 })),
  retail: fc.option(fc.record({ tiers, belowCost: fc.boolean() })).map(retail),
  priceLimits: fc.option(
    fc
      .tuple(fc.integer({ min: 1, max: 5_000_000 }), fc.integer({ min: 0, max: 5_000_000 }))
      .map(([fromMillionths, more]) => ({ fromMillionths, toMillionths: fromMillionths + more })),
  ),
  sellable: fc.boolean(),
  revision: fc.constant(null),
})
const figuresOf = (tiers: readonly Tier[], units: number, deal: ResellerTerms | null) =>
  pricing.figuresOf({ target: null, tiers }, units, deal)

/** The price of a unit, found another way than the code finds it. */
const unitMicros = (table: readonly Tier[], units: number): bigint => {
  let price = 0n
  for (const tier of table) if (units >= tier.from) price = BigInt(tier.unitPriceMicros)
  return price
}

/** `value` is `top / bottom`, rounded to the nearest whole number, halves up. */
const assertRounded = (value: number, top: bigint, bottom: bigint): void => {
  const doubledError = 2n * (BigInt(value) * bottom - top)
  assert.ok(doubledError > -bottom && doubledError <= bottom, `${value} is not ${top} / ${bottom} rounded`)
}

test('every amount is exact and rounded half up to a cent once', () => {
  fc.assert(
    fc.property(tiers, quantity, terms, (table, units, deal) => {
      const list = unitMicros(table, units) * BigInt(units)
      const figures = figuresOf(table, units, deal)
      assertRounded(figures.listCents, list, 10_000n)
      assertRounded(figures.reseller!.yourCostCents, list * BigInt(10_000 - deal.discountBp), 100_000_000n)
      const price = deal.retail.get(retailKey(null))
      const wanted =
        price === undefined
          ? list * BigInt(deal.markupMillionths ?? 1_000_000)
          : unitMicros(price.tiers, units) * BigInt(units) * 1_000_000n
      const { priceLimits } = deal
      const least = list * BigInt(priceLimits?.fromMillionths ?? 0)
      const most = priceLimits === null ? wanted : list * BigInt(priceLimits.toMillionths)
      const limited = wanted < least ? least : wanted > most ? most : wanted
      const cost = list * BigInt(10_000 - deal.discountBp) * 100n
      assertRounded(figures.amountCents, price?.belowCost || limited > cost ? limited : cost, 10_000_000_000n)
      assertRounded(figures.unitPriceCents, BigInt(figures.amountCents), BigInt(units))
      assert.equal(figures.reseller!.customerCents, figures.amountCents)
      assert.equal(figures.reseller!.marginCents, figures.amountCents - figures.reseller!.yourCostCents)
    }),
  )
})

test('without reseller terms the amount is the list price, and no other figure is shown', () => {
  fc.assert(
    fc.property(tiers, quantity, (table, units) => {
      const figures = figuresOf(table, units, null)
      assert.equal(figures.amountCents, figures.listCents)
      assert.equal(figures.reseller, null)
    }),
  )
})

test('a reseller without terms pays and charges the list price', () => {
  fc.assert(
    fc.property(tiers, quantity, (table, units) => {
      const { listCents, amountCents, reseller } = figuresOf(table, units, defaultResellerTerms)
      assert.deepEqual(reseller, { yourCostCents: listCents, customerCents: amountCents, marginCents: 0 })
      assert.equal(amountCents, listCents)
    }),
  )
})

test('within a tier more units never cost less, and across tiers a unit never costs more', () => {
  fc.assert(
    fc.property(tiers, quantity, quantity, (table, one, other) => {
      const [fewer, more] = one < other ? [one, other] : [other, one]
      const tierOf = (units: number) => table.findLastIndex((tier) => tier.from <= units)
      const [a, b] = [figuresOf(table, fewer, null), figuresOf(table, more, null)]
      if (tierOf(fewer) === tierOf(more)) assert.ok(a.amountCents <= b.amountCents)
      assert.ok(unitMicros(table, more) <= unitMicros(table, fewer))
    }),
  )
})

test('a higher discount never costs the reseller more', () => {
  fc.assert(
    fc.property(tiers, quantity, terms, terms, (table, units, a, b) => {
      const [low, high] = a.discountBp < b.discountBp ? [a, b] : [b, a]
      const cost = (deal: ResellerTerms) => figuresOf(table, units, deal).reseller!.yourCostCents
      assert.ok(cost(high) <= cost(low))
    }),
  )
})

test('half a cent rounds up, and cost and price are rounded separately', () => {
  const table = [{ from: 1, unitPriceMicros: 5_000 }]
  assert.equal(figuresOf(table, 1, null).amountCents, 1)
  assert.equal(figuresOf([{ from: 1, unitPriceMicros: 4_999 }], 1, null).amountCents, 0)
  const dollar = [{ from: 1, unitPriceMicros: 1_000_000 }]
  const deal = { ...defaultResellerTerms, discountBp: 1_250, markupMillionths: 1_305_000 }
  // cost 0.875 dollars and price 1.305 dollars: both halves go up
  assert.deepEqual(figuresOf(dollar, 1, deal).reseller, {
    yourCostCents: 88,
    customerCents: 131,
    marginCents: 43,
  })
})

test('the retail price precedes the markup, and a margin is negative only where the reseller allows it', () => {
  const deal = (belowCost: boolean) => ({
    ...defaultResellerTerms,
    retail: retail({ tiers: atEveryQuantity(900_000), belowCost }),
    markupMillionths: 2_000_000,
  })
  const marginOf = (belowCost: boolean) => {
    const { amountCents, reseller } = figuresOf(atEveryQuantity(1_000_000), 10, deal(belowCost))
    return [amountCents, reseller!.marginCents]
  }
  assert.deepEqual(marginOf(true), [900, -100])
  assert.deepEqual(marginOf(false), [1_000, 0])
})

test('a retail price applies to its country and period only', () => {
  const tiers = [{ from: 1, unitPriceMicros: 1_000_000 }]
  const at = (country: string, periodDays: number) => {
    const target = { country, periodDays, carrierId: null, service: null, rotationMinutes: null }
    const deal = {
      ...defaultResellerTerms,
      retail: new Map([
        [
          retailKey({ country: 'USA', periodDays: 30 }),
          { tiers: atEveryQuantity(2_500_000), belowCost: false },
        ],
      ]),
    }
    return pricing.figuresOf({ target, tiers }, 2, deal).amountCents
  }
  assert.deepEqual([at('USA', 30), at('USA', 90), at('DEU', 30)], [500, 200, 200])
})

test('the largest valid order is priced exactly', () => {
  const figures = figuresOf([{ from: 1, unitPriceMicros: 100_000_000 }], 100_000, {
    ...defaultResellerTerms,
    markupMillionths: 1_000_001,
  })
  assert.equal(figures.listCents, 1_000_000_000)
  assert.equal(figures.amountCents, 1_000_001_000)
})

test('a gateway product is priced by the tier of its quantity', () => {
  const product = demoProduct('residential-premium')
  const at = (units: number) => {
    const priced = quote(product, { quantity: units, rateRequest: null, terms: null })
    assert.ok(priced.ok)
    return priced.value
  }
  assert.equal(at(9).amountCents, 4_950)
  assert.equal(at(10).amountCents, 4_900)
  assert.deepEqual(at(10), {
    productId: 'residential-premium',
    quantity: 10,
    target: null,
    unitPriceCents: 490,
    amountCents: 4_900,
    listCents: 4_900,
    reseller: null,
    currency: 'USD',
    billingType: 'PAYG',
  })
})

for (const wrong of [
  undefined,
  null,
  '5',
  0,
  -1,
  1.5,
  5_001,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  2 ** 53,
  [5],
])
  test(`a quantity of ${inspect(wrong)} is refused with the bounds`, () => {
    const refused = quote(demoProduct('residential-premium'), {
      quantity: wrong,
      rateRequest: null,
      terms: null,
    })
    assert.deepEqual(refused, {
      ok: false,
      refusal: { code: 'invalid_quantity', message: 'quantity must be a whole number of GB from 1 to 5000' },
    })
  })

test('the smallest IPv6 order is 10, and an extension may keep fewer', () => {
  const product = demoProduct('ipv6-datacenter')
  const wanted = { country: 'USA', periodDays: 30, carrierId: null, service: null, rotationMinutes: null }
  assert.equal(quote(product, { quantity: 9, rateRequest: wanted, terms: null }).ok, false)
  const quoted = quote(product, { quantity: 9, rateRequest: wanted, terms: null, minQuantity: 1 })
  assert.ok(quoted.ok)
  assert.equal(quoted.value.amountCents, 108)
})
