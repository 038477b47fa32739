import type { Cause } from '../../../../../../src/kernel/event.ts'
import type { AccountId } from '../../../../../../src/kernel/ids.ts'
import { type CommandRunner, handle, type Result } from '../../../../../../src/platform/commands/command.ts'
import {
  decideSampleThing,
  type SampleThingRefusal,
  sampleThingRef,
} from '../../domain/sample-area/sample-thing.ts'

/** Sets the sample thing of an account. Refusal: `invalid_sample_thing`. Rejects as the command runner does. */
export const setSampleThing = (
  runner: CommandRunner,
  account: AccountId,
  value: string,
  cause: Cause,
): Promise<Result<SampleThingRefusal>> =>
  handle(runner, { ...cause, name: 'set-sample-thing', account }, sampleThingRef(account), (state) =>
    decideSampleThing(state, value),
  )
