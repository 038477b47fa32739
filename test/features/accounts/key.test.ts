import assert from 'node:assert/strict'
import { test } from 'node:test'
import { apiKeyForm } from '../../../src/features/accounts/api-key.ts'
import fc, { runs } from '../../support/fast-check.ts'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const keys = fc.constant(null).map(apiKeyForm.generate)

test('a new key has the right form and is accepted', () => {
  for (let n = 0; n < 200; n += 1) {
    const key = apiKeyForm.generate()
    assert.match(key, /^fbx_[0-9A-Za-z]{40}$/)
    assert.equal(apiKeyForm.parse(key), key)
    assert.equal(apiKeyForm.displayPrefixOf(key), key.slice(0, 8))
  }
})

test('invariant: a key with any one character changed is refused', () => {
  fc.assert(
    fc.property(keys, fc.nat(43), fc.constantFrom(...base62, '_', '-', ' ', 'é'), (key, at, character) => {
      fc.pre(key[at] !== character)
      assert.equal(apiKeyForm.parse(key.slice(0, at) + character + key.slice(at + 1)), null)
    }),
    { numRuns: runs(2_000) },
  )
})

test('invariant: a key with two neighbours swapped, one character lost or one added is refused', () => {
  fc.assert(
    fc.property(keys, fc.integer({ min: 4, max: 42 }), (key, at) => {
      fc.pre(key[at] !== key[at + 1])
      assert.equal(apiKeyForm.parse(key.slice(0, at) + key[at + 1] + key[at] + key.slice(at + 2)), null)
      assert.equal(apiKeyForm.parse(key.slice(0, at) + key.slice(at + 1)), null)
      assert.equal(apiKeyForm.parse(key.slice(0, at) + key[at] + key.slice(at)), null)
    }),
  )
})

test('only a key is accepted, no other text', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.string({ unit: 'binary' })),
      (text) => apiKeyForm.parse(text) === null,
    ),
  )
  const key = apiKeyForm.generate()
  for (const text of [
    '',
    'fbx_',
    `${key}\n`,
    ` ${key}`,
    `${key}0`,
    key.toUpperCase(),
    key.replace('fbx_', 'FBX_'),
  ])
    assert.equal(apiKeyForm.parse(text), null)
})

test('the form of keys is the same in every release', () => {
  const key = 'fbx_0123456789ABCDEFGHIJKLMNOPQRSTUVWX3f3j8p'
  assert.equal(apiKeyForm.parse(key), key)
  assert.equal(
    apiKeyForm.hash(apiKeyForm.parse(key)!).toString('hex'),
    '74a375cb1d7ad045b814a1b89c9bcde03121d7b1b0024518e9441dad595e4bc1',
  )
})

test('every character occurs about equally often', () => {
  const counts = new Map<string, number>()
  for (let n = 0; n < 2_000; n += 1)
    for (const character of apiKeyForm.generate().slice(4, 38))
      counts.set(character, (counts.get(character) ?? 0) + 1)
  assert.equal(counts.size, base62.length)
  const expected = (2_000 * 34) / base62.length
  const chiSquared = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
  // 61 degrees of freedom: one honest run in ten million is above 130.
  assert.ok(chiSquared < 130, `chi squared ${chiSquared}`)
})
