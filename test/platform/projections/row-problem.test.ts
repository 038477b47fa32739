import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rowProblem } from '../../../src/platform/projections/definition.ts'
import type { Table } from '../../../src/platform/projections/read-model.ts'

const table: Table = { name: 'facts', columns: { facts: { type: 'jsonb' } }, key: ['facts'], indexes: [] }

test('a row whose JSON has a text that Postgres refuses is a problem', () => {
  const problemOf = (facts: unknown) => rowProblem(table, { facts })
  for (const facts of ['text', { name: ['text', 1, null] }, 'a pair \u{1f600}'])
    assert.equal(problemOf(facts), null)
  for (const refused of ['a\0b', 'half \ud800', '\udfff half'])
    for (const facts of [refused, [refused], { name: refused }, { [refused]: 1 }])
      assert.notEqual(problemOf(facts), null, JSON.stringify(facts))
})
