import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GatewayUnavailable } from '../../../src/features/payments/payment-port.ts'
import {
  type Decimal,
  parseDecimalText,
  parseExactJson,
  productMicros,
  shareMicros,
} from '../../../src/features/payments/provider-http.ts'
import fc from '../../support/fast-check.ts'

const decimal = (text: string): Decimal => parseDecimalText(text) ?? assert.fail(text)

test('a decimal is read exactly as written, and other texts are refused', () => {
  assert.deepEqual(decimal('25.00'), { digits: 2500n, scale: 2 })
  assert.deepEqual(decimal('1e-7'), { digits: 1n, scale: 7 })
  assert.deepEqual(decimal('12E+2'), { digits: 1200n, scale: 0 })
  assert.deepEqual(decimal('0.17070286'), { digits: 17070286n, scale: 8 })
  for (const text of ['', '.', '1.', '.5', '1,5', 'NaN', '1e999', '0x10', ' 1', '1e', '--1'])
    assert.equal(parseDecimalText(text), null, text)
})

test('a product and a share are exact and rounded down, for any figures', () => {
  const figure = fc.tuple(fc.bigInt({ min: 0n, max: 10n ** 12n }), fc.integer({ min: 0, max: 12 }))
  fc.assert(
    fc.property(figure, figure, figure, (a, b, c) => {
      const [x, y, z] = [a, b, c].map(([digits, scale]) => ({ digits, scale })) as [Decimal, Decimal, Decimal]
      const exact =
        (x.digits * y.digits * 1_000_000n * 10n ** 30n) / 10n ** BigInt(x.scale + y.scale) / 10n ** 30n
      if (exact > BigInt(Number.MAX_SAFE_INTEGER)) return
      assert.equal(BigInt(productMicros(x, y)), exact)
      if (z.digits === 0n) return
      const whole = x.digits * y.digits * 10n ** BigInt(z.scale) * 1_000_000n
      const share = whole / (z.digits * 10n ** BigInt(x.scale + y.scale))
      if (share <= BigInt(Number.MAX_SAFE_INTEGER)) assert.equal(BigInt(shareMicros(x, y, z)), share)
    }),
  )
})

test('an amount that exceeds any wallet is refused, not rounded', () => {
  assert.throws(() => productMicros(decimal('1e15'), decimal('1e15')), GatewayUnavailable)
  assert.throws(() => productMicros(decimal('-1'), decimal('1')), GatewayUnavailable)
})

test('numbers of a JSON text keep every digit', () => {
  assert.deepEqual(parseExactJson('{"a":0.10000000000000000001,"b":[1e-7],"c":"x","d":null}'), {
    a: '0.10000000000000000001',
    b: ['1e-7'],
    c: 'x',
    d: null,
  })
})
