import { type Decision, decided, type Fold, refused } from '../../../../../../src/kernel/decider.ts'
import { defineEvent, type EventOf } from '../../../../../../src/kernel/event.ts'
import { text } from '../../../../../../src/kernel/event-fields.ts'
import type { AccountId } from '../../../../../../src/kernel/ids.ts'
import { sampleThingStream } from '../../kernel/streams.ts'

export const maxSampleThingLength = 64

/** `samplething-{account}`: the sample thing of one account. */
export const sampleThingSet = defineEvent('SampleThingSet', {
  stream: 'samplething-{account}',
  means: 'The account set its sample thing.',
  fields: { value: text(`1 to ${maxSampleThingLength} characters; it names no person`) },
})

export const sampleThingEventDefinitions = [sampleThingSet] as const
export type SampleThingEvent = EventOf<(typeof sampleThingEventDefinitions)[number]>

/** Null before the first event. */
export type SampleThingState = string | null

const sampleThingFold: Fold<SampleThingState, SampleThingEvent> = {
  name: 'sample-thing',
  version: 1,
  initial: null,
  evolve: (_, event) => event.data.value,
}

export const sampleThingRef = (account: AccountId) => ({
  stream: sampleThingStream(account),
  fold: sampleThingFold,
})

export type SampleThingRefusal = { readonly code: 'invalid_sample_thing' }

/** Sets the sample thing. The same value again gives no event. Refusal: `invalid_sample_thing`. */
export const decideSampleThing = (
  state: SampleThingState,
  value: string,
): Decision<SampleThingEvent, SampleThingRefusal> => {
  if (value.trim() === '' || value.length > maxSampleThingLength)
    return refused({ code: 'invalid_sample_thing' })
  return value === state ? decided() : decided({ type: 'SampleThingSet', data: { value } })
}
