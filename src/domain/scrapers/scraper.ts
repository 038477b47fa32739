import { type Micros, parseDollarsToMicros } from '../../kernel/money.ts'

/** What an input may have beside its name and words. */
type More = Partial<Pick<Input, 'required' | 'default' | 'sentAs' | 'also' | 'max'>>

const input = (
  kind: InputKind,
  name: string,
  description: string,
  example: InputValue,
  more: More = {},
): Input => ({ name, kind, required: false, description, example, ...more })

/** A field without a form of its own. */
export const text = (name: string, description: string, example: string, more?: More): Input =>
  input('text', name, description, example, more)

/** A yes or no; without it, no. */
export const flag = (name: string, description: string, more?: More): Input =>
  input('boolean', name, description, false, { default: false, ...more })

/** One of some values. */
export const choice = (
  name: string,
  description: string,
  values: readonly string[],
  example: string,
  more?: More,
): Input => ({ ...input('text', name, description, example, more), values })

/** One of some whole numbers. */
export const number = (
  name: string,
  description: string,
  values: readonly number[],
  example: number,
  more?: More,
): Input => ({ ...input('integer', name, description, example, more), values })

/** A link to what is wanted; `hosts` are what its host must be, or end with. */
export const link = (what: string, hosts: readonly string[], example: string, more?: More): Input => ({
  ...input('url', 'url', `Link to the ${what}`, example, more),
  hosts,
})

export const handle = (example: string, more?: More): Input =>
  input('handle', 'handle', 'Name of the account; a leading @ is dropped', example, more)

export const accountNumber = (example: string, more?: More): Input =>
  input('text', 'user_id', 'Number of the account, which is quicker than its name', example, more)

export const query = (what: string, example: string): Input =>
  input('text', 'query', what, example, { required: true })

export const hashtag = (example: string): Input =>
  input('hashtag', 'hashtag', 'The hashtag; a leading # is dropped', example, { required: true })

export const country = (name: string, description: string, example: string, more?: More): Input =>
  input('country', name, description, example, more)

export const countries = (name: string, description: string, example: string, more?: More): Input =>
  input('countries', name, description, example, more)

export const language = (description: string, example: string, more?: More): Input =>
  input('language', 'language', description, example, more)

export const day = (name: string, description: string, more?: More): Input =>
  input('date', name, description, '2026-01-31', more)

/** Where an answer said that the list goes on. */
export const position = (name: string, description: string, example: string, more?: More): Input =>
  input('position', name, description, example, more)

export const cursor = (example: string, more?: More): Input =>
  position('cursor', '`nextCursor` of the page before; left out, the first page', example, more)

export const page = (max?: number): Input =>
  input('page', 'page', 'Which page, from 1; `nextCursor` names the next one', 1, {
    default: 1,
    ...(max === undefined ? {} : { max }),
  })

/** A shorter answer. */
export const trim: Input = flag('trim', 'Leaves out what few people read, for a shorter answer')

/** Where a platform is looked at from. */
export const vantage: Input = country(
  'region',
  'Country, two letters, from which the platform is looked at; results are not filtered by it',
  'US',
)

/** Position and flag of most rows: `cursor`, read where it is sent. */
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
 * What a value of an input must be. `text` has no form of its own; `handle` and `hashtag` lose one leading `@` or `#`;
 * `url` is https on one of `hosts` or below it; `country` and `language` are two letters, `countries` several countries
 * with commas between; `date` is a day such as 2026-01-31; `position` is a place in a list that an answer told; `page`
 * is a whole number, also in digits as `nextCursor` gives it.
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
  /** What the platform takes where the field is left out; it is not sent. */
  readonly default?: InputValue
  /** All values there are, where they can be told. */
  readonly values?: readonly InputValue[]
  /** Of `url`. */
  readonly hosts?: readonly string[]
  /** Of `page`. */
  readonly max?: number
  /** Words that are taken beside two letters, of `country`. */
  readonly also?: readonly string[]
  /** Its name where the row is fetched, where it is another. */
  readonly sentAs?: string
}

/**
 * How a row goes on to its next page. `send` is the parameter and `read` the path in the answer (with points) of the
 * position; `more` the path of a flag that says whether there is a next page, which `moreIsInverted` turns round. `second` is a second half of the position,
 * sent and read under one name. Rows without `read` count pages.
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

/** What `data` holds: the fields that were seen, of which a platform may leave some out and add others. */
export type AnswerShape = {
  readonly description: string
  readonly fields: readonly AnswerField[]
  /** The list that the call is for, and what its entries hold. */
  readonly items: { readonly path: string; readonly fields: readonly AnswerField[] } | null
  /** `data` is that list itself. */
  readonly isBareList: boolean
}

/** How a row is fetched from a provider of the protocol that docs/scrapers.md names. */
export type Source = {
  readonly path: string
  /** Takes the parameters as JSON in a POST, too: for positions that are too long for a query. */
  readonly takesPost: boolean
  /** What a call costs us, at the least and at the most, in credits of the provider. */
  readonly credits: number
  readonly maxCredits: number
  /** Answers may be asked for from the provider's cache. */
  readonly isCacheable: boolean
  /** A call is given up after this. */
  readonly timeoutMs: number
  /** The platform or the first provider took it away: only a provider that names it serves it. */
  readonly isWithdrawn: boolean
}

/** One scraper: everything that is known of it. Checks, queries, cursors, prices, reference and stand-in are made from it. */
export type ScraperRow = {
  readonly platform: string
  readonly operation: string
  readonly priceMicros: Micros
  readonly summary: string
  readonly note: string | null
  readonly inputs: readonly Input[]
  /** Of each group at least one field must be given. */
  readonly oneOf: readonly (readonly string[])[]
  /** Where `field` has `value`, `needs` must be given. */
  readonly needs: readonly { readonly field: string; readonly value: string; readonly needs: string }[]
  /** A search: when nothing fits, the answer is empty and costs nothing. */
  readonly isSearch: boolean
  /** Where this field of an answer is null there was nothing to fetch, and the call costs nothing. */
  readonly nothingWhenNull: string | null
  readonly paging: Paging | null
  readonly answer: AnswerShape
  readonly source: Source
}

/** The row's name, `youtube/video`: what stands behind `/v1/scrape/`. */
export const rowName = ({ platform, operation }: Pick<ScraperRow, 'platform' | 'operation'>): string =>
  `${platform}/${operation}`

/** An example of a body: what must be given, and the first of each group of which one is enough. */
export const exampleBody = (row: ScraperRow): Readonly<Record<string, InputValue>> => {
  const firsts = row.oneOf.map(([name]) => name)
  const needed = row.inputs.filter(({ name, required }) => required || firsts.includes(name))
  return Object.fromEntries(needed.map(({ name, example }) => [name, example]))
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
 * Fields in one line: `id name likes:number posts:object[]`; without a type it is a string.
 * @throws RangeError for a type that there is not
 */
export const fieldsOf = (line: string): readonly AnswerField[] =>
  line
    .split(' ')
    .filter((word) => word !== '')
    .map((word) => {
      const [name = '', given = 'string'] = word.split(':')
      const type = typeNames.find((known) => known === given)
      if (type === undefined) throw new RangeError(`${word}: no such type`)
      return { name, type }
    })

const need = <Value>(value: Value | null, what: string): Value => {
  if (value === null) throw new RangeError(what)
  return value
}

/** How a row is written down in `rows/`: what is left out is as most rows have it. */
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
  /** 1 where left out. */
  readonly credits?: number
  readonly maxCredits?: number
  readonly isCacheable?: true
  /** 30 where left out. */
  readonly timeoutSeconds?: number
  readonly isWithdrawn?: true
}

/** One row from its text. @throws RangeError for a price or a field that cannot be read */
export const scraper = (platform: string, operation: string, text: RowText): ScraperRow => ({
  platform,
  operation,
  priceMicros: need(parseDollarsToMicros(text.price), `${platform}/${operation}: price ${text.price}`),
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
