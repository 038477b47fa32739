import { maxAheadMs } from '../../../kernel/clock.ts'
import { createCodec } from '../../../platform/eventstore/codec.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { StoredEvent } from '../../../platform/eventstore/port.ts'
import { dataProblem } from '../dictionary.ts'
import { laterThan } from '../past-times.ts'

/** An event of the log with its ordinal, and what it was read as. */
export type ReadEvent = {
  readonly stored: StoredEvent
  readonly ordinal: number
  /** Null: it cannot be read, and `problem` says why. */
  readonly event: RecordedEvent | null
  /** Also of an event that can be read, and whose fields are not those of its kind; null when nothing is wrong. */
  readonly problem: string | null
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Metadata that every event has; null when it does. */
const metadataProblem = (metadata: unknown): string | null => {
  if (!isObject(metadata)) return 'its metadata is no JSON object'
  const { correlationId, causationId, actor, recordedAt } = metadata
  if (typeof correlationId !== 'string') return 'its metadata has no correlation id'
  if (causationId !== null && typeof causationId !== 'string') return 'its causation id is no text'
  if (!isObject(actor) || !['key', 'session', 'operator', 'system'].includes(actor.kind as string))
    return 'its metadata names no actor'
  if (typeof recordedAt !== 'string' || Number.isNaN(Date.parse(recordedAt)))
    return 'its metadata has no time of recording'
  return null
}

/** What an event says has happened, and was to come when it was recorded; null when nothing is. */
const futureIn = (event: RecordedEvent): string | null => {
  const { recordedAt } = event.metadata
  const later = laterThan(event, new Date(Date.parse(recordedAt) + maxAheadMs).toISOString())
  return later && `its ${later.field} is ${later.at}, and it was recorded at ${recordedAt}, before that`
}

export type EventReader = {
  /** @param firstOrdinal that of the first of them */
  read(events: readonly StoredEvent[], firstOrdinal: number): readonly ReadEvent[]
}

/** Reads events, those too that are none of ours: of each of these it says why. */
export const createEventReader = (): EventReader => {
  const { decode } = createCodec()
  const decoded = (stored: StoredEvent): RecordedEvent | string => {
    try {
      return decode(stored)
    } catch (error) {
      return `its texts are no JSON (${(error as Error).message})`
    }
  }
  const readOne = (stored: StoredEvent, ordinal: number): ReadEvent => {
    const event = decoded(stored)
    const unreadable = (problem: string): ReadEvent => ({
      stored,
      ordinal,
      event: null,
      problem: `it cannot be read: ${problem}`,
    })
    if (typeof event === 'string') return unreadable(event)
    if (!isObject(event.data)) return unreadable('its data is no JSON object')
    const problem = metadataProblem(event.metadata)
    return problem === null
      ? { stored, ordinal, event, problem: dataProblem(event.type, event.data) ?? futureIn(event) }
      : unreadable(problem)
  }
  return { read: (events, firstOrdinal) => events.map((event, at) => readOne(event, firstOrdinal + at)) }
}

export const readable = (events: readonly ReadEvent[]): readonly RecordedEvent[] =>
  events.map(({ event }) => event).filter((event) => event !== null)
