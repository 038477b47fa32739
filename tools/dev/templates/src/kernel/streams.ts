import type { AccountId } from '../../../../../src/kernel/ids.ts'
import type { StreamName } from '../../../../../src/kernel/streams.ts'

const streamName = (name: string): StreamName => name as StreamName

/** Stands for the line that `npm run new -- event` prints for src/kernel/streams.ts. */
export const sampleThingStream = (account: AccountId): StreamName => streamName(`samplething-${account}`)
