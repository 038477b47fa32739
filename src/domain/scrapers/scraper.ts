import type { Micros } from '../../kernel/money.ts'

/**
 * The format of an input's value.
 *
 * - `text` has no format.
 * - `handle` and `hashtag` lose one leading `@` or `#`.
 * - `url` is https on one of `hosts` or a subdomain of it.
 * - `country` and `language` are two letters, `countries` are several countries separated by commas.
 * - `date` is a day such as 2026-01-31.
 * - `position` is a position in a list, from an earlier answer.
 * - `page` is a whole number, also as a text of digits, because `nextCursor` has it so.
 */
export const inputKinds = [
  'text',
  'handle',
  'hashtag',
  'url',
  'country',
  'countries',
  'language',
  'date',
  'position',
  'page',
  'integer',
  'boolean',
] as const
export type InputKind = (typeof inputKinds)[number]

export type InputValue = string | number | boolean

/** One field of a call's body. */
export type Input = {
  readonly name: string
  readonly kind: InputKind
  readonly required: boolean
  readonly description: string
  readonly example: InputValue
  /** The platform's default. It is not sent. */
  readonly default?: InputValue
  /** All values, if they are known. */
  readonly values?: readonly InputValue[]
  /** For `url`. */
  readonly hosts?: readonly string[]
  /** For `page`. */
  readonly max?: number
  /** For `country`: values that are accepted besides two letters. */
  readonly also?: readonly string[]
  /** The name of the parameter at the provider, if it differs. */
  readonly sentAs?: string
}

/**
 * How a row gets its next page. `send` is the parameter of the position, and `read` its path in the answer (with dots).
 * Rows without `read` count pages. `more` is the path of a flag that says whether there is a next page.
 * `moreIsInverted` inverts the flag. `second` is the name of the second part of the position, both in the request and
 * in the answer.
 */
export type Paging = {
  readonly input: 'cursor' | 'page'
  readonly send: string
  readonly read: string | null
  readonly more?: string
  readonly moreIsInverted?: true
  readonly second?: string
}

/** JSON types of an answer's fields; `any` may also be null. */
export const fieldTypes = [
  'string',
  'number',
  'boolean',
  'object',
  'any',
  'array',
  'object[]',
  'string[]',
  'number[]',
] as const
export type FieldType = (typeof fieldTypes)[number]

export type JsonValue = string | number | null | boolean | readonly JsonValue[] | JsonObject
export type JsonObject = { readonly [name: string]: JsonValue }

/** How the sandbox varies an example: an id is replaced, a text is marked as invented. */
export type Variation = 'id' | 'text' | 'none'

/** A field of an answer. */
export type AnswerField = {
  readonly name: string
  readonly type: FieldType
  readonly meaning: string
  readonly unit: string | null
  /** Of a field without `fields`. All examples together are the sample answer. */
  readonly example: JsonValue
  readonly variation: Variation
  /** Of an `object`, or of each entry of an `object[]`. */
  readonly fields: readonly AnswerField[]
}

/** The shape of `data`: the observed fields. A platform may omit some and add others. */
export type AnswerShape = {
  readonly description: string
  readonly fields: readonly AnswerField[]
  /** `data` is the list in the first field. */
  readonly isBareList: boolean
}

/** How a row is fetched from a provider with the protocol of docs/guides/scrapers.md. */
export type Source = {
  readonly path: string
  /** Also accepts the parameters as JSON in a POST, for positions that are too long for a query. */
  readonly takesPost: boolean
  /** The minimum and maximum cost of a call for the service, in credits of the provider. */
  readonly credits: number
  readonly maxCredits: number
  /** A call may accept an earlier answer: `cacheMaxAge`. */
  readonly isCacheable: boolean
  /** The timeout of a call, milliseconds. */
  readonly timeoutMs: number
  /** The platform removed the page, or the first provider the scraper. Only a provider whose settings name it serves it. */
  readonly isWithdrawn: boolean
}

/**
 * The complete definition of one scraper. Checks, queries, cursors, prices, reference, sample answers and the simulated
 * provider are derived from it.
 */
export type ScraperRow = {
  readonly platform: string
  readonly operation: string
  readonly priceMicros: Micros
  readonly summary: string
  readonly note: string | null
  readonly inputs: readonly Input[]
  /** At least one field of each group is required. */
  readonly oneOf: readonly (readonly string[])[]
  /** If `field` has `value`, `needs` is required. */
  readonly needs: readonly { readonly field: string; readonly value: string; readonly needs: string }[]
  /** A search: without a match the answer is empty and costs nothing. */
  readonly isSearch: boolean
  /** If this field of an answer is null, there was nothing to fetch, and the call costs nothing. */
  readonly nothingWhenNull: string | null
  readonly paging: Paging | null
  readonly answer: AnswerShape
  readonly source: Source
}

/** The row's name, e.g. `youtube/video`: the part of the path after `/v1/scrape/`. */
export const rowName = ({ platform, operation }: Pick<ScraperRow, 'platform' | 'operation'>): string =>
  `${platform}/${operation}`

/** An example of a body: the required fields, and the first field of each group. */
export const exampleBody = (row: ScraperRow): Readonly<Record<string, InputValue>> => {
  const firstOfGroups = row.oneOf.map(([name]) => name)
  const requiredInputs = row.inputs.filter(({ name, required }) => required || firstOfGroups.includes(name))
  return Object.fromEntries(requiredInputs.map(({ name, example }) => [name, example]))
}
