import type { z } from 'zod'
import type { FieldMeta } from '../../terms/fields.ts'
import { factOf } from './dictionary.ts'

/** Where in an event's data a time stands that has come: names of fields; `*` is every item of a list. */
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

const known = new Map<string, readonly Path[]>()
const pastTimesOf = (type: string): readonly Path[] => {
  const before = known.get(type)
  if (before) return before
  const fact = factOf(type)
  const paths = fact === null ? [] : pathsOf(fact.data)
  known.set(type, paths)
  return paths
}

const laterAt = (value: unknown, path: Path, latest: string): string | null => {
  const [name, ...rest] = path
  // Every time in an event has one form, in which texts sort as times do.
  if (name === undefined) return typeof value === 'string' && value > latest ? value : null
  if (typeof value !== 'object' || value === null) return null
  if (name !== '*') return laterAt((value as Readonly<Record<string, unknown>>)[name], rest, latest)
  if (!Array.isArray(value)) return null
  for (const item of value) {
    const found = laterAt(item, rest, latest)
    if (found !== null) return found
  }
  return null
}

/**
 * Which field of an event says of something that it happened after `latest` (ISO 8601 UTC with milliseconds), and when;
 * null: none. Times that are to come, such as the end of a rental, are not looked at.
 */
export const laterThan = (
  { type, data }: { readonly type: string; readonly data: unknown },
  latest: string,
): { readonly field: string; readonly at: string } | null => {
  for (const path of pastTimesOf(type)) {
    const at = laterAt(data, path, latest)
    if (at !== null) return { field: path.join('.'), at }
  }
  return null
}
