import { describe, test } from 'node:test'
import type { AccountId } from '../../../../../../src/kernel/ids.ts'
import {
  decideSampleThing,
  maxSampleThingLength,
  type SampleThingState,
  sampleThingRef,
} from '../../../../../../tools/dev/templates/src/domain/sample-area/sample-thing.ts'
import { decider } from '../../../../../support/decider.ts'

const nothing = decider(sampleThingRef('acc_1' as AccountId).fold)
const set = (value: string) => (state: SampleThingState) => decideSampleThing(state, value)

describe('the sample thing of an account', () => {
  test('is set and changed', () => {
    for (const state of [nothing, nothing.given(set('one'))])
      state.when(set('two')).thenEvents({ type: 'SampleThingSet', data: { value: 'two' } })
  })

  test('gets no event for the value that it has', () => {
    nothing.given(set('one')).when(set('one')).thenEvents()
  })

  test('is refused if it is blank or too long', () => {
    for (const value of ['', ' ', 'x'.repeat(maxSampleThingLength + 1)])
      nothing.given(set('one')).when(set(value)).thenRefused({ code: 'invalid_sample_thing' })
    nothing.when(set('x'.repeat(maxSampleThingLength))).thenEvents('SampleThingSet')
  })
})
