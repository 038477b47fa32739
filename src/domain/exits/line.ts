import { isAlpha2 } from '../../kernel/countries.ts'

/** A location's name as in usernames: `São Paulo` is `sao_paulo`. Empty if it has no Latin letter and no digit. */
export const slugOf = (name: string): string =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[\u0300-\u036f]/g, '')
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_|_$/g, '')

export const systems = ['windows', 'android', 'ios', 'mac'] as const
export type System = (typeof systems)[number]

/**
 * The wanted location of a line's exit, from its username or its stored set. Locations are slugs of the geo lists:
 * `los_angeles`.
 */
export type Targeting = {
  /** ISO 3166 alpha-2, lower case. */
  readonly country: string | null
  readonly state: string | null
  readonly city: string | null
  readonly isp: string | null
  readonly asn: number | null
  readonly os: System | null
  /** False: if nothing matches, any exit of the country is used. */
  readonly strict: boolean
  readonly udp: boolean
  readonly not: {
    readonly countries: readonly string[]
    readonly states: readonly string[]
    readonly cities: readonly string[]
    readonly asns: readonly number[]
  }
}

/** A parsed username of a line. */
export type Line = {
  /** Identifies the plan; 6 to 16 of `[a-z0-9]`. */
  readonly base: string
  readonly targeting: Targeting
  /** Null: another exit for each connection. */
  readonly session: { readonly id: string; readonly lifetimeMinutes: number } | null
  /** Megabytes (10^6) that one session may transfer; null: no cap. */
  readonly limitMegabytes: number | null
  /** The id of a stored targeting, which the parser does not resolve. Null if the username has the whole targeting. */
  readonly set: string | null
}

/** Any exit: the targeting of a username without targeting. */
export const anyTargeting: Targeting = {
  country: null,
  state: null,
  city: null,
  isp: null,
  asn: null,
  os: null,
  strict: true,
  udp: false,
  not: { countries: [], states: [], cities: [], asns: [] },
}

/** A problem with a targeting: the wrong token as in the username, and the reason. */
export type TokenProblem = { readonly token: string; readonly detail: string }

/** The most entries of one exclude list. */
export const maxExcluded = 20
export const maxAsn = 4_294_967_295
/** The longest name of one location, e.g. a city. */
const maxLocationLength = 64

const locationPattern = /^[a-z0-9]+(?:[_.][a-z0-9]+)*$/

/** Whether this is a location as in the geo lists: lower case, `_` for spaces. */
export const isLocation = (text: string): boolean =>
  text.length <= maxLocationLength && locationPattern.test(text)

const isAsn = (value: number): boolean => Number.isSafeInteger(value) && value >= 1 && value <= maxAsn

const locationHint = 'a place of the geo lists: lower-case letters and digits with _ between words'

const singleValueProblem = ({ country, state, city, isp, asn, os }: Targeting): TokenProblem | null => {
  if (country !== null && !isAlpha2(country))
    return { token: `country-${country}`, detail: 'country takes a two-letter code of ISO 3166 such as us' }
  for (const [key, value] of Object.entries({ state, city, isp }))
    if (value !== null && !isLocation(value))
      return { token: `${key}-${value}`, detail: `${key} takes ${locationHint}` }
  if (asn !== null && !isAsn(asn))
    return { token: `asn-${asn}`, detail: `asn takes a whole AS number from 1 to ${maxAsn}` }
  if (os !== null && !systems.includes(os))
    return { token: `os-${os}`, detail: `os takes one of ${systems.join(', ')}` }
  return null
}

const combinationProblem = ({ country, state, city, isp }: Targeting): TokenProblem | null => {
  if (state !== null && city !== null)
    return { token: `state-${state}`, detail: 'a state and a city cannot be combined: take one of the two' }
  for (const [key, value] of Object.entries({ state, city, isp }))
    if (value !== null && country === null)
      return { token: `${key}-${value}`, detail: `${key} needs a country` }
  return null
}

/**
 * For each exclude list: its key in usernames, its entries, the check and description of an entry, and the wanted
 * value, which must not be excluded.
 */
const excludedLists = (targeting: Targeting) =>
  [
    ['not.country', targeting.not.countries, isAlpha2, 'two-letter country codes', targeting.country],
    ['not.state', targeting.not.states, isLocation, 'states of the geo lists', targeting.state],
    ['not.city', targeting.not.cities, isLocation, 'cities of the geo lists', targeting.city],
    [
      'not.asn',
      targeting.not.asns.map(String),
      (text: string) => isAsn(Number(text)),
      'whole AS numbers',
      targeting.asn === null ? null : String(targeting.asn),
    ],
  ] as const

const exclusionProblem = (targeting: Targeting): TokenProblem | null => {
  for (const [key, entries, isValid, entryText, wantedValue] of excludedLists(targeting)) {
    const token = `${key}-${entries.join(',')}`
    if (entries.length > maxExcluded) return { token, detail: `${key} takes at most ${maxExcluded} entries` }
    if (!entries.every(isValid) || new Set(entries).size < entries.length)
      return { token, detail: `${key} takes ${entryText}, each once, with commas between` }
    if (wantedValue !== null && entries.includes(wantedValue))
      return { token, detail: `${wantedValue} is both wanted and excluded` }
  }
  return null
}

/**
 * Checks a targeting from a username, a stored set or a request to generate lines. Whether a location has exits is
 * checked elsewhere, against the exit pool.
 * @returns the first problem, or null
 */
export const targetingProblem = (targeting: Targeting): TokenProblem | null =>
  singleValueProblem(targeting) ?? combinationProblem(targeting) ?? exclusionProblem(targeting)

/**
 * A part of the targeting that the product does not offer; null: all are allowed.
 * @param allowed the product's `generate.targeting`
 */
export const forbiddenTargeting = (targeting: Targeting, allowed: ReadonlySet<string>): string | null => {
  const { country, state, city, isp, asn, os, strict, udp, not } = targeting
  const parts = {
    country: country !== null,
    state: state !== null,
    city: city !== null,
    isp: isp !== null,
    asn: asn !== null,
    os: os !== null,
    strict: !strict,
    udp,
    exclude: Object.values(not).some((list) => list.length > 0),
  }
  return Object.entries(parts).find(([name, isUsed]) => isUsed && !allowed.has(name))?.[0] ?? null
}

/** A session of a line uses the same exit for at most this many minutes. */
export const maxStickyMinutes = 1_440

/** The limit of RFC 1929. */
const maxUsernameBytes = 255
/** A longer targeting is stored, and the username has its id. */
export const maxWrittenBytes = 200

/** For a session of a hand-written username without a lifetime. */
const defaultLifetimeMinutes = 10
const maxLimitMegabytes = 1_000_000

export const basePattern = /^[a-z0-9]{6,16}$/
const setPattern = /^[a-z0-9]{8}$/
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
      return { token: `${key}-${values[key]}`, detail: `${key} needs a session: add session- and its id` }
  return null
}

const setProblem = (values: Values): TokenProblem | null => {
  if (values.set === undefined) return null
  const conflictingKey = (Object.keys(values) as Key[]).find((key) => targetingKeys.has(key))
  return conflictingKey === undefined
    ? null
    : {
        token: `set-${values.set}`,
        detail: `set replaces the whole targeting: remove ${conflictingKey} or set`,
      }
}

/**
 * Parses a line's username: `base(-key-value)*`, with keys in any order and each at most once. Unknown parts are
 * refused and never ignored. The problem names the token.
 */
export const parseUsername = (rawUsername: string): Parsed => {
  const username = decoded(rawUsername)
  const usernameBytes = Buffer.byteLength(username)
  if (usernameBytes > maxUsernameBytes)
    return refuse(
      'username',
      `it has ${usernameBytes} bytes, and at most ${maxUsernameBytes} are accepted, as in SOCKS5: generate the line, which then refers to a stored targeting`,
    )
  const [base = '', ...tokens] = username.split('-')
  if (!basePattern.test(base))
    return refuse(
      base,
      'a username begins with the username of its plan: 6 to 16 lower-case letters and digits',
    )
  const values: Values = {}
  for (let at = 0; at < tokens.length; at += 2) {
    const [key = '', rawValue] = [tokens[at], tokens[at + 1]]
    if (!isKey(key)) return refuse(key, `unknown key; the keys are ${Object.keys(keyParsers).join(', ')}`)
    if (rawValue === undefined) return refuse(key, `${key} has no value`)
    const value = normalizeValue(key, rawValue)
    if (values[key] !== undefined) return refuse(`${key}-${rawValue}`, `${key} occurs twice`)
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
