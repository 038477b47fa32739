import { z } from 'zod'
import { acceptedOf, maxLengthOf, maxPage } from '../../domain/scrapers/check-input.ts'
import { mainListOf, topFieldsOf } from '../../domain/scrapers/sample.ts'
import {
  type AnswerField,
  exampleBody,
  type FieldType,
  type Input,
  rowName,
  type ScraperRow,
} from '../../domain/scrapers/scraper.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { allOf, equals, given, someOf, when } from '../../platform/http/field-rules.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import type { Health } from './provider-health.ts'
import type { ScraperState } from './provider-port.ts'

type Keywords = Readonly<Record<string, unknown>>

const codePattern = ({ kind, also = [] }: Input): string =>
  kind === 'countries' ? '^[A-Za-z]{2}(,[A-Za-z]{2}){0,49}$' : `^(${['[A-Za-z]{2}', ...also].join('|')})$`

/** The JSON Schema of one input, as far as a schema can express the check. */
const keywordsOf = (input: Input): Keywords => {
  if (input.values) {
    const numbers = input.values.filter((each) => typeof each === 'number')
    // Generators make no type of a list of numbers. The description names them.
    return numbers.length === 0
      ? { enum: [...input.values] }
      : { type: 'integer', minimum: Math.min(...numbers), maximum: Math.max(...numbers) }
  }
  switch (input.kind) {
    case 'boolean':
      return { type: 'boolean' }
    case 'integer':
      return { type: 'integer' }
    case 'page':
      return { type: 'integer', minimum: 1, maximum: input.max ?? maxPage }
    case 'date':
      return { type: 'string', format: 'date' }
    case 'url':
      return { type: 'string', format: 'uri', pattern: '^https://', maxLength: maxLengthOf(input) }
    case 'country':
    case 'countries':
    case 'language':
      return { type: 'string', pattern: codePattern(input) }
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

/** The conditions on several fields of a call: see `checkInput`. */
const rulesOf = ({ oneOf, needs, paging }: ScraperRow): Keywords => {
  const [first, ...others] = [
    ...oneOf.map((names) => someOf(names.map((name) => given(name, 'string')))),
    ...needs.map(({ field, value, needs: other }) => when(equals(field, value), given(other, 'string'))),
    ...(paging?.second === undefined
      ? []
      : [when(given(paging.second, 'string'), given('cursor', 'string'))]),
  ]
  return first === undefined ? {} : allOf([first, ...others]).keywords
}

/** The body of a call of the row, for the interface description. The actual check is `checkInput`. */
export const bodySchema = (row: ScraperRow): z.ZodType => {
  const required = row.inputs.filter((input) => input.required).map(({ name }) => name)
  return z.record(z.string(), z.json()).meta({
    ...(row.oneOf.length > 0 && {
      description: row.oneOf
        .map((names) => `At least one of ${names.map((name) => `\`${name}\``).join(', ')} must be given.`)
        .join(' '),
    }),
    override: {
      type: 'object',
      properties: Object.fromEntries(row.inputs.map((input) => [input.name, inputSchema(input)])),
      ...(required.length > 0 && { required }),
      ...rulesOf(row),
      additionalProperties: false,
    },
  })
}

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

const fieldSchema = (field: AnswerField): Keywords => {
  const { type, meaning, unit, fields } = field
  const properties = fields.length === 0 ? {} : { properties: fieldsSchema(fields) }
  return {
    ...typeKeywords[type],
    ...(type === 'object[]' ? { items: { type: 'object', ...properties } } : properties),
    description: unit === null ? `${meaning}.` : `${meaning}. Unit: ${unit}.`,
  }
}

const fieldsSchema = (fields: readonly AnswerField[]): Keywords =>
  Object.fromEntries(fields.map((field) => [field.name, fieldSchema(field)]))

/** The shape of `data`, for the interface description: every field is optional, and more may be added. */
export const dataSchema = ({ answer }: ScraperRow): z.ZodType => {
  const list = mainListOf(answer)
  const whole =
    answer.isBareList && list !== null
      ? fieldSchema(list)
      : { type: 'object', properties: fieldsSchema(answer.fields) }
  return z.json().meta({ description: `${answer.description}.`, override: whole })
}

/** Generators make no type of a list of types: for them it is any value. */
const value = z.union([z.string(), z.number(), z.boolean()]).meta({ override: {} })

const InputSchema = z
  .strictObject({
    name: z.string(),
    type: z.enum(['string', 'integer', 'boolean']),
    required: z.boolean(),
    description: z.string(),
    accepted: z.string().meta({ description: 'A description of the accepted values.' }),
    example: value,
    default: value.optional().meta({ description: 'The value that a call uses if the field is left out.' }),
    values: z.array(value).optional().meta({ description: 'All accepted values.' }),
    hosts: z
      .array(z.string())
      .optional()
      .meta({ description: 'The accepted hosts of a link. Subdomains are also accepted.' }),
  })
  .meta({ id: 'ScraperInput' })

const HealthSchema = z
  .strictObject({
    calls: z
      .int()
      .meta({ description: 'The number of calls in the last 24 hours whose result depends on the scraper.' }),
    successShare: z
      .number()
      .min(0)
      .max(1)
      .nullable()
      .meta({ description: 'The share of these calls that were successful, from 0 to 1. Null: no calls.' }),
    p50Ms: z.int().nullable().meta({
      description: 'The median duration of successful calls, in milliseconds. Null: no successful calls.',
    }),
    p95Ms: z.int().nullable().meta({
      description:
        'The 95th percentile of the duration of successful calls, in milliseconds. Null: no successful calls.',
    }),
    lastGoodAt: z.string().nullable().meta({
      description: 'The time of the last successful call in the last seven days. Null: no successful call.',
      format: 'date-time',
    }),
  })
  .meta({ id: 'ScraperHealth' })

export const ScraperSchema = z
  .strictObject({
    platform: z.string(),
    operation: z.string(),
    path: z.string().meta({ description: 'The path of the scraper, for requests with POST.' }),
    summary: z.string(),
    note: z.string().nullable(),
    priceUsd: z.string().meta({ description: 'The price of a call, in dollars with four decimals.' }),
    state: namedEnum('ScraperState', ['live', 'unavailable']).meta({
      description:
        'The availability of the scraper. `unavailable`: no configured provider has it; a call gets status 503 and is not billed.',
    }),
    inputs: z.array(InputSchema),
    oneOf: z
      .array(z.array(z.string()))
      .meta({ description: 'Groups of fields. A call must have at least one field of each group.' }),
    example: z.record(z.string(), value).meta({ description: 'An example of a valid request body.' }),
    pageField: namedEnum('ScraperPageField', ['cursor', 'page'])
      .nullable()
      .meta({ description: 'The field for the value of `nextCursor`. Null: the scraper has only one page.' }),
    isSearch: z.boolean().meta({
      description:
        'True: the scraper is a search. A search without a hit returns empty lists and is not billed.',
    }),
    isCacheable: z.boolean(),
    timeoutMs: z.int().meta({ description: 'The time limit of a call, in milliseconds.' }),
    answer: z.string().meta({ description: 'A description of the contents of `data`.' }),
    fields: z.array(z.string()).meta({
      description:
        'The known fields of `data`, or of each of its entries if it is a list. Each field can be missing.',
    }),
    health: HealthSchema,
  })
  .meta({ id: 'Scraper' })

export type ScraperView = z.output<typeof ScraperSchema>

const typeOf = ({ kind, values }: Input): 'string' | 'integer' | 'boolean' => {
  if (kind === 'boolean') return 'boolean'
  return kind === 'page' || typeof values?.[0] === 'number' ? 'integer' : 'string'
}

const inputView = (input: Input): z.output<typeof InputSchema> => ({
  name: input.name,
  type: typeOf(input),
  required: input.required,
  description: input.description,
  accepted: acceptedOf(input),
  example: input.example,
  ...(input.default !== undefined && { default: input.default }),
  ...(input.values && { values: [...input.values] }),
  ...(input.hosts && { hosts: [...input.hosts] }),
})

/** For a scraper without calls. */
const unknown: Health = { calls: 0, successShare: null, p50Ms: null, p95Ms: null, lastGoodAt: null }

/** A row in the list of scrapers. */
export const scraperView = (
  row: ScraperRow,
  state: ScraperState,
  health: Health | undefined,
): ScraperView => ({
  platform: row.platform,
  operation: row.operation,
  path: `/v1/scrape/${rowName(row)}`,
  summary: row.summary,
  note: row.note,
  priceUsd: dollarsOfMicros(row.priceMicros),
  state,
  inputs: row.inputs.map(inputView),
  oneOf: row.oneOf.map((names) => [...names]),
  example: { ...exampleBody(row) },
  pageField: row.paging?.input ?? null,
  isSearch: row.isSearch,
  isCacheable: row.source.isCacheable,
  timeoutMs: row.source.timeoutMs,
  answer: row.answer.description,
  fields: topFieldsOf(row).map(({ name }) => name),
  health: health ?? unknown,
})
