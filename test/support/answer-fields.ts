import type { FieldType } from '../../src/domain/scrapers/scraper.ts'

/** The type of a value; null for a value whose type is not known. */
const typeOf = (value: unknown): FieldType | null => {
  if (value === null) return null
  if (!Array.isArray(value)) return typeof value as FieldType
  return value.length === 0 ? 'array' : (`${typeof value[0]}[]` as FieldType)
}

/** The path and type of every field of an answer, such as `posts[].author.name`. */
export const fieldsIn = (value: unknown, path = ''): ReadonlyMap<string, FieldType | null> => {
  if (Array.isArray(value)) return new Map(value.flatMap((entry) => [...fieldsIn(entry, `${path}[]`)]))
  if (typeof value !== 'object' || value === null) return new Map()
  return new Map(
    Object.entries(value).flatMap(([name, inner]) => {
      const innerPath = path === '' ? name : `${path}.${name}`
      return [[innerPath, typeOf(inner)] as const, ...fieldsIn(inner, innerPath)]
    }),
  )
}
