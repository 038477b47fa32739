import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { slugOf } from '../../domain/exits/line.ts'
import { type Family, families } from '../../domain/shared/order-terms.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { alpha2Of, countryOfAlpha2 } from '../../kernel/countries.ts'
import { etagOf, matchesEtag } from '../../platform/http/answer.ts'
import { countryCode, pageShape, pagingCodes, pagingQuery, wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Candidate } from './candidates.ts'
import type { ExitHealth } from './exit-health.ts'
import type { LiveExits } from './live-exits.ts'

type ListedCountry = {
  readonly alpha2: string
  readonly alpha3: string
  readonly name: string
  readonly states: number
  readonly cities: number
  readonly asns: number
}
type ListedState = { readonly code: string; readonly name: string }
type ListedCity = ListedState & { readonly state: string | null }
type ListedIsp = ListedState & { readonly asns: readonly number[] }
type ListedAsn = { readonly asn: number; readonly name: string }

/** The locations of the live exits in one country. Each list is sorted by name. */
type CountryLocations = {
  readonly country: ListedCountry
  readonly states: readonly ListedState[]
  readonly cities: readonly ListedCity[]
  readonly isps: readonly ListedIsp[]
  readonly asns: readonly ListedAsn[]
}

/** By alpha-2 code. */
export type LocationsByCountry = ReadonlyMap<string, CountryLocations>

const byName = <Named extends { readonly name: string }>(items: Iterable<Named>): readonly Named[] =>
  [...items].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))

const countryLocations = (alpha2: string, candidates: readonly Candidate[]): CountryLocations => {
  const states = new Map<string, ListedState>()
  const cities = new Map<string, ListedCity>()
  const isps = new Map<string, { code: string; name: string; asns: Set<number> }>()
  const asns = new Map<number, ListedAsn>()
  for (const { coverage: cover } of candidates) {
    for (const { code, name } of cover.states) states.set(code, { code, name })
    for (const { code, name, state } of cover.cities)
      cities.set(code, { code, name, state: state ?? cities.get(code)?.state ?? null })
    for (const { code, name, asns: numbers } of cover.isps) {
      const existing = isps.get(code) ?? { code, name, asns: new Set() }
      for (const asn of numbers) {
        existing.asns.add(asn)
        asns.set(asn, { asn, name })
      }
      isps.set(code, existing)
    }
    for (const asn of cover.asns) if (!asns.has(asn)) asns.set(asn, { asn, name: `AS${asn}` })
  }
  const { alpha3, name } = countryOfAlpha2(alpha2)
  return {
    country: { alpha2, alpha3, name, states: states.size, cities: cities.size, asns: asns.size },
    states: byName(states.values()),
    cities: byName(cities.values()),
    isps: byName([...isps.values()].map((isp) => ({ ...isp, asns: [...isp.asns].sort((a, b) => a - b) }))),
    asns: [...asns.values()].sort((a, b) => a.asn - b.asn),
  }
}

/** The current locations of the live exits, or those of a moment ago; `family`: only of this product family. */
export type CurrentLocations = (family: Family | null) => Promise<LocationsByCountry>

/** The locations of the live exits, computed again when they change; `family`: only of this product family. */
export const createLocations = (dependencies: {
  readonly live: Pick<LiveExits, 'index' | 'version'>
  readonly health: Pick<ExitHealth, 'isAlive'>
}): ((family: Family | null) => LocationsByCountry) => {
  const { live, health } = dependencies
  let version = ''
  let cachedLocations = new Map<Family | null, LocationsByCountry>()
  return (family) => {
    if (version !== live.version()) cachedLocations = new Map()
    version = live.version()
    const existing = cachedLocations.get(family)
    if (existing) return existing
    const alive = live
      .index()
      .serving.filter(
        ({ exitId, terms }) => health.isAlive(exitId) && (family === null || terms.family === family),
      )
    const locationsByCountry: LocationsByCountry = new Map(
      [...Map.groupBy(alive, ({ coverage }) => coverage.country)].map(([alpha2, candidates]) => [
        alpha2,
        countryLocations(alpha2, candidates),
      ]),
    )
    cachedLocations.set(family, locationsByCountry)
    return locationsByCountry
  }
}

/**
 * Refreshes exits on request only: resolves when the data in memory is at most `maxAgeMs` old. It also resolves while
 * Postgres does not answer. Then the previous data is used.
 */
export const createRecentExits = (dependencies: {
  readonly live: Pick<LiveExits, 'refresh'>
  readonly maxAgeMs: number
  readonly monotonicMs: MonotonicClock
  readonly onError: (error: unknown) => void
}): (() => Promise<void>) => {
  const { live, maxAgeMs, monotonicMs, onError } = dependencies
  let lastRefreshMs = Number.NEGATIVE_INFINITY
  let refreshing: Promise<void> | null = null
  return async () => {
    if (monotonicMs() - lastRefreshMs <= maxAgeMs) return
    refreshing ??= (async () => {
      const requestedMs = monotonicMs()
      await live.refresh().catch(onError)
      // Set after a failure, too. Otherwise each request during an outage would query Postgres.
      lastRefreshMs = requestedMs
      refreshing = null
    })()
    await refreshing
  }
}

const code = z
  .string()
  .meta({ description: 'The code of the entry. Usernames and line generation accept this code.' })
const Country = z
  .object({
    alpha2: code,
    alpha3: z.string(),
    name: z.string(),
    states: z.int(),
    cities: z.int(),
    asns: z.int(),
  })
  .meta({ id: 'GeoCountry' })
const State = z.object({ code, name: z.string() }).meta({ id: 'GeoState' })
const City = z.object({ code, name: z.string(), state: z.string().nullable() }).meta({ id: 'GeoCity' })
const Isp = z.object({ code, name: z.string(), asns: z.array(z.int()) }).meta({ id: 'GeoIsp' })
const Asn = z.object({ asn: z.int(), name: z.string() }).meta({ id: 'GeoAsn' })

const common = {
  ...pagingQuery,
  q: z.string().max(100).optional().meta({ description: 'Only entries with this text in the name or code.' }),
  family: wordQuery(
    families,
    'Only locations with exits of this product family.',
    'ProductFamily',
  ).optional(),
}
const country = countryCode('An ISO 3166-1 country code, alpha-2 or alpha-3, in upper or lower case.')

type NamedLocation = {
  readonly name: string
  readonly code?: string
  readonly alpha2?: string
  readonly asn?: number
}

/** Whether an entry matches a search text, ignoring case and accents. */
const matchesSearch = (entry: NamedLocation, text: string): boolean => {
  const wanted = slugOf(text)
  return [entry.name, entry.code, entry.alpha2, entry.asn].some(
    (value) => value !== undefined && slugOf(String(value)).includes(wanted),
  )
}

const pageOf = <Entry extends NamedLocation>(
  all: readonly Entry[],
  { limit, offset, q }: { readonly limit: number; readonly offset: number; readonly q?: string | undefined },
) => {
  const matching = q === undefined ? all : all.filter((entry) => matchesSearch(entry, q))
  return { entries: matching.slice(offset, offset + limit), total: matching.length, limit, offset }
}

/**
 * Answers 304 if the client has the current version: the lists change only with the exits, and clients may poll often.
 */
const conditional = <Body>(headers: IncomingHttpHeaders, body: Body) => {
  const etag = etagOf(JSON.stringify(body))
  const common = { etag, 'cache-control': 'no-cache' }
  return matchesEtag(headers, etag)
    ? ({ status: 304, headers: common } as const)
    : ({ status: 200, body, headers: common } as const)
}

const etagHeader = {
  headers: {
    ETag: 'The identifier of this list. Send it as `If-None-Match` to get the list only after a change.',
  },
}
const notModifiedResponse = {
  304: { description: 'The list is the same as the one that `If-None-Match` names.', ...etagHeader },
} as const

/**
 * Locations that lines can currently use, from the live exits. A location disappears within ten seconds after its last
 * exit.
 */
export const geoRoutes = (dependencies: {
  readonly places: (family: Family | null) => LocationsByCountry
  /** Resolves when the exits in memory are recent. */
  readonly recent: () => Promise<void>
}): readonly Route[] => {
  const inCountry = (query: { country: string; family?: Family | undefined }): CountryLocations | undefined =>
    dependencies.places(query.family ?? null).get(alpha2Of(query.country) ?? '')

  const list = <const Name extends 'states' | 'cities' | 'isps' | 'asns', Entry extends z.ZodType>(
    name: Name,
    entry: Entry,
    example: unknown,
    operationDoc: { readonly operationId: string; readonly summary: string; readonly description: string },
  ) =>
    route({
      method: 'GET',
      path: `/api/v1/geo/${name}`,
      ...operationDoc,
      tag: 'Plans',
      access: 'any-key',
      writes: false,
      customer: 'unaffected',
      query: z.object({
        ...common,
        country,
        ...(name === 'cities' && {
          state: z.string().optional().meta({ description: 'Only cities of the state with this code.' }),
        }),
      }),
      codes: { query: { ...pagingCodes, country: 'invalid_targeting' } },
      examples: { query: { country: 'us' } },
      responses: {
        200: {
          description: 'A page of the list.',
          body: z
            .object({ country: code, [name]: z.array(entry), ...pageShape })
            .meta({ id: `Geo${name[0]?.toUpperCase()}${name.slice(1)}` }),
          example: { country: 'us', [name]: [example], total: 1, limit: 50, offset: 0 },
          ...etagHeader,
        },
        ...notModifiedResponse,
      },
      errors: [],
      handler: async ({ query, headers }) => {
        await dependencies.recent()
        const { state } = query as { readonly state?: string }
        const all: readonly NamedLocation[] = inCountry(query)?.[name] ?? []
        const wanted =
          state === undefined
            ? all
            : all.filter((city) => (city as { state?: string | null }).state === state)
        const { entries, ...page } = pageOf(wanted, query)
        return conditional(headers, {
          country: alpha2Of(query.country) ?? query.country,
          [name]: entries,
          ...page,
        }) as never
      },
    })

  return [
    route({
      method: 'GET',
      path: '/api/v1/geo/countries',
      operationId: 'listGeoCountries',
      summary: 'List the countries of the exits',
      description:
        'The countries of the exits that the gateway can use now, with the number of states, cities and networks of each country. A country is removed at most ten seconds after its last exit went offline.',
      tag: 'Plans',
      access: 'any-key',
      writes: false,
      customer: 'unaffected',
      query: z.object(common),
      codes: { query: pagingCodes },
      responses: {
        200: {
          description: 'A page of the list.',
          body: z.object({ countries: z.array(Country), ...pageShape }).meta({ id: 'GeoCountries' }),
          example: {
            countries: [
              { alpha2: 'us', alpha3: 'USA', name: 'United States', states: 2, cities: 3, asns: 2 },
            ],
            total: 1,
            limit: 50,
            offset: 0,
          },
          ...etagHeader,
        },
        ...notModifiedResponse,
      },
      errors: [],
      handler: async ({ query, headers }) => {
        await dependencies.recent()
        const all = [...dependencies.places(query.family ?? null).values()]
          .map((places) => places.country)
          .sort((a, b) => (a.name < b.name ? -1 : 1))
        const { entries, ...page } = pageOf(all, query)
        return conditional(headers, { countries: entries, ...page })
      },
    }),
    list(
      'states',
      State,
      { code: 'california', name: 'California' },
      {
        operationId: 'listGeoStates',
        summary: 'List the states of a country',
        description: 'The states of a country with exits, or the equivalent regions.',
      },
    ),
    list(
      'cities',
      City,
      { code: 'los_angeles', name: 'Los Angeles', state: 'california' },
      {
        operationId: 'listGeoCities',
        summary: 'List the cities of a country',
        description: 'The cities of a country with exits. `state` selects the cities of one state.',
      },
    ),
    list(
      'isps',
      Isp,
      { code: 'comcast_cable', name: 'Comcast Cable', asns: [7922] },
      {
        operationId: 'listGeoIsps',
        summary: 'List the ISPs of a country',
        description: 'The internet providers of the exits in a country, with their AS numbers.',
      },
    ),
    list(
      'asns',
      Asn,
      { asn: 7922, name: 'Comcast Cable' },
      {
        operationId: 'listGeoAsns',
        summary: 'List the networks of a country',
        description: 'The autonomous systems of the exits in a country.',
      },
    ),
  ]
}
