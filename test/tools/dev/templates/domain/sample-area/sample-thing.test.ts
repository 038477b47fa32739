import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { applyDecided } from '../../../../../../src/kernel/decider.ts'
import type { AccountId } from '../../../../../../src/kernel/ids.ts'
import {
  decideSampleThing,
  maxSampleThingLength,
  type SampleThingState,
  sampleThingRef,
} from '../../../../../../tools/dev/templates/src/domain/sample-area/sample-thing.ts'
import { factsOf } from '../../../../../support/decisions.ts'

const { fold } = sampleThingRef('acc_1' as AccountId)

/** The state after these values were set, one after the other. */
const given = (...values: readonly string[]): SampleThingState =>
  values.reduce<SampleThingState>(
    (state, value) => applyDecided(fold, state, factsOf(decideSampleThing(state, value)), 0),
    fold.initial,
  )

describe('the sample thing of an account', () => {
  test('is set and changed', () => {
    for (const state of [given(), given('one')])
      assert.deepEqual(factsOf(decideSampleThing(state, 'two')), [
        { type: 'SampleThingSet', data: { value: 'two' } },
      ])
    assert.equal(given('one', 'two'), 'two')
  })

  test('gets no event for the value that it has', () => {
    assert.deepEqual(factsOf(decideSampleThing(given('one'), 'one')), [])
  })

  test('is refused if it is blank or too long', () => {
    const refusal = { outcome: 'refused', refusal: { code: 'invalid_sample_thing' } }
    for (const value of ['', ' ', 'x'.repeat(maxSampleThingLength + 1)])
      assert.deepEqual(decideSampleThing(given('one'), value), refusal, value)
    assert.equal(given('x'.repeat(maxSampleThingLength))?.length, maxSampleThingLength)
  })
})
