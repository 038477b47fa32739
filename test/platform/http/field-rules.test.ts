import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { z } from 'zod'
import {
  allOf,
  either,
  equals,
  given,
  not,
  someOf,
  when,
  withRule,
} from '../../../src/platform/http/field-rules.ts'
import { jsonSchemaOf } from '../../../src/platform/http/json-schema.ts'

const fields = z.strictObject({
  a: z.string().nullish(),
  b: z.string().nullish(),
  kind: z.string().nullish(),
})
const values = [undefined, null, 'x', 'y']
const bodies = values.flatMap((a) => values.flatMap((b) => values.map((kind) => ({ a, b, kind }))))

const [hasA, hasB] = [given('a', 'string'), given('b', 'string')]
const rules = {
  'either of two fields': [either(hasA, hasB), { a: 'x', b: null }, { a: 'x', b: 'x' }],
  'a field that needs another': [when(hasA, hasB), { a: null }, { a: 'x', b: null }],
  'a field that a value needs': [when(equals('kind', 'x'), hasA), { kind: 'y' }, { kind: 'x' }],
  'a field that only a value takes': [
    when(hasA, equals('kind', 'x'), not(equals('kind', 'x'))),
    { a: 'x', kind: 'x' },
    { kind: 'x' },
  ],
  'fields that exclude each other': [when(hasA, allOf([hasB, not(equals('kind', 'x'))])), {}, { a: 'x' }],
  'one of some fields': [someOf([hasA, hasB, given('kind', 'string')]), { b: 'x' }, { a: null }],
} as const

describe('Rules over several fields of a body', () => {
  for (const [name, [rule, good, bad]] of Object.entries(rules))
    test(`are the same in the check and in the interface description: ${name}`, () => {
      const schema = withRule(fields, rule, 'must fit')
      const described = new Ajv2020({ strict: false }).compile(jsonSchemaOf(schema, 'input'))
      assert.ok(schema.safeParse(good).success)
      assert.deepEqual(
        schema.safeParse(bad).error?.issues.map(({ message }) => message),
        ['must fit'],
      )
      for (const body of bodies) {
        const sent: unknown = JSON.parse(JSON.stringify(body))
        assert.equal(schema.safeParse(sent).success, described(sent), JSON.stringify(sent))
      }
    })
})
