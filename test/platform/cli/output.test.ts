import assert from 'node:assert/strict'
import { test } from 'node:test'
import { table } from '../../../src/platform/cli/output.ts'

test('the headings of every table are in capitals, above aligned columns', () => {
  const rows = [
    { name: 'alice', credit: '$1.00' },
    { name: 'bo', credit: '$10.00' },
  ]
  assert.equal(
    table(rows, { 'own id': 'name', Credit: ({ credit }) => credit }),
    ['OWN ID  CREDIT', 'alice    $1.00', 'bo      $10.00'].join('\n'),
  )
  assert.equal(table([], {}, 'nothing'), 'nothing')
})
