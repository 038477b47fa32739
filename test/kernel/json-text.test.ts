import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isStorable, isStorableJson } from '../../src/kernel/json-text.ts'
import fc from '../support/fast-check.ts'

const pieces = ['\\', 'u0000', 'ud800', '\0', '\ud83d', '\ude00', '\u{1f600}', '\u0001', '"', '\n', 'a']
const text = fc.array(fc.constantFrom(...pieces), { maxLength: 6 }).map((parts) => parts.join(''))

test('a JSON value can be stored exactly if each of its texts and names can', () => {
  fc.assert(
    fc.property(text, text, (name, value) => {
      const json = JSON.stringify({ first: 1, [name]: [value] })
      assert.equal(isStorableJson(json), isStorable(name) && isStorable(value), json)
    }),
    { numRuns: 5_000 },
  )
})
