import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rowFields } from '../../../src/platform/http/report-rows.ts'
import fc from '../../support/fast-check.ts'

test('a report is complete exactly if its answer has as many rows as there are', () => {
  const small = fc.integer({ min: 0, max: 4 })
  fc.assert(
    fc.property(small, small, small, (total, offset, atLeastNone) => {
      const limit = atLeastNone + 1
      const rows = Array.from({ length: total }).slice(offset, offset + limit)
      assert.equal(rowFields(total, { limit, offset }).complete, rows.length === total)
    }),
  )
})
