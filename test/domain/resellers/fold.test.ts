import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyTerms, evolveTerms } from '../../../src/domain/resellers/fold.ts'
import fc from '../../support/fast-check.ts'

test('retail prices are sorted by product, country and period, with one price for each', () => {
  const price = fc.record({
    productId: fc.constantFrom('isp-static', 'residential-premium'),
    country: fc.constantFrom(null, 'DEU', 'USA'),
    periodDays: fc.constantFrom(null, 7, 30),
    tiers: fc.integer({ min: 1, max: 9 }).map((unitPriceMicros) => [{ from: 1, unitPriceMicros }]),
    belowCost: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(price), (prices) => {
      const { retail } = prices.reduce(
        (terms, data) => evolveTerms(terms, { type: 'RetailPriceSet', data } as never),
        emptyTerms,
      )
      const keyOf = ({ productId, country, periodDays }: (typeof retail)[number]): string =>
        [productId, country ?? '', String(periodDays ?? 0).padStart(3, '0')].join(' ')
      const keys = retail.map(keyOf)
      assert.deepEqual(keys, [...new Set(keys)].sort())
      for (const each of retail)
        assert.deepEqual(
          each,
          prices.findLast((one) => keyOf(one) === keyOf(each)),
        )
    }),
  )
})
