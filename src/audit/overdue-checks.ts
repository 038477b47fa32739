import type { Clock } from '../kernel/clock.ts'
import { sealStream } from '../kernel/streams.ts'
import type { EventCodec } from '../platform/eventstore/codec.ts'
import type { EventLog } from '../platform/eventstore/port.ts'

type Place = { readonly log: EventLog; readonly clock: Clock; readonly codec: Pick<EventCodec, 'decode'> }

/** What a check may be late by before it is reported, milliseconds. */
export const lateMs = 60_000

/** How long the first event after a position has been in the log, milliseconds; null where none is after it. */
export const waitAfter = async ({ log, clock, codec }: Place, position: number): Promise<number | null> => {
  const [first] = await log.readAll(position, 1)
  if (first === undefined) return null
  return clock() - Date.parse(codec.decode(first).metadata.recordedAt)
}

/** How long the first event after the last seal waits for the next, milliseconds; null where none does. */
export const unsealedWait = async (place: Place): Promise<number | null> =>
  waitAfter(place, (await place.log.lastOf(sealStream))?.position ?? 0)
