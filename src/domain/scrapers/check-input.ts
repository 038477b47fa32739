import { closestWord } from '../../kernel/nearest-word.ts'
import type { Input, InputValue, ScraperRow } from './scraper.ts'

/** A position in a list that has two parts. */
export type TwoPart = { readonly first: string; readonly second: string }

const packedPrefix = 'two.'

/** Both parts as one text, for `nextCursor`. */
export const packed = ({ first, second }: TwoPart): string =>
  `${packedPrefix}${Buffer.from(JSON.stringify([first, second])).toString('base64url')}`

/** The parts in a text of `packed`; null for any other text. */
export const unpacked = (text: string): TwoPart | null => {
  if (!text.startsWith(packedPrefix)) return null
  try {
    const pair: unknown = JSON.parse(
      Buffer.from(text.slice(packedPrefix.length), 'base64url').toString('utf8'),
    )
    if (!Array.isArray(pair) || pair.length !== 2) return null
    const [first, second] = pair as readonly unknown[]
    return typeof first === 'string' && typeof second === 'string' ? { first, second } : null
  } catch {
    return null
  }
}

/** The longest values, in characters: of a text, a link, a position. */
export const maxText = 500
export const maxLink = 2_048
export const maxPosition = 8_192
export const maxPage = 10_000

/** Why a body is refused. `details` names the field and the accepted values. */
export type InputRefusal = {
  readonly code: 'unknown_field' | 'bad_input'
  readonly message: string
  readonly details: string
}

/** A checked body: the given fields, trimmed, without a leading `@` or `#`, links as the URL standard writes them. */
export type CheckedInput =
  | { readonly ok: true; readonly input: Readonly<Record<string, InputValue>> }
  | { readonly ok: false; readonly refusal: InputRefusal }

const list = (values: readonly InputValue[], conjunction: 'or' | 'and' = 'or'): string =>
  values.length < 2 ? values.join('') : `${values.slice(0, -1).join(', ')} ${conjunction} ${values.at(-1)}`

/** The longest text of an input, in characters. */
export const maxLengthOf = ({ kind }: Pick<Input, 'kind'>): number => {
  if (kind === 'url') return maxLink
  return kind === 'position' ? maxPosition : maxText
}

/** The accepted values, as text that follows "must be". */
export const acceptedOf = (input: Input): string => {
  if (input.values) return `one of ${input.values.join(', ')}`
  switch (input.kind) {
    case 'boolean':
      return 'true or false'
    case 'integer':
      return 'a whole number'
    case 'page':
      return `a whole number from 1 to ${input.max ?? maxPage}`
    case 'date':
      return 'a day such as 2026-01-31'
    case 'country':
      return `two letters such as US${input.also ? `, or ${list(input.also)}` : ''}`
    case 'countries':
      return 'countries of two letters with commas between, such as US,CA'
    case 'language':
      return 'two letters such as en'
    case 'url':
      return `a complete https link, no short one, of at most ${maxLink} characters to ${list(input.hosts ?? [])} or a subdomain`
    case 'handle':
    case 'hashtag':
    case 'text':
    case 'position':
      return `a text of 1 to ${maxLengthOf(input)} characters`
    default:
      return input.kind satisfies never
  }
}

const isOn = (host: string, hosts: readonly string[]): boolean =>
  hosts.some((allowed) => host === allowed || host.endsWith(`.${allowed}`))

/**
 * Short links, which only redirect. A provider that does not follow them finds no target, and the call would be charged.
 * The links of youtu.be are complete: they name the video.
 */
const shortLink =
  /^(?:v[mt]\.tiktok\.com\/|(?:.*\.)?(?:tiktok\.com\/t|reddit\.com(?:\/r\/[^/]+)?\/s|(?:facebook|instagram)\.com\/share)\/)/

/** The link as the URL standard writes it, without its fragment and an empty query; null if it is not valid. */
const asLink = (text: string, hosts: readonly string[]): string | null => {
  // The URL standard repairs `https:host` and backslashes, and drops tabs. A parser that does not do so would see
  // another host.
  if (!/^https:\/\/[^/\\\s]/i.test(text) || /[\s\\]/.test(text)) return null
  const url = URL.parse(text)
  if (
    url === null ||
    url.username !== '' ||
    url.password !== '' ||
    url.port !== '' ||
    !isOn(url.hostname, hosts) ||
    shortLink.test(`${url.hostname}${url.pathname}`)
  )
    return null
  url.hash = ''
  if (url.search === '') url.search = ''
  return url.href.length > maxLink ? null : url.href
}

const isDay = (text: string): boolean => {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false
  const time = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
}

const asPage = (value: unknown, max: number): number | null => {
  const page = typeof value === 'string' && /^\d{1,6}$/.test(value) ? Number(value) : value
  return typeof page === 'number' && Number.isInteger(page) && page >= 1 && page <= max ? page : null
}

/** The text as it is sent to the provider; null if it is not valid for the input. */
const asText = (input: Input, value: string): string | null => {
  const trimmed = value.trim()
  if (trimmed === '' || trimmed.length > maxLengthOf(input)) return null
  switch (input.kind) {
    case 'handle':
    case 'hashtag': {
      const withoutPrefix = trimmed.replace(input.kind === 'handle' ? /^@/ : /^#/, '').trim()
      return withoutPrefix === '' ? null : withoutPrefix
    }
    case 'url':
      return asLink(trimmed, input.hosts ?? [])
    case 'date':
      return isDay(trimmed) ? trimmed : null
    case 'country':
      if (input.also?.includes(trimmed.toUpperCase())) return trimmed.toUpperCase()
      return /^[a-z]{2}$/i.test(trimmed) ? trimmed.toUpperCase() : null
    case 'countries':
      return /^[a-z]{2}(?:,[a-z]{2}){0,49}$/i.test(trimmed) ? trimmed.toUpperCase() : null
    case 'language':
      return /^[a-z]{2}$/i.test(trimmed) ? trimmed : null
    default:
      return trimmed
  }
}

const parseValue = (input: Input, value: unknown): InputValue | null => {
  if (input.values) return input.values.find((allowedValue) => allowedValue === value) ?? null
  switch (input.kind) {
    case 'boolean':
      return typeof value === 'boolean' ? value : null
    case 'integer':
      return typeof value === 'number' && Number.isSafeInteger(value) ? value : null
    case 'page':
      return asPage(value, input.max ?? maxPage)
    default:
      return typeof value === 'string' ? asText(input, value) : null
  }
}

const badInput = (details: string): CheckedInput => ({
  ok: false,
  refusal: { code: 'bad_input', message: details, details },
})

const unknownField = (row: ScraperRow, name: string): CheckedInput => {
  const names = row.inputs.map((input) => input.name)
  const suggestion = closestWord(name, names, (text) => text)
  const accepted = names.length === 0 ? 'no field is accepted' : `accepted are ${list(names, 'and')}`
  const shortName = name.slice(0, 60)
  const details = `${shortName}: ${accepted}${suggestion === null ? '' : `; did you mean ${suggestion}?`}`
  return { ok: false, refusal: { code: 'unknown_field', message: `unknown field ${details}`, details } }
}

type InputFields = Readonly<Record<string, InputValue>>

const missingOfGroup = (row: ScraperRow, provided: InputFields): CheckedInput | null => {
  const group = row.oneOf.find((names) => !names.some((name) => Object.hasOwn(provided, name)))
  return group === undefined ? null : badInput(`${list(group)} must be given: one of them is enough`)
}

const missingDependency = (row: ScraperRow, provided: InputFields): CheckedInput | null => {
  const rule = row.needs.find(
    ({ field, value, needs }) => provided[field] === value && !Object.hasOwn(provided, needs),
  )
  return rule === undefined
    ? null
    : badInput(`${rule.needs} must be given where ${rule.field} is ${rule.value}`)
}

const dateRangeProblem = ({ start_date: start, end_date: end }: InputFields): CheckedInput | null =>
  start !== undefined && end !== undefined && start > end
    ? badInput('end_date must be start_date or a later day')
    : null

/** Checks that both parts of a position are given, or none. */
const cursorPairProblem = ({ paging }: ScraperRow, provided: InputFields): CheckedInput | null => {
  if (paging?.second === undefined) return null
  const { cursor } = provided
  const second = provided[paging.second]
  if (cursor === undefined)
    return second === undefined ? null : badInput(`${paging.second} must come with cursor, or be left out`)
  const isPackedCursor = typeof cursor === 'string' && unpacked(cursor) !== null
  if (isPackedCursor && second !== undefined)
    return badInput(`${paging.second} must be left out beside a cursor that was nextCursor`)
  return isPackedCursor || second !== undefined
    ? null
    : badInput(`cursor must be nextCursor as it was answered, or come with ${paging.second}`)
}

/**
 * Checks the body of a call. Returns the input for the provider, or a refusal. First unknown fields are refused, then
 * each field is checked in the row's order, then fields that depend on each other. Null counts as absent. A refused
 * call is not fetched and not billed.
 * @param body a JSON object; the framework refuses everything else as `invalid_body`
 */
export const checkInput = (row: ScraperRow, body: Readonly<Record<string, unknown>>): CheckedInput => {
  const unknownName = Object.keys(body).find((name) => !row.inputs.some((input) => input.name === name))
  if (unknownName !== undefined) return unknownField(row, unknownName)
  const provided: Record<string, InputValue> = {}
  for (const input of row.inputs) {
    const value = body[input.name] ?? null
    if (value === null) {
      if (input.required) return badInput(`${input.name} is missing: it must be ${acceptedOf(input)}`)
      continue
    }
    const parsed = parseValue(input, value)
    if (parsed === null) return badInput(`${input.name} must be ${acceptedOf(input)}`)
    provided[input.name] = parsed
  }
  return (
    missingOfGroup(row, provided) ??
    missingDependency(row, provided) ??
    dateRangeProblem(provided) ??
    cursorPairProblem(row, provided) ?? { ok: true, input: provided }
  )
}

/**
 * The input without defaults that are written out, and with a position in one part. Equal for calls that ask for the
 * same. Providers get the checked input instead, so that a default that a platform changes can still be named.
 */
export const comparableInput = ({ inputs, paging }: ScraperRow, checked: InputFields): InputFields => {
  const comparable = Object.fromEntries(
    Object.entries(checked).filter(
      ([name, value]) => inputs.find((input) => input.name === name)?.default !== value,
    ),
  )
  const second = paging?.second
  if (second === undefined || comparable[second] === undefined) return comparable
  const { [second]: secondPart, cursor: firstPart, ...others } = comparable
  return { ...others, cursor: packed({ first: String(firstPart), second: String(secondPart) }) }
}
