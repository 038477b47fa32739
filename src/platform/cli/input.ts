import { readFile } from 'node:fs/promises'
import { InvalidArgumentError } from 'commander'
import { type Clock, isInstant, isTime } from '../../kernel/clock.ts'
import { CliMisuse } from './output.ts'

/*
 * The arguments and options of a command, in a table by name: `input: { order: required('<id>', 'the order'), … }`. The
 * name of an option is its key: `dailyCapCents` is `--daily-cap-cents`. No zod, because help must load quickly.
 */

/**
 * Parses one argument or option. `previous` is its value so far, for options that are given several times.
 * Throws InvalidArgumentError.
 */
type Parse = {
  // biome-ignore lint/suspicious/noExplicitAny: each command has its own values.
  (text: string, previous: any): unknown
  /** All accepted texts; help prints them. */
  readonly choices?: readonly string[]
}

/** The declaration of one argument or option. */
export type InputForm<Value> = {
  readonly kind: 'argument' | 'option'
  /** The value in help, e.g. `<id>`, `[month]`, `<id...>`; empty: a flag. */
  readonly form: string
  readonly about: string
  readonly parse?: Parse | undefined
  readonly isRequired?: boolean
  readonly fallback?: unknown
  /** The keys of options that exclude this one. */
  readonly conflicts?: readonly string[]
  /** Adds `--no-…`, which sets false; this is its help. */
  readonly none?: string
  /** Only its type is used. */
  readonly type?: () => Value
}

export type InputForms = Readonly<Record<string, InputForm<unknown>>>

type ValueOf<Form> = Form extends InputForm<infer Value> ? Value : never

/** The values of a command's arguments and options. */
export type InputOf<Forms> = {
  readonly [Key in keyof Forms as undefined extends ValueOf<Forms[Key]> ? never : Key]: ValueOf<Forms[Key]>
} & {
  readonly [Key in keyof Forms as undefined extends ValueOf<Forms[Key]> ? Key : never]?: Exclude<
    ValueOf<Forms[Key]>,
    undefined
  >
}

/** The value of an argument or option: what `parse` returns, else the text or texts. */
type Parsed<Form extends string, P> = P extends Parse
  ? ReturnType<P>
  : Form extends `${string}...${string}`
    ? readonly string[]
    : string

/** A positional argument, such as `<order>` or `[month]`. */
export const argument = <const Form extends string, P extends Parse | undefined = undefined>(
  form: Form,
  about: string,
  parse?: P,
): InputForm<
  Form extends `[${string}...]` | `<${string}` ? Parsed<Form, P> : Parsed<Form, P> | undefined
> => ({ kind: 'argument', form, about, parse })

/** An option that may be left out. */
export const option = <const Form extends string, P extends Parse | undefined = undefined>(
  form: Form,
  about: string,
  parse?: P,
): InputForm<Parsed<Form, P> | undefined> => ({ kind: 'option', form, about, parse })

export const required = <const Form extends string, P extends Parse | undefined = undefined>(
  form: Form,
  about: string,
  parse?: P,
): InputForm<Parsed<Form, P>> => ({ kind: 'option', form, about, parse, isRequired: true })

/** An option with a default. */
export const defaulted = <P extends Parse | undefined = undefined>(
  form: string,
  about: string,
  fallback: NoInfer<Parsed<'', P>>,
  parse?: P,
): InputForm<Parsed<'', P>> => ({ kind: 'option', form, about, parse, fallback })

/** An option that `--no-…` removes. */
export const removable = <P extends Parse | undefined = undefined>(
  form: string,
  about: string,
  none: string,
  parse?: P,
): InputForm<Parsed<'', P> | false | undefined> => ({ kind: 'option', form, about, parse, none })

export const flag = (about: string, ...conflicts: readonly string[]): InputForm<boolean | undefined> => ({
  kind: 'option',
  form: '',
  about,
  conflicts,
})

/** The page of a list. */
export const pageInput = {
  limit: defaulted('<n>', 'at most this many', 50, (text: string) => wholeNumber(1, 1_000)(text)),
  offset: defaulted('<n>', 'skip this many', 0, (text: string) => wholeNumber(0)(text)),
}

/** Types a text as an id. Whether it exists is for the work to find out. */
export const id = <Id extends string>(text: string): Id => text as Id

/** Parses a whole number from `min` to `max`. */
export const wholeNumber =
  (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text)
    if (!/^-?\d{1,16}$/.test(text) || !Number.isSafeInteger(value) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
    return value
  }

/** One of `values`. */
export const oneOf = <const Value extends string>(values: readonly Value[]) =>
  Object.assign(
    (text: string): Value => {
      const value = values.find((known) => known === text)
      if (value === undefined) throw new InvalidArgumentError(`Allowed choices are ${values.join(', ')}.`)
      return value
    },
    { choices: values },
  )

/** Parses a list of some of `values`, separated by commas. */
export const listOf =
  <const Value extends string>(values: readonly Value[]) =>
  (text: string): readonly Value[] => {
    const inputs = text.split(',').map((item) => item.trim())
    if (inputs.some((item) => !values.includes(item as Value)))
      throw new InvalidArgumentError(`It must be some of ${values.join(', ')}.`)
    return [...new Set(inputs)] as Value[]
  }

/** Parses the name of a key or token. The log stores it permanently. */
export const nameText = (text: string): string => {
  if (/^[^\p{C}]{1,100}$/u.test(text)) return text
  throw new InvalidArgumentError('It must be 1 to 100 printable characters.')
}

/** Parses an instant into milliseconds since the epoch. */
const instantMs = (text: string): number => {
  if (isInstant(text) && isTime(Date.parse(text))) return Date.parse(text)
  throw new InvalidArgumentError('It must be an instant such as 2027-01-01T00:00:00Z.')
}

/** `--expires-at` and `--expires-in-days` of a key or token; `expiryOf` reads them. */
export const expiryInput = {
  expiresAt: option('<instant>', 'when it stops working', instantMs),
  expiresInDays: option('<n>', 'stops working after this many days', wholeNumber(1, 3650)),
}

const dayMs = 86_400_000

/**
 * The expiry in milliseconds since the epoch; null if none is given.
 * @throws CliMisuse if both options are given
 */
export const expiryOf = (
  { clock }: { readonly clock: Clock },
  { expiresAt, expiresInDays }: InputOf<typeof expiryInput>,
): number | null => {
  if (expiresAt !== undefined && expiresInDays !== undefined)
    throw new CliMisuse('give --expires-at or --expires-in-days, not both')
  return expiresAt ?? (expiresInDays === undefined ? null : clock() + expiresInDays * dayMs)
}

/** `--format` of reports; `inFormat` prints them. */
export const formatInput = {
  format: defaulted('<format>', 'the output format', 'table', oneOf(['table', 'csv', 'json'])),
}

/**
 * The UTF-8 text of a file that is named on the command line.
 * @param code of the refusal; left out: `invalid_parameter`
 * @throws CliMisuse if the file cannot be read
 */
export const readText = async (file: string, code?: string): Promise<string> => {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new CliMisuse(`${file} cannot be read: ${(error as Error).message}`, {}, code)
  }
}
