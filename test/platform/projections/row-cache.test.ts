import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Row } from '../../../src/platform/projections/definition.ts'
import { createRowCache } from '../../../src/platform/projections/row-cache.ts'
import fc, { runs } from '../../support/fast-check.ts'

const steps = fc.array(
  fc.record({
    act: fc.constantFrom('put', 'put', 'remove', 'find', 'find', 'leave out'),
    table: fc.constantFrom('orders', 'plans'),
    key: fc.integer({ min: 0, max: 30 }).map(String),
  }),
  { maxLength: 200 },
)

test('a cached row is correct, however small the cache; an unknown row is loaded', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 40 }), fc.boolean(), (list, maxRows, complete) => {
      const cache = createRowCache({ maxRows, complete })
      const stored = new Map<string, Row>()
      for (const [n, { act, table, key }] of list.entries()) {
        const at = `${table} ${key}`
        const rows = cache.of(table)
        if (act === 'find') {
          const row = stored.get(at) ?? null
          const found = rows.find(key)
          if (found === undefined) rows.put(key, row)
          else assert.deepEqual(found, row)
        } else if (act === 'remove') {
          stored.delete(at)
          rows.put(key, null)
        } else {
          const row = { n }
          stored.set(at, row)
          if (act === 'put') rows.put(key, row)
          else rows.leaveOut(key)
        }
      }
    }),
    { numRuns: runs(400) },
  )
})

test('while all rows fit none is loaded, and later only evicted ones', () => {
  const cache = createRowCache({ maxRows: 100, complete: true })
  const rows = cache.of('orders')
  const names = Array.from({ length: 500 }, (_, n) => `order ${n}`)
  for (const name of names.slice(0, 66)) rows.put(name, { name })
  for (const name of names.slice(0, 66)) assert.deepEqual(rows.find(name), { name })
  for (const name of names.slice(66)) assert.equal(rows.find(name), null)
  for (const name of names) rows.put(name, { name })
  const evicted = names.filter((name) => rows.find(name) === undefined)
  assert.ok(evicted.length >= 400, `${evicted.length} of 500 were let go`)
  const unknown = names.filter((name) => rows.find(`no ${name}`) === undefined)
  assert.ok(unknown.length < 10, `${unknown.length} rows that never existed must be loaded`)
})
