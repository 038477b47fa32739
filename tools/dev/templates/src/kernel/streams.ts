import type { AccountId } from '../../../../../src/kernel/ids.ts'
import type { StreamName } from '../../../../../src/kernel/streams.ts'

const streamName = (name: string): StreamName => name as StreamName

/** Only for the compilation of this template. `npm run new -- event` prints this line for src/kernel/streams.ts. */
export const sampleThingStream = (account: AccountId): StreamName => streamName(`samplething-${account}`)
