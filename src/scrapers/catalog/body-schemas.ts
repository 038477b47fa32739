import { z } from 'zod'
import { acceptedOf, maxLengthOf } from './check.ts'
import type { AnswerField, FieldType, Input, ScraperRow } from './row.ts'

type Keywords = Readonly<Record<string, unknown>>

/** The JSON Schema of one input: what the check takes, as far as a schema can say it. */
const keywordsOf = (input: Input): Keywords => {
  if (input.values) return { enum: [...input.values] }
  switch (input.kind) {
    case 'boolean':
      return { type: 'boolean' }
    case 'integer':
      return { type: 'integer' }
    case 'page': {
      const max = input.max === undefined ? {} : { maximum: input.max }
      return {
        anyOf: [
          { type: 'integer', minimum: 1, ...max },
          { type: 'string', pattern: '^[0-9]{1,6}$' },
        ],
      }
    }
    case 'date':
      return { type: 'string', format: 'date' }
    case 'url':
      return { type: 'string', format: 'uri', maxLength: maxLengthOf(input) }
    default:
      return { type: 'string', minLength: 1, maxLength: maxLengthOf(input) }
  }
}

const inputSchema = (input: Input): Keywords => ({
  ...keywordsOf(input),
  description: `${input.description}. It must be ${acceptedOf(input)}.`,
  ...(input.default !== undefined && { default: input.default }),
  examples: [input.example],
})

/** What a call of the row sends, for the interface description; the check itself is `checkInput`. */
export const bodySchema = (row: ScraperRow): z.ZodType =>
  z.record(z.string(), z.json()).meta({
    ...(row.oneOf.length > 0 && {
      description: row.oneOf
        .map((names) => `At least one of ${names.map((name) => `\`${name}\``).join(', ')} must be given.`)
        .join(' '),
    }),
    override: {
      type: 'object',
      properties: Object.fromEntries(row.inputs.map((input) => [input.name, inputSchema(input)])),
      required: row.inputs.filter(({ required }) => required).map(({ name }) => name),
      ...(row.oneOf.length > 0 && {
        allOf: row.oneOf.map((names) => ({ anyOf: names.map((name) => ({ required: [name] })) })),
      }),
      additionalProperties: false,
    },
  })

const typeKeywords: Readonly<Record<FieldType, Keywords>> = {
  string: { type: ['string', 'null'] },
  number: { type: ['number', 'null'] },
  boolean: { type: ['boolean', 'null'] },
  object: { type: ['object', 'null'] },
  any: {},
  array: { type: ['array', 'null'] },
  'object[]': { type: ['array', 'null'], items: { type: 'object' } },
  'string[]': { type: ['array', 'null'], items: { type: 'string' } },
  'number[]': { type: ['array', 'null'], items: { type: 'number' } },
}

const fieldsSchema = (fields: readonly AnswerField[]): Keywords =>
  Object.fromEntries(fields.map(({ name, type }) => [name, typeKeywords[type]]))

/** What `data` holds, for the interface description: every field may be missing, and others may come. */
export const dataSchema = ({ answer }: ScraperRow): z.ZodType => {
  const { items } = answer
  const list =
    items === null
      ? null
      : { type: ['array', 'null'], items: { type: 'object', properties: fieldsSchema(items.fields) } }
  const whole =
    answer.isBareList && list !== null
      ? list
      : {
          type: 'object',
          properties: {
            ...fieldsSchema(answer.fields),
            ...(items !== null && list !== null && { [items.path]: list }),
          },
        }
  return z.json().meta({ description: `${answer.description}.`, override: whole })
}
