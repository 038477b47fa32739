import type { LogSealed } from '../../domain/seals/events.ts'
import { type Clock, isoTime, isTime, maxAheadMs } from '../../kernel/clock.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { sealStream } from '../../kernel/streams.ts'
import { type StoredTimes, storedTimes } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'

/**
 * The rule that an event violates when its time of recording is in the future. Operators acknowledge it by this name.
 */
export const timeRule = 'recorded-in-its-time'

type Seal = { readonly throughOrdinal: number; readonly atMs: number }

/**
 * Seals in the order of the log. Seals without a valid time or ordinal are skipped: the check of seals reports them.
 */
const sealsOf = async function* (log: Pick<EventLog, 'readStream'>): AsyncGenerator<Seal> {
  for await (const { type, data } of log.readStream(sealStream)) {
    if (type !== 'LogSealed') continue
    const { throughOrdinal, sealedAt } = parseUntrustedObject<LogSealed['data']>(data) ?? {}
    const atMs = Date.parse(String(sealedAt))
    if (throughOrdinal !== undefined && Number.isSafeInteger(throughOrdinal) && isTime(atMs))
      yield { throughOrdinal, atMs }
  }
}

export type CheckedTimes = StoredTimes & {
  /** The time is later than the clock. */
  readonly isFuture: boolean
  /** Null when the time of recording was not in the future. */
  readonly problem: string | null
}

/**
 * Compares the time of each event with a clock and with the first seal that covers it. The sealer's clock was right,
 * and no event is recorded after its seal (docs/decisions/0072). Call the result with every event of the log, in order.
 * @param clock null: compare with the seals only
 */
export const createTimeCheck = (log: Pick<EventLog, 'readStream'>, clock: Clock | null) => {
  const seals = sealsOf(log)
  const upcomingSeals: Seal[] = []
  let readThroughOrdinal = 0

  /** Reads seals up to the first one that covers this ordinal. */
  const readSeals = async (ordinal: number): Promise<void> => {
    while (readThroughOrdinal < ordinal) {
      const { value, done } = await seals.next()
      if (done) return
      readThroughOrdinal = Math.max(readThroughOrdinal, value.throughOrdinal)
      upcomingSeals.push(value)
    }
  }
  const problemOf = (atMs: number, nowMs: number, ordinal: number): string | null => {
    if (atMs > nowMs + maxAheadMs)
      return `it was recorded at ${isoTime(atMs)}, and it is ${isoTime(nowMs)} now`
    while (upcomingSeals[0] !== undefined && upcomingSeals[0].throughOrdinal < ordinal) upcomingSeals.shift()
    const [seal] = upcomingSeals
    return seal === undefined || atMs <= seal.atMs + maxAheadMs
      ? null
      : `it was recorded at ${isoTime(atMs)}, and the seal of the events up to ${seal.throughOrdinal} was made at ${isoTime(seal.atMs)}, before that`
  }

  /** @param firstOrdinal the ordinal of the first event */
  return async (events: readonly StoredEvent[], firstOrdinal: number): Promise<readonly CheckedTimes[]> => {
    await readSeals(firstOrdinal + events.length - 1)
    const nowMs = clock?.() ?? Number.POSITIVE_INFINITY
    return events.map(({ metadata }, index) => {
      const times = storedTimes(metadata)
      const atMs = times.decidedMs ?? times.recordedMs
      return {
        ...times,
        isFuture: atMs > nowMs + maxAheadMs,
        problem: problemOf(atMs, nowMs, firstOrdinal + index),
      }
    })
  }
}
