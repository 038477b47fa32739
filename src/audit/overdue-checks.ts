import type { Clock } from '../kernel/clock.ts'
import { sealStream } from '../kernel/streams.ts'
import type { EventCodec } from '../platform/eventstore/codec.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import { parseSealEvent, sealKeyOf, walkKeys } from './seals/seals-file.ts'

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

/** Seals and rotations that are read: a seal is behind the last one only after changes of the key, or forged ones. */
const lastSeals = 10

/**
 * The position of the last seal, or change of the key, that our key or a neighbour of it signed; 0: none. Any process of
 * the service's role can append other events to the stream.
 */
const signedSealPosition = async (log: EventLog, seed: Uint8Array): Promise<number> => {
  const last = await log.lastOf(sealStream)
  if (last === null) return 0
  const walk = walkKeys(sealKeyOf(seed).publicKey)
  let signedPosition = 0
  let sealedThrough = 0
  for await (const { type, data, position } of log.readStream(
    sealStream,
    Math.max(0, last.revision + 1 - lastSeals),
  )) {
    const event = parseSealEvent(type, data)
    if (event === null || walk.step(event) !== null) continue
    // A copy of a seal covers nothing more. The new key repeats the seal before the change of the key.
    if (event.type === 'LogSealed' && event.data.throughOrdinal <= sealedThrough) continue
    sealedThrough = event.type === 'LogSealed' ? event.data.throughOrdinal : event.data.sealedOrdinal - 1
    signedPosition = position
  }
  return walk.trusted() ? signedPosition : 0
}

/**
 * How long the first event after the last signed seal has waited for the next seal, milliseconds; null without such an
 * event.
 */
export const unsealedWait = async (
  dependencies: WaitDependencies & { readonly keys: { readonly seal: Uint8Array } },
): Promise<number | null> =>
  waitAfter(dependencies, await signedSealPosition(dependencies.log, dependencies.keys.seal))
