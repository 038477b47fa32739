import type { AnswerField, AnswerShape, JsonObject, JsonValue, ScraperRow } from './scraper.ts'

const sampleValue = ({ type, fields, example }: AnswerField): JsonValue => {
  if (type === 'object') return objectOf(fields)
  return type === 'object[]' ? [objectOf(fields)] : example
}

const objectOf = (fields: readonly AnswerField[]): JsonObject =>
  Object.fromEntries(fields.map((field) => [field.name, sampleValue(field)]))

/** The main list of an answer: its first list of objects. */
export const mainListOf = ({ fields }: AnswerShape): AnswerField | null =>
  fields.find(({ type }) => type === 'object[]') ?? null

/** The fields of `data`, or of each of its entries if it is a list. */
export const topFieldsOf = ({ answer }: Pick<ScraperRow, 'answer'>): readonly AnswerField[] =>
  answer.isBareList ? (mainListOf(answer)?.fields ?? []) : answer.fields

/** An answer with every field, one entry in each list, and invented values. */
export const sampleOf = ({ answer }: Pick<ScraperRow, 'answer'>): JsonValue => {
  const list = mainListOf(answer)
  return answer.isBareList && list !== null ? sampleValue(list) : objectOf(answer.fields)
}

/** The value at a path of names with dots between; undefined if there is none. */
export const valueAt = (data: unknown, path: string): unknown => {
  let value: unknown = data
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

/** A field with its place in `data`, such as `posts[].author.name`. */
export type PlacedField = AnswerField & { readonly path: string }

const placed = (fields: readonly AnswerField[], before: string): readonly PlacedField[] =>
  fields.flatMap((field) => {
    const path = `${before}${field.name}`
    return [
      { ...field, path },
      ...placed(field.fields, field.type === 'object[]' ? `${path}[].` : `${path}.`),
    ]
  })

/** Every field of an answer, also of nested objects, each before those that it contains. */
export const placedFieldsOf = ({ answer }: Pick<ScraperRow, 'answer'>): readonly PlacedField[] =>
  placed(topFieldsOf({ answer }), answer.isBareList ? '[].' : '')
