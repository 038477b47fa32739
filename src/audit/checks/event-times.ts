import type { LogSealed } from '../../domain/seals/events.ts'
import { type Clock, isoTime, isTime, maxAheadMs } from '../../kernel/clock.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { sealStream } from '../../kernel/streams.ts'
import { type StoredTimes, storedTimes } from '../../platform/eventstore/event-times.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'

/** The rule that an event violates which was recorded at a time that had not come; an operator acknowledges it by this name. */
export const timeRule = 'recorded-in-its-time'

type Seal = { readonly throughOrdinal: number; readonly atMs: number }

/** Seals in the order of the log, without those that say no time or place: the check of seals reports these. */
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
  /** It is later than the clock. */
  readonly isFuture: boolean
  /** Null: it was recorded when that time had come. */
  readonly problem: string | null
}

/**
 * Compares the time of each event with a clock and with the first seal over it: the sealer's clock was right, and nothing is
 * recorded after it was sealed (docs/decisions/0072). To be called with each event of the log, in its order.
 * @param clock null: only the seals are compared
 */
export const createTimeCheck = (log: Pick<EventLog, 'readStream'>, clock: Clock | null) => {
  const seals = sealsOf(log)
  const ahead: Seal[] = []
  let readThrough = 0

  /** Reads seals up to the first over an event of this ordinal. */
  const readSeals = async (ordinal: number): Promise<void> => {
    while (readThrough < ordinal) {
      const { value, done } = await seals.next()
      if (done) return
      readThrough = Math.max(readThrough, value.throughOrdinal)
      ahead.push(value)
    }
  }
  const problemOf = (atMs: number, nowMs: number, ordinal: number): string | null => {
    if (atMs > nowMs + maxAheadMs)
      return `it was recorded at ${isoTime(atMs)}, and it is ${isoTime(nowMs)} now`
    while (ahead[0] !== undefined && ahead[0].throughOrdinal < ordinal) ahead.shift()
    const [seal] = ahead
    return seal === undefined || atMs <= seal.atMs + maxAheadMs
      ? null
      : `it was recorded at ${isoTime(atMs)}, and the seal of the events up to ${seal.throughOrdinal} was made at ${isoTime(seal.atMs)}, before that`
  }

  /** @param firstOrdinal of the first of them */
  return async (events: readonly StoredEvent[], firstOrdinal: number): Promise<readonly CheckedTimes[]> => {
    await readSeals(firstOrdinal + events.length - 1)
    const nowMs = clock?.() ?? Number.POSITIVE_INFINITY
    return events.map(({ metadata }, at) => {
      const times = storedTimes(metadata)
      const atMs = times.decidedMs ?? times.recordedMs
      return {
        ...times,
        isFuture: atMs > nowMs + maxAheadMs,
        problem: problemOf(atMs, nowMs, firstOrdinal + at),
      }
    })
  }
}
