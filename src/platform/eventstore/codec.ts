import type { DomainEvent, EventMetadata, RecordedEvent } from '../../kernel/event.ts'
import { readMetadata, storedMetadata } from './event-times.ts'
import type { EventLog, NewEvent, StoredEvent } from './port.ts'

/**
 * How events of old shapes are read as today's. By stored type: a function from the fact as it was written to the fact
 * as code knows it now, under the same type or a new one. It gets every event of that type, current ones too, and
 * returns those unchanged.
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

/** A fact as the log stores it. JSON escapes NUL and lone surrogates, so every JSON value can be stored. */
export const encode = (event: DomainEvent, metadata: EventMetadata, id: string): NewEvent => ({
  id,
  type: event.type,
  data: JSON.stringify(event.data),
  metadata: JSON.stringify(storedMetadata(metadata)),
})

/**
 * A stored event as a fact with its place.
 * @throws SyntaxError when its texts are not JSON: no event of ours
 */
export const decode = (stored: StoredEvent, upcasters: Upcasters = {}): RecordedEvent =>
  recorded(stored, readMetadata(JSON.parse(stored.metadata)), upcasters)

/**
 * `encode` and `decode` for a reader or writer of many events. Events of one decision carry equal metadata and come
 * one after another, so the last one's is kept: with four events a decision, 500 + 250 bytes each, decoding takes
 * 0.9 µs an event in place of 1.2, encoding 0.6 in place of 0.75.
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

/** Events of one page: memory holds two pages, whatever the length of the log. */
const pageSize = 2_000

/**
 * The log from behind `start` (0: its beginning) through a position, page by page; the next page is read while this one is worked on.
 * @param limit events of a page
 * @throws LogUnavailable
 */
export async function* readLog(
  log: Pick<EventLog, 'readAll'>,
  through: number,
  limit = pageSize,
  start = 0,
): AsyncGenerator<readonly StoredEvent[]> {
  const read = (after: number): Promise<readonly StoredEvent[]> => {
    const page = log.readAll(after, limit)
    // It is awaited later; a failure before that is not unhandled.
    page.catch(() => undefined)
    return page
  }
  let next = read(start)
  for (;;) {
    const page = await next
    const last = page.at(-1)
    if (last === undefined) return
    const more = page.length === limit && last.position < through
    if (more) next = read(last.position)
    const events = last.position <= through ? page : page.filter(({ position }) => position <= through)
    if (events.length > 0) yield events
    if (!more) return
  }
}
