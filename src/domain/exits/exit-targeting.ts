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
export const maxLocationLength = 64

const locationPattern = /^[a-z0-9]+(?:[_.][a-z0-9]+)*$/

/** Whether this is a location as in the geo lists: lower case, `_` for spaces. */
export const isLocation = (text: string): boolean =>
  text.length <= maxLocationLength && locationPattern.test(text)

export const isAsn = (value: number): boolean => Number.isSafeInteger(value) && value >= 1 && value <= maxAsn

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
      return { token: `${key}-${value}`, detail: `${key} needs a country: add country- and its code` }
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

/** A session of a line uses the same exit for at most this many minutes. */
export const maxStickyMinutes = 1_440
