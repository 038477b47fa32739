import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  basisPoints,
  centsToMicros,
  formatDollars,
  microsToCentsFloor,
  microsToCentsHalfUp,
  millionths,
  multiplyToCents,
  parseDecimal,
  parseDollarsToMicros,
  parsePercentToBasisPoints,
  shareOfCents,
} from '../../src/kernel/money.ts'
import fc from '../support/fast-check.ts'

const cents = fc.integer({ min: 0, max: 900_000_000_000 })

test('cents are converted to micro-dollars and back unchanged', () => {
  fc.assert(fc.property(cents, (value) => assert.equal(microsToCentsFloor(centsToMicros(value)), value)))
})

test('a balance is rounded down for display, also below zero', () => {
  assert.equal(microsToCentsFloor(19_999), 1)
  assert.equal(microsToCentsFloor(-1), -1)
})

test('half a cent rounds up and less rounds down', () => {
  assert.equal(microsToCentsHalfUp(4_999), 0)
  assert.equal(microsToCentsHalfUp(5_000), 1)
  assert.equal(microsToCentsHalfUp(15_000), 2)
})

test('rounding moves an amount by at most half a cent', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (amount) => {
      const off = BigInt(microsToCentsHalfUp(amount)) * 10_000n - BigInt(amount)
      assert.ok(off > -5_000n && off <= 5_000n)
    }),
  )
})

test('a discount and a markup are computed exactly and rounded once', () => {
  assert.equal(multiplyToCents(centsToMicros(999), basisPoints(10_000 - 1_250)), 874)
  assert.equal(multiplyToCents(centsToMicros(100), millionths(1_300_000)), 130)
  // 33.33 % of a cent and a half, three times: rounding each step would lose what one rounding keeps.
  assert.equal(multiplyToCents(15_000, basisPoints(3_333), millionths(3_000_000)), 1)
})

test('the order of factors and a factor of one change nothing', () => {
  const factor = fc.oneof(
    fc.integer({ min: 0, max: 10_000 }).map(basisPoints),
    fc.integer({ min: 0, max: 5_000_000 }).map(millionths),
  )
  const amount = fc.integer({ min: 0, max: 1_000_000_000_000 })
  fc.assert(
    fc.property(amount, factor, factor, (micros, first, second) => {
      const product = multiplyToCents(micros, first, second)
      assert.equal(product, multiplyToCents(micros, second, first, basisPoints(10_000)))
    }),
  )
})

test('a share and its rest add up to the whole, except for one cent of two roundings', () => {
  fc.assert(
    fc.property(cents, fc.integer({ min: 0, max: 10_000 }), (whole, points) => {
      const share = multiplyToCents(centsToMicros(whole), basisPoints(points))
      const rest = multiplyToCents(centsToMicros(whole), basisPoints(10_000 - points))
      assert.ok(share + rest - whole === 0 || share + rest - whole === 1)
    }),
  )
})

test('the equal parts of any amount add up to it, and none is off by a cent or more', () => {
  fc.assert(
    fc.property(fc.nat(5_000_000), fc.integer({ min: 1, max: 500 }), (amountCents, quantity) => {
      let sum = 0
      for (let n = 0; n < quantity; n += 1) {
        const part = shareOfCents(amountCents, n + 1, quantity) - shareOfCents(amountCents, n, quantity)
        assert.ok(Math.abs(part - amountCents / quantity) < 1)
        sum += part
      }
      assert.equal(sum, amountCents)
    }),
  )
})

test('a number that is not a safe integer is a bug, never money', () => {
  for (const value of [0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])
    assert.throws(() => centsToMicros(value), RangeError)
  assert.throws(() => centsToMicros(Number.MAX_SAFE_INTEGER), RangeError)
  assert.throws(() => microsToCentsHalfUp(-1), RangeError)
})

test('decimal texts are read exactly', () => {
  assert.equal(parseDecimal('12.34', 2), 1_234)
  assert.equal(parseDecimal('12.3', 2), 1_230)
  assert.equal(parseDecimal('12', 2), 1_200)
  assert.equal(parseDollarsToMicros('0.0030'), 3_000)
  assert.equal(parsePercentToBasisPoints('12.5'), 1_250)
  assert.equal(parseDecimal('1.30', 6), 1_300_000)
})

test('a decimal text of any other form is refused, and never rounded', () => {
  for (const text of [
    '',
    '.5',
    '5.',
    '-1',
    '+1',
    '1e3',
    '1,000',
    ' 1',
    '0x10',
    '1.234',
    'NaN',
    '٣',
    '99999999999999999',
  ])
    assert.equal(parseDecimal(text, 2), null, text)
})

test('printed dollars are read back as the same cents', () => {
  fc.assert(
    fc.property(cents, (value) => assert.equal(parseDecimal(formatDollars(value).slice(1), 2), value)),
  )
  assert.equal(formatDollars(-5), '-$0.05')
  assert.equal(formatDollars(0), '$0.00')
})
