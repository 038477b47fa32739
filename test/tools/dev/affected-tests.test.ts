import assert from 'node:assert/strict'
import { test } from 'node:test'
import { affectedTests } from '../../../tools/dev/affected-tests.ts'

test('a changed file affects the tests that import it, the nearest first', () => {
  const tests = affectedTests(['src/kernel/money.ts'])
  assert.ok(tests.includes('test/kernel/money.test.ts'))
  assert.ok(tests.indexOf('test/kernel/money.test.ts') < tests.indexOf('test/docs/readme.test.ts'))
})

test('a changed page affects the tests that read it, and a removed file no longer affects itself', () => {
  assert.ok(affectedTests(['docs/tour.md']).includes('test/docs/tour.test.ts'))
  const removed = `test/removed.test.${'ts'}`
  assert.deepEqual(affectedTests([removed]), [])
})
