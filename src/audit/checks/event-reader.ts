import type { z } from 'zod'
import { dataProblem, eventDefinitionOf } from '../../domain/events.ts'
import { maxAheadMs } from '../../kernel/clock.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { FieldMeta } from '../../kernel/event-fields.ts'
import { createCodec } from '../../platform/eventstore/codec.ts'
import type { StoredEvent } from '../../platform/eventstore/port.ts'

/** The path of a past time in an event's data: names of fields; `*` means every item of a list. */
type Path = readonly string[]

type Definition = {
  readonly type: string
  readonly shape?: Readonly<Record<string, z.ZodType>>
  readonly innerType?: z.ZodType
  readonly element?: z.ZodType
  readonly options?: readonly z.ZodType[]
}

const pathsOf = (schema: z.ZodType): readonly Path[] => {
  const { past } = (schema.meta() ?? {}) as FieldMeta
  if (past) return [[]]
  const { shape, innerType, element, options } = schema.def as unknown as Definition
  if (shape)
    return Object.entries(shape).flatMap(([name, field]) => pathsOf(field).map((path) => [name, ...path]))
  if (innerType) return pathsOf(innerType)
  if (element) return pathsOf(element).map((path) => ['*', ...path])
  return (options ?? []).flatMap(pathsOf)
}

const pathCache = new Map<string, readonly Path[]>()
const pastTimesOf = (type: string): readonly Path[] => {
  const cached = pathCache.get(type)
  if (cached) return cached
  const definition = eventDefinitionOf(type)
  const paths = definition === null ? [] : pathsOf(definition.data)
  pathCache.set(type, paths)
  return paths
}

const laterTimeAt = (value: unknown, path: Path, latest: string): string | null => {
  const [name, ...rest] = path
  // All times in events have one format that sorts as text.
  if (name === undefined) return typeof value === 'string' && value > latest ? value : null
  if (typeof value !== 'object' || value === null) return null
  if (name !== '*') return laterTimeAt((value as Readonly<Record<string, unknown>>)[name], rest, latest)
  if (!Array.isArray(value)) return null
  for (const item of value) {
    const laterTime = laterTimeAt(item, rest, latest)
    if (laterTime !== null) return laterTime
  }
  return null
}

/**
 * The first field of an event with a past time later than `latest` (ISO 8601 UTC with milliseconds), and that time;
 * null without one. Times that may be in the future, such as the end of a rental, are skipped.
 */
export const laterThan = (
  { type, data }: { readonly type: string; readonly data: unknown },
  latest: string,
): { readonly field: string; readonly at: string } | null => {
  for (const path of pastTimesOf(type)) {
    const at = laterTimeAt(data, path, latest)
    if (at !== null) return { field: path.join('.'), at }
  }
  return null
}

/** A stored event with its ordinal and its decoded form. */
export type ReadEvent = {
  readonly stored: StoredEvent
  readonly ordinal: number
  /** Null when the event cannot be decoded; `problem` then has the reason. */
  readonly event: RecordedEvent | null
  /** Null when nothing is wrong. Also set for a readable event whose fields do not match its type. */
  readonly problem: string | null
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The problem of an event's metadata; null when all required fields are valid. */
const metadataProblem = (metadata: unknown): string | null => {
  if (!isObject(metadata)) return 'its metadata is no JSON object'
  const { correlationId, causationId, actor, recordedAt, continuesAt = recordedAt } = metadata
  if (typeof correlationId !== 'string') return 'its metadata has no correlation id'
  if (causationId !== null && typeof causationId !== 'string') return 'its causation id is no text'
  if (!isObject(actor) || !['key', 'session', 'operator', 'system'].includes(actor.kind as string))
    return 'its metadata names no actor'
  if ([recordedAt, continuesAt].some((at) => typeof at !== 'string' || Number.isNaN(Date.parse(at))))
    return 'its metadata has no time of recording'
  return null
}

/** The problem of an event that reports a past time after its own time of recording; null without one. */
const futureTimeProblem = (event: RecordedEvent): string | null => {
  const recordedAt = event.metadata.continuesAt ?? event.metadata.recordedAt
  const later = laterThan(event, new Date(Date.parse(recordedAt) + maxAheadMs).toISOString())
  return later && `its ${later.field} is ${later.at}, and it was recorded at ${recordedAt}, before that`
}

type EventReader = {
  /** @param firstOrdinal the ordinal of the first event */
  read(events: readonly StoredEvent[], firstOrdinal: number): readonly ReadEvent[]
}

/** Reads events. Foreign events are returned with the reason why they cannot be read. */
export const createEventReader = (): EventReader => {
  const { decode } = createCodec()
  const decodeOrProblem = (stored: StoredEvent): RecordedEvent | string => {
    try {
      return decode(stored)
    } catch (error) {
      return `its texts are no JSON (${(error as Error).message})`
    }
  }
  const readOne = (stored: StoredEvent, ordinal: number): ReadEvent => {
    const event = decodeOrProblem(stored)
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
      ? { stored, ordinal, event, problem: dataProblem(event.type, event.data) ?? futureTimeProblem(event) }
      : unreadable(problem)
  }
  return {
    read: (events, firstOrdinal) => events.map((event, index) => readOne(event, firstOrdinal + index)),
  }
}

export const readable = (events: readonly ReadEvent[]): readonly RecordedEvent[] =>
  events.map(({ event }) => event).filter((event) => event !== null)
