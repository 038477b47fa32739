import { type Micros, parseDollarsToMicros } from '../../kernel/money.ts'

/** The optional properties of an input. */
type InputOptions = Partial<Pick<Input, 'required' | 'default' | 'sentAs' | 'also' | 'max'>>

const input = (
  kind: InputKind,
  name: string,
  description: string,
  example: InputValue,
  more: InputOptions = {},
): Input => ({ name, kind, required: false, description, example, ...more })

/** A text without a format. */
export const text = (name: string, description: string, example: string, more?: InputOptions): Input =>
  input('text', name, description, example, more)

/** A boolean, false by default. */
export const flag = (name: string, description: string, more?: InputOptions): Input =>
  input('boolean', name, description, false, { default: false, ...more })

/** One of several texts. */
export const choice = (
  name: string,
  description: string,
  values: readonly string[],
  example: string,
  more?: InputOptions,
): Input => ({ ...input('text', name, description, example, more), values })

/** One of several whole numbers. */
export const number = (
  name: string,
  description: string,
  values: readonly number[],
  example: number,
  more?: InputOptions,
): Input => ({ ...input('integer', name, description, example, more), values })

/** A link. `hosts` are the accepted hosts, including their subdomains. */
export const link = (
  what: string,
  hosts: readonly string[],
  example: string,
  more?: InputOptions,
): Input => ({
  ...input('url', 'url', `Link to the ${what}`, example, more),
  hosts,
})

export const handle = (example: string, more?: InputOptions): Input =>
  input('handle', 'handle', 'Name of the account; a leading @ is dropped', example, more)

export const accountNumber = (example: string, more?: InputOptions): Input =>
  input('text', 'user_id', 'Number of the account, which is quicker than its name', example, more)

export const query = (what: string, example: string): Input =>
  input('text', 'query', what, example, { required: true })

export const hashtag = (example: string): Input =>
  input('hashtag', 'hashtag', 'The hashtag; a leading # is dropped', example, { required: true })

export const country = (name: string, description: string, example: string, more?: InputOptions): Input =>
  input('country', name, description, example, more)

export const countries = (name: string, description: string, example: string, more?: InputOptions): Input =>
  input('countries', name, description, example, more)

export const language = (description: string, example: string, more?: InputOptions): Input =>
  input('language', 'language', description, example, more)

export const day = (name: string, description: string, more?: InputOptions): Input =>
  input('date', name, description, '2026-01-31', more)

/** The position of the next page from an answer. */
export const position = (name: string, description: string, example: string, more?: InputOptions): Input =>
  input('position', name, description, example, more)

export const cursor = (example: string, more?: InputOptions): Input =>
  position('cursor', '`nextCursor` of the page before; left out, the first page', example, more)

export const page = (max?: number): Input =>
  input('page', 'page', 'Which page, from 1; `nextCursor` names the next one', 1, {
    default: 1,
    ...(max === undefined ? {} : { max }),
  })

/** Requests a shorter answer. */
export const trim: Input = flag('trim', 'Leaves out what few people read, for a shorter answer')

/** The country from which the provider opens the platform. */
export const vantage: Input = country(
  'region',
  'Country, two letters, from which the platform is looked at; results are not filtered by it',
  'US',
)

/** The paging of most rows: by `cursor`, which is read from the field of the same name as it is sent. */
export const byCursor = (
  more?: string,
  names: { readonly send?: string; readonly read?: string; readonly second?: string } = {},
): Paging => ({
  input: 'cursor',
  send: names.send ?? 'cursor',
  read: names.read ?? names.send ?? 'cursor',
  ...(more === undefined
    ? {}
    : more.startsWith('!')
      ? { more: more.slice(1), moreIsInverted: true as const }
      : { more }),
  ...(names.second === undefined ? {} : { second: names.second }),
})

export const byPage = (more?: string): Paging => ({
  input: 'page',
  send: 'page',
  read: null,
  ...(more === undefined ? {} : { more }),
})

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
export type InputKind =
  | 'text'
  | 'handle'
  | 'hashtag'
  | 'url'
  | 'country'
  | 'countries'
  | 'language'
  | 'date'
  | 'position'
  | 'page'
  | 'integer'
  | 'boolean'

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
export type FieldType =
  | 'string'
  | 'number'
  | 'boolean'
  | 'object'
  | 'any'
  | 'array'
  | 'object[]'
  | 'string[]'
  | 'number[]'
export type AnswerField = { readonly name: string; readonly type: FieldType }

/** The shape of `data`: the observed fields. A platform may omit some and add others. */
export type AnswerShape = {
  readonly description: string
  readonly fields: readonly AnswerField[]
  /** The main list of the answer, and the fields of its entries. */
  readonly items: { readonly path: string; readonly fields: readonly AnswerField[] } | null
  /** `data` is the list itself. */
  readonly isBareList: boolean
}

/** How a row is fetched from a provider with the protocol of docs/scrapers.md. */
export type Source = {
  readonly path: string
  /** Also accepts the parameters as JSON in a POST, for positions that are too long for a query. */
  readonly takesPost: boolean
  /** The minimum and maximum cost of a call for the service, in credits of the provider. */
  readonly credits: number
  readonly maxCredits: number
  /** Answers from the provider's cache can be requested. */
  readonly isCacheable: boolean
  /** The timeout of a call, milliseconds. */
  readonly timeoutMs: number
  /** The platform or the first provider withdrew it. Only a provider whose settings name it serves it. */
  readonly isWithdrawn: boolean
}

/**
 * The complete definition of one scraper. Checks, queries, cursors, prices, reference and the simulated provider are
 * derived from it.
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

const typeNames: readonly FieldType[] = [
  'string',
  'number',
  'boolean',
  'object',
  'any',
  'array',
  'object[]',
  'string[]',
  'number[]',
]

/**
 * Parses a line of fields: `id name likes:number posts:object[]`. A field without a type is a string.
 * @throws RangeError for an unknown type
 */
export const fieldsOf = (line: string): readonly AnswerField[] =>
  line
    .split(' ')
    .filter((fieldText) => fieldText !== '')
    .map((fieldText) => {
      const [name = '', typeName = 'string'] = fieldText.split(':')
      const type = typeNames.find((fieldType) => fieldType === typeName)
      if (type === undefined) throw new RangeError(`${fieldText}: no such type`)
      return { name, type }
    })

const assertNotNull = <Value>(value: Value | null, what: string): Value => {
  if (value === null) throw new RangeError(what)
  return value
}

/** A row as it is written in `rows/`. Absent properties have the most common value. */
export type RowText = {
  /** Dollars with four decimals. */
  readonly price: string
  readonly summary: string
  readonly note?: string
  readonly inputs: readonly Input[]
  readonly oneOf?: readonly (readonly string[])[]
  readonly needs?: ScraperRow['needs']
  readonly isSearch?: true
  readonly nothingWhenNull?: string
  readonly paging?: Paging
  readonly answer: string
  readonly fields: string
  readonly items?: readonly [path: string, fields: string]
  readonly isBareList?: true
  readonly path: string
  readonly takesPost?: true
  /** 1 by default. */
  readonly credits?: number
  readonly maxCredits?: number
  readonly isCacheable?: true
  /** 30 by default. */
  readonly timeoutSeconds?: number
  readonly isWithdrawn?: true
}

/**
 * Creates a row from its text.
 * @throws RangeError for an invalid price or field
 */
export const scraper = (platform: string, operation: string, text: RowText): ScraperRow => ({
  platform,
  operation,
  priceMicros: assertNotNull(
    parseDollarsToMicros(text.price),
    `${platform}/${operation}: price ${text.price}`,
  ),
  summary: text.summary,
  note: text.note ?? null,
  inputs: text.inputs,
  oneOf: text.oneOf ?? [],
  needs: text.needs ?? [],
  isSearch: text.isSearch ?? false,
  nothingWhenNull: text.nothingWhenNull ?? null,
  paging: text.paging ?? null,
  answer: {
    description: text.answer,
    fields: fieldsOf(text.fields),
    items: text.items ? { path: text.items[0], fields: fieldsOf(text.items[1]) } : null,
    isBareList: text.isBareList ?? false,
  },
  source: {
    path: text.path,
    takesPost: text.takesPost ?? false,
    credits: text.credits ?? 1,
    maxCredits: text.maxCredits ?? text.credits ?? 1,
    isCacheable: text.isCacheable ?? false,
    timeoutMs: (text.timeoutSeconds ?? 30) * 1000,
    isWithdrawn: text.isWithdrawn ?? false,
  },
})
