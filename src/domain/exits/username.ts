import {
  anyTargeting,
  isAsn,
  type Line,
  maxStickyMinutes,
  type System,
  systems,
  type Targeting,
  type TokenProblem,
  targetingProblem,
} from './exit-targeting.ts'

/** The limit of RFC 1929. */
const maxUsernameBytes = 255
/** A longer targeting is stored, and the username has its id. */
export const maxWrittenBytes = 200

/** For a session of a hand-written username without a lifetime. */
export const defaultLifetimeMinutes = 10
const maxLimitMegabytes = 1_000_000

export const basePattern = /^[a-z0-9]{6,16}$/
export const setPattern = /^[a-z0-9]{8}$/
const sessionPattern = /^[A-Za-z0-9_]{1,32}$/

export type Parsed =
  | { readonly ok: true; readonly line: Line }
  | { readonly ok: false; readonly problem: TokenProblem }

/**
 * Some libraries send the username of a URL without decoding it, with `%2C` for a comma. A valid username contains no
 * `%`.
 */
const decoded = (username: string): string =>
  username.replace(/%[2-7][0-9A-F]/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)))

/** The plan's part of a username: all before the first `-`. */
export const baseOf = (username: string): string => decoded(username).split('-', 1)[0] ?? ''

const wholeNumber = (text: string, max: number): number | null => {
  const value = /^[1-9]\d{0,9}$/.test(text) ? Number(text) : 0
  return value >= 1 && value <= max ? value : null
}

const onOff = (text: string): boolean | null => (text === 'on' ? true : text === 'off' ? false : null)
const nonEmpty = (text: string): string | null => (text === '' ? null : text)
const commaList = (text: string): readonly string[] | null => {
  const entries = text.split(',')
  return entries.includes('') ? null : entries
}
const asnList = (text: string): readonly number[] | null => {
  const values = text.split(',').map((entry) => (/^\d{1,10}$/.test(entry) ? Number(entry) : 0))
  return values.every(isAsn) ? values : null
}

/** For each key: its parser (null if the value is invalid), and the description of its values for the refusal. */
const keyParsers = {
  country: [nonEmpty, 'a two-letter code of ISO 3166 such as us'],
  state: [nonEmpty, 'a state of the geo lists'],
  city: [nonEmpty, 'a city of the geo lists'],
  isp: [nonEmpty, 'an ISP of the geo lists'],
  asn: [(text: string) => wholeNumber(text, 4_294_967_295), 'a whole AS number'],
  os: [
    (text: string) => (systems.includes(text as System) ? (text as System) : null),
    `one of ${systems.join(', ')}`,
  ],
  strict: [onOff, 'on or off'],
  udp: [onOff, 'on or off'],
  session: [
    (text: string) => (sessionPattern.test(text) ? text : null),
    '1 to 32 letters, digits and underscores',
  ],
  lifetime: [
    (text: string) => wholeNumber(text, maxStickyMinutes),
    `whole minutes from 1 to ${maxStickyMinutes}`,
  ],
  limit: [
    (text: string) => wholeNumber(text, maxLimitMegabytes),
    `whole megabytes from 1 to ${maxLimitMegabytes}`,
  ],
  'not.country': [commaList, 'country codes with commas between'],
  'not.state': [commaList, 'states with commas between'],
  'not.city': [commaList, 'cities with commas between'],
  'not.asn': [asnList, 'whole AS numbers with commas between'],
  set: [(text: string) => (setPattern.test(text) ? text : null), '8 lower-case letters and digits'],
} as const

type Key = keyof typeof keyParsers
type Values = { -readonly [Name in Key]?: NonNullable<ReturnType<(typeof keyParsers)[Name][0]>> }

/** Values are case-insensitive, except session ids. */
const normalizeValue = (key: Key, text: string): string => (key === 'session' ? text : text.toLowerCase())

const isKey = (text: string): text is Key => Object.hasOwn(keyParsers, text)

const refuse = (token: string, detail: string): Parsed => ({ ok: false, problem: { token, detail } })

/** The keys of the exit's location and properties. A stored set replaces all of them. */
const targetingKeys = new Set<Key>(Object.keys(keyParsers) as Key[])
for (const key of ['session', 'lifetime', 'limit', 'set'] as const) targetingKeys.delete(key)

const targetingOf = (values: Values): Targeting => ({
  country: values.country ?? null,
  state: values.state ?? null,
  city: values.city ?? null,
  isp: values.isp ?? null,
  asn: values.asn ?? null,
  os: values.os ?? null,
  strict: values.strict ?? true,
  udp: values.udp ?? false,
  not: {
    countries: values['not.country'] ?? [],
    states: values['not.state'] ?? [],
    cities: values['not.city'] ?? [],
    asns: values['not.asn'] ?? [],
  },
})

/** Checks keys that need a session. */
const sessionProblem = (values: Values): TokenProblem | null => {
  for (const key of ['lifetime', 'limit'] as const)
    if (values[key] !== undefined && values.session === undefined)
      return { token: `${key}-${values[key]}`, detail: `${key} is of a session: add session- and its id` }
  return null
}

const setProblem = (values: Values): TokenProblem | null => {
  if (values.set === undefined) return null
  const conflictingKey = (Object.keys(values) as Key[]).find((key) => targetingKeys.has(key))
  return conflictingKey === undefined
    ? null
    : {
        token: `set-${values.set}`,
        detail: `set says the whole targeting: take ${conflictingKey} out, or set`,
      }
}

/**
 * Parses a line's username: `base(-key-value)*`, with keys in any order and each at most once. Unknown parts are
 * refused and never ignored. The problem names the token.
 */
export const parseUsername = (rawUsername: string): Parsed => {
  const username = decoded(rawUsername)
  if (Buffer.byteLength(username) > maxUsernameBytes)
    return refuse('username', `a username has at most ${maxUsernameBytes} bytes`)
  const [base = '', ...tokens] = username.split('-')
  if (!basePattern.test(base))
    return refuse(base, 'a username begins with that of its plan: 6 to 16 lower-case letters and digits')
  const values: Values = {}
  for (let at = 0; at < tokens.length; at += 2) {
    const [key = '', rawValue] = [tokens[at], tokens[at + 1]]
    if (!isKey(key))
      return refuse(key, `no key is called this; the keys are ${Object.keys(keyParsers).join(', ')}`)
    if (rawValue === undefined) return refuse(key, `${key} has no value`)
    const value = normalizeValue(key, rawValue)
    if (values[key] !== undefined) return refuse(`${key}-${rawValue}`, `${key} stands in the name twice`)
    const [parse, expected] = keyParsers[key]
    const parsedValue = parse(value)
    if (parsedValue === null) return refuse(`${key}-${rawValue}`, `${key} takes ${expected}`)
    Object.assign(values, { [key]: parsedValue })
  }
  const targeting = targetingOf(values)
  const problem = sessionProblem(values) ?? setProblem(values) ?? targetingProblem(targeting)
  if (problem !== null) return { ok: false, problem }
  const { session, lifetime = defaultLifetimeMinutes } = values
  return {
    ok: true,
    line: {
      base,
      targeting: values.set === undefined ? targeting : anyTargeting,
      session: session === undefined ? null : { id: session, lifetimeMinutes: lifetime },
      limitMegabytes: values.limit ?? null,
      set: values.set ?? null,
    },
  }
}

const listToken = (key: string, entries: readonly (string | number)[]): string =>
  entries.length === 0 ? '' : `-${key}-${entries.join(',')}`

/** A targeting as in usernames, each token with a `-` before it. Empty for `anyTargeting`. */
export const writeTargeting = (targeting: Targeting): string => {
  const { strict, udp, not } = targeting
  const singleTokens = (['country', 'state', 'city', 'isp', 'asn', 'os'] as const)
    .filter((key) => targeting[key] !== null)
    .map((key) => `-${key}-${targeting[key]}`)
    .join('')
  return [
    singleTokens,
    strict ? '' : '-strict-off',
    udp ? '-udp-on' : '',
    listToken('not.country', not.countries),
    listToken('not.state', not.states),
    listToken('not.city', not.cities),
    listToken('not.asn', not.asns),
  ].join('')
}

/** Writes the username of a line. `parseUsername` returns the same line. It may be longer than a username may be. */
export const writeUsername = ({ base, targeting, session, limitMegabytes, set }: Line): string =>
  [
    base,
    set === null ? writeTargeting(targeting) : `-set-${set}`,
    session === null ? '' : `-session-${session.id}-lifetime-${session.lifetimeMinutes}`,
    limitMegabytes === null ? '' : `-limit-${limitMegabytes}`,
  ].join('')
