import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { slugOf } from '../../domain/exits/line.ts'
import { type Family, families } from '../../domain/shared/order-terms.ts'
import { alpha2Of } from '../../kernel/countries.ts'
import { etagOf, matchesEtag } from '../../platform/http/answer.ts'
import { pageShape, pagingCodes, pagingQuery, wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { CountryLocations, LocationsByCountry } from './locations.ts'

const code = z.string().meta({ description: 'As usernames and line generation take it.' })
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
  q: z.string().max(100).optional().meta({ description: 'Only entries whose name or code holds this text.' }),
  family: wordQuery(families, 'Only what exits of this product family can serve.').optional(),
}
const countryForm = 'a country code of ISO 3166 such as us or USA'
const country = z
  .string(countryForm)
  .refine((text) => alpha2Of(text) !== null, `must be ${countryForm}`)
  .meta({ description: 'Alpha-2 or alpha-3, in any case.', words: countryForm })

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

const notModifiedResponse = { 304: { description: 'The client has this list (`If-None-Match`).' } } as const
const etagHeader = { headers: { ETag: 'Names this list; send it back as `If-None-Match`' } }

/**
 * Locations that lines can currently use, from the live exits. A location disappears within ten seconds after its last
 * exit.
 */
export const geoRoutes = (deps: {
  readonly places: (family: Family | null) => LocationsByCountry
  /** Resolves when the exits in memory are recent. */
  readonly recent: () => Promise<void>
}): readonly Route[] => {
  const inCountry = (query: { country: string; family?: Family | undefined }): CountryLocations | undefined =>
    deps.places(query.family ?? null).get(alpha2Of(query.country) ?? '')

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
          state: z.string().optional().meta({ description: 'Only cities of this state, by its code.' }),
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
        await deps.recent()
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
      summary: 'List countries that lines can go out in',
      description:
        'The countries that the gateway can serve now, with how many states, cities and networks each has. A country whose last exit went away leaves within ten seconds.',
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
        await deps.recent()
        const all = [...deps.places(query.family ?? null).values()]
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
        summary: 'List states of a country',
        description: 'The states, or what a country calls them, that lines can go out in.',
      },
    ),
    list(
      'cities',
      City,
      { code: 'los_angeles', name: 'Los Angeles', state: 'california' },
      {
        operationId: 'listGeoCities',
        summary: 'List cities of a country',
        description: 'The cities that lines can go out in; `state` leaves those of one state.',
      },
    ),
    list(
      'isps',
      Isp,
      { code: 'comcast_cable', name: 'Comcast Cable', asns: [7922] },
      {
        operationId: 'listGeoIsps',
        summary: 'List ISPs of a country',
        description: 'The providers whose networks lines can go out of, with their AS numbers.',
      },
    ),
    list(
      'asns',
      Asn,
      { asn: 7922, name: 'Comcast Cable' },
      {
        operationId: 'listGeoAsns',
        summary: 'List networks of a country',
        description: 'The autonomous systems that lines can go out of.',
      },
    ),
  ]
}
