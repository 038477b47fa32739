export const systems = ['windows', 'android', 'ios', 'mac'] as const
export type System = (typeof systems)[number]

/** Where a line's exit must stand, as its username or its stored set says. Places are slugs of the geo lists: `los_angeles`. */
export type Targeting = {
  /** ISO 3166 alpha-2, lower case. */
  readonly country: string | null
  readonly state: string | null
  readonly city: string | null
  readonly isp: string | null
  readonly asn: number | null
  readonly os: System | null
  /** False: where nothing matches, any exit of the country will do. */
  readonly strict: boolean
  readonly udp: boolean
  readonly not: {
    readonly countries: readonly string[]
    readonly states: readonly string[]
    readonly cities: readonly string[]
    readonly asns: readonly number[]
  }
}

/** A line's username, taken apart. */
export type Line = {
  /** Names the plan; 6 to 16 of `[a-z0-9]`. */
  readonly base: string
  readonly targeting: Targeting
  /** Null: another exit for each connection. */
  readonly session: { readonly id: string; readonly lifetimeMinutes: number } | null
  /** Megabytes (10^6) that one session may pass; null: no cap. */
  readonly limitMegabytes: number | null
  /** Id of a stored targeting, which `parse` cannot resolve by itself; null when everything stood in the name. */
  readonly set: string | null
}

/** Any exit at all: what a username without targeting asks for. */
export const anywhere: Targeting = {
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
