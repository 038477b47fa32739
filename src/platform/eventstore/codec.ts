import { isoTime, maxAheadMs } from '../../kernel/clock.ts'
import type { DomainEvent, EventMetadata, RecordedEvent } from '../../kernel/event.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import type { EventLog, NewEvent, StoredEvent } from './port.ts'

/**
 * Conversions of events from old schemas to the current one, by stored type. The result has the same type or a new one.
 * A function receives every event of its stored type. It returns events of the current schema unchanged.
 */
export type Upcasters = Readonly<Record<string, (event: DomainEvent) => DomainEvent>>

export type EventCodec = {
  encode(event: DomainEvent, metadata: EventMetadata): Pick<NewEvent, 'type' | 'data' | 'metadata'>
  decode(stored: StoredEvent): RecordedEvent
}

const recorded = (stored: StoredEvent, metadata: EventMetadata, upcasters: Upcasters): RecordedEvent => {
  const { type, id, stream, revision, position } = stored
  const data: unknown = JSON.parse(stored.data)
  const upcast = Object.hasOwn(upcasters, type) ? upcasters[type] : undefined
  if (upcast === undefined) return { type, data, id, stream, revision, position, metadata }
  const event = upcast({ type, data })
  return { type: event.type, data: event.data, id, stream, revision, position, metadata }
}

/** Encodes an event for the log. JSON escapes NUL and lone surrogates, so every JSON value can be stored. */
export const encode = (event: DomainEvent, metadata: EventMetadata, id: string): NewEvent => ({
  id,
  type: event.type,
  data: JSON.stringify(event.data),
  metadata: JSON.stringify(storedMetadata(metadata)),
})

/**
 * Decodes a stored event.
 * @throws SyntaxError if its texts are not JSON: Farebox did not write the event
 */
export const decode = (stored: StoredEvent, upcasters: Upcasters = {}): RecordedEvent =>
  recorded(stored, readMetadata(JSON.parse(stored.metadata)), upcasters)

/**
 * `encode` and `decode` for many events. The events of one decision have equal metadata and follow one another, so the
 * last metadata are cached. Measured with four events per decision, 500 + 250 bytes each: decoding takes 0.9 µs per
 * event instead of 1.2, encoding 0.6 instead of 0.75.
 */
export const createCodec = (upcasters: Upcasters = {}): EventCodec => {
  let written: { readonly metadata: EventMetadata; readonly text: string } | null = null
  let read: { readonly text: string; readonly metadata: EventMetadata } | null = null
  return {
    encode: ({ type, data }, metadata) => {
      if (written?.metadata !== metadata)
        written = { metadata, text: JSON.stringify(storedMetadata(metadata)) }
      return { type, data: JSON.stringify(data), metadata: written.text }
    },
    decode: (stored) => {
      if (read?.text !== stored.metadata)
        read = { text: stored.metadata, metadata: readMetadata(JSON.parse(stored.metadata)) }
      return recorded(stored, read.metadata, upcasters)
    },
  }
}

/** Events per page. Two pages are in memory at most, however long the log is. */
const pageSize = 2_000

/**
 * Reads the events after position `start` up to and including position `lastPosition`, page by page. The next page is
 * read while the caller processes the current one.
 * @param limit events per page
 * @param start 0: from the first event of the log
 * @throws LogUnavailable
 */
export async function* readLog(
  log: Pick<EventLog, 'readAll'>,
  lastPosition: number,
  limit = pageSize,
  start = 0,
): AsyncGenerator<readonly StoredEvent[]> {
  const read = (after: number): Promise<readonly StoredEvent[]> => {
    const page = log.readAll(after, limit)
    // The page is awaited later. Without this, an earlier failure would count as an unhandled rejection.
    page.catch(() => undefined)
    return page
  }
  let next = read(start)
  for (;;) {
    const page = await next
    const last = page.at(-1)
    if (last === undefined) return
    const more = page.length === limit && last.position < lastPosition
    if (more) next = read(last.position)
    const events =
      last.position <= lastPosition ? page : page.filter(({ position }) => position <= lastPosition)
    if (events.length > 0) yield events
    if (!more) return
  }
}

/**
 * The times of an event that follows an event of `lastMs` (milliseconds) in its stream: now, or `lastMs` if the clock
 * of another process was slightly ahead. After an event of the future, the stream continues at the time of that event,
 * and the new event also stores the time of its decision (docs/decisions/0085).
 */
export const timesAfter = (
  lastMs: number,
  nowMs: number,
): Pick<EventMetadata, 'recordedAt' | 'continuesAt'> => {
  if (lastMs <= nowMs + maxAheadMs) return { recordedAt: isoTime(Math.max(lastMs, nowMs)) }
  return { recordedAt: isoTime(nowMs), continuesAt: isoTime(lastMs) }
}

/** The time of a stream after this event, milliseconds. Never before the time of an earlier event of the stream. */
export const streamTimeMs = ({ metadata }: { readonly metadata: EventMetadata }): number =>
  Date.parse(metadata.continuesAt ?? metadata.recordedAt)

/** Converts metadata to their stored form. The stored `recordedAt` never decreases within a stream. */
const storedMetadata = ({ continuesAt, ...metadata }: EventMetadata): object =>
  continuesAt === undefined
    ? metadata
    : { ...metadata, recordedAt: continuesAt, decidedAt: metadata.recordedAt }

/** The inverse of `storedMetadata`. Unknown fields of a stored text are unchanged. */
const readMetadata = (stored: (EventMetadata & { readonly decidedAt?: string }) | null): EventMetadata => {
  if (stored?.decidedAt === undefined) return stored as EventMetadata
  const { decidedAt, ...metadata } = stored
  return { ...metadata, recordedAt: decidedAt, continuesAt: stored.recordedAt }
}

const recordedAtForm = /"recordedAt":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"/

type StoredTexts = { readonly recordedAt?: unknown; readonly decidedAt?: unknown }

/** The times in stored metadata, milliseconds. */
export type StoredTimes = {
  /** -1 if the metadata have no valid time. */
  readonly recordedMs: number
  /** The time of the decision, if the event follows an event of the future in its stream; else null. */
  readonly decidedMs: number | null
}

export const storedTimes = (metadata: string): StoredTimes => {
  const [, at] = recordedAtForm.exec(metadata) ?? []
  // Fast path: metadata in the usual form need no JSON parsing.
  if (at !== undefined && !metadata.includes('"decidedAt"'))
    return { recordedMs: Date.parse(at), decidedMs: null }
  const { recordedAt, decidedAt } = parseUntrustedObject<StoredTexts>(metadata) ?? {}
  const [recordedMs, decidedMs] = [recordedAt, decidedAt].map((time) => {
    const ms = Date.parse(String(time))
    return Number.isNaN(ms) ? -1 : ms
  }) as [number, number]
  return { recordedMs, decidedMs: decidedAt === undefined ? null : decidedMs }
}

/** The time of an event's decision, milliseconds; -1 if its metadata have no valid time. */
export const decisionMs = (metadata: string): number => {
  const { recordedMs, decidedMs } = storedTimes(metadata)
  return decidedMs ?? recordedMs
}
