import assert from 'node:assert/strict'
import { test } from 'node:test'
import { violationsTable } from '../../../../../../src/audit/invariants/invariant.ts'
import type { RecordedEvent } from '../../../../../../src/kernel/event.ts'
import { sampleThingRules } from '../../../../../../tools/dev/templates/src/audit/invariants/sample-thing-invariant.ts'
import { foldInMemory } from '../../../../../projections/memory-rows.ts'

/** The violated rules of a log in which an account set these values, each with the position of its event. */
const violations = (...values: readonly string[]) => {
  const events = values.map((value, at) => ({
    type: 'SampleThingSet',
    id: `event ${at}`,
    stream: 'samplething-acc_1',
    position: at + 1,
    data: { value },
  })) as unknown as RecordedEvent[]
  const rows = foldInMemory(sampleThingRules, events, [violationsTable])
  return rows(violationsTable).map(({ rule, position }) => [rule, position])
}

test('an accepted value that differs from the one before violates no rule', () => {
  assert.deepEqual(violations('one', 'two', 'one'), [])
})

test('a repeated and an unaccepted value violate the rules of the sample thing', () => {
  assert.deepEqual(violations('one', 'one'), [['sample-thing-repeated', 2]])
  assert.deepEqual(violations('one', ' '), [['sample-thing-value', 2]])
})
