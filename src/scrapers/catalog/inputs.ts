import type { Input, InputKind, InputValue, Paging } from './row.ts'

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
