import { randomUUID } from 'node:crypto'
import { newEventId } from '../../../../src/kernel/ids.ts'
import type { StreamName } from '../../../../src/kernel/streams.ts'
import type { EventLog, NewEvent, StoredEvent } from '../../../../src/platform/eventstore/port.ts'

/** A stream that no other test knows, with a prefix of ours so that a filtered subscription shows it. */
export const freshStream = (): StreamName => `order-${randomUUID()}` as StreamName

/** An event of about the size of a small real one, or with the data given. */
export const someEvent = (data: string = JSON.stringify({ amountMicros: 10_000, note: 'ü' })): NewEvent => ({
  id: newEventId(),
  type: 'Tried',
  data,
  metadata: '{"correlationId":"contract"}',
})

export const someEvents = (count: number): NewEvent[] => Array.from({ length: count }, () => someEvent())

export const streamOf = async (log: EventLog, stream: StreamName, from?: number): Promise<StoredEvent[]> => {
  const events: StoredEvent[] = []
  for await (const event of log.readStream(stream, from)) events.push(event)
  return events
}

/** Every event after a position, page by page. */
export const allAfter = async (log: EventLog, after: number, page = 1_000): Promise<StoredEvent[]> => {
  const events: StoredEvent[] = []
  for (let position = after; ; ) {
    const batch = await log.readAll(position, page)
    events.push(...batch)
    if (batch.length < page) return events
    position = batch.at(-1)!.position
  }
}

export const only = (events: readonly StoredEvent[], streams: readonly StreamName[]): StoredEvent[] => {
  const wanted = new Set<StreamName>(streams)
  return events.filter((event) => wanted.has(event.stream))
}

/** The written event, without its position. */
export const written = ({ id, type, data, metadata }: NewEvent): NewEvent => ({ id, type, data, metadata })
