import { createCodec } from '../../../platform/eventstore/codec.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { StoredEvent } from '../../../platform/eventstore/port.ts'

/** An event whose texts are not those of an event of ours. */
export class UnreadableEvent extends Error {
  override readonly name = 'UnreadableEvent'
  readonly event: StoredEvent
  constructor(event: StoredEvent, problem: string) {
    super(`event ${event.id} cannot be read: ${problem}`)
    this.event = event
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Metadata that every event has; null when it does. */
const metadataProblem = (metadata: unknown): string | null => {
  if (!isObject(metadata)) return 'its metadata is no JSON object'
  const { correlationId, causationId, actor, recordedAt } = metadata
  if (typeof correlationId !== 'string') return 'its metadata has no correlation id'
  if (causationId !== null && typeof causationId !== 'string') return 'its causation id is no text'
  if (!isObject(actor) || !['key', 'operator', 'system'].includes(actor.kind as string))
    return 'its metadata names no actor'
  if (typeof recordedAt !== 'string' || Number.isNaN(Date.parse(recordedAt)))
    return 'its metadata has no time of recording'
  return null
}

/** Reads events until the first that cannot be read. */
export type EventReader = {
  read(events: readonly StoredEvent[]): {
    readonly events: readonly RecordedEvent[]
    readonly unreadable: UnreadableEvent | null
  }
}

export const createEventReader = (): EventReader => {
  const { decode } = createCodec()
  const readOne = (stored: StoredEvent): RecordedEvent => {
    let event: RecordedEvent
    try {
      event = decode(stored)
    } catch (error) {
      throw new UnreadableEvent(stored, `its texts are no JSON (${(error as Error).message})`)
    }
    if (!isObject(event.data)) throw new UnreadableEvent(stored, 'its data is no JSON object')
    const problem = metadataProblem(event.metadata)
    if (problem !== null) throw new UnreadableEvent(stored, problem)
    return event
  }
  return {
    read(events) {
      const read: RecordedEvent[] = []
      for (const stored of events)
        try {
          read.push(readOne(stored))
        } catch (error) {
          if (error instanceof UnreadableEvent) return { events: read, unreadable: error }
          throw error
        }
      return { events: read, unreadable: null }
    },
  }
}
