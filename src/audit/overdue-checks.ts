import type { Clock } from '../kernel/clock.ts'
import { sealStream } from '../kernel/streams.ts'
import type { EventCodec } from '../platform/eventstore/codec.ts'
import type { EventLog } from '../platform/eventstore/port.ts'

type WaitDependencies = {
  readonly log: EventLog
  readonly clock: Clock
  readonly codec: Pick<EventCodec, 'decode'>
}

/** The delay of a check that is not reported yet, milliseconds. */
export const lateMs = 60_000

/** The age of the first event after a position, milliseconds; null when there is none. */
export const waitAfter = async (
  { log, clock, codec }: WaitDependencies,
  position: number,
): Promise<number | null> => {
  const [first] = await log.readAll(position, 1)
  if (first === undefined) return null
  return clock() - Date.parse(codec.decode(first).metadata.recordedAt)
}

/**
 * How long the first event after the last seal has waited for the next seal, milliseconds; null without such an event.
 */
export const unsealedWait = async (dependencies: WaitDependencies): Promise<number | null> =>
  waitAfter(dependencies, (await dependencies.log.lastOf(sealStream))?.position ?? 0)
