import { parse } from 'node:querystring'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { anonymities, type Endpoint, protocols } from '../../domain/free-list/endpoint.ts'
import { alpha2Of } from '../../kernel/countries.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { countryCode, integerQuery, wordQuery } from '../../platform/http/query.ts'
import type { FieldCodes } from '../../platform/http/route.ts'
import type { IpFacts } from './ip-data.ts'

/** A proxy that answered its last check, as in the list. Location and network are those of `ip`. */
export const ListEntry = z
  .object({
    ip: z.string(),
    port: z.int(),
    protocols: z
      .array(namedEnum('FreeProxyProtocol', protocols))
      .meta({ description: 'The protocols that worked in the last check.' }),
    anonymity: namedEnum('FreeProxyAnonymity', anonymities).nullable(),
    country_code: z
      .string()
      .nullable()
      .meta({ description: 'The ISO 3166-1 alpha-2 code of the country in lower case. Null: unknown.' }),
    city: z.string().nullable(),
    asn: z.int().nullable(),
    asn_org: z.string().nullable(),
    latency_ms: z
      .int()
      .nullable()
      .meta({ description: 'The median response time in milliseconds of the last ten successful checks.' }),
    uptime_24h: z
      .number()
      .nullable()
      .meta({ description: 'The percentage of successful checks in the last 24 hours.' }),
    last_checked: z.string().nullable().meta({ format: 'date-time' }),
  })
  .meta({ id: 'FreeProxy' })

export type ListEntry = z.output<typeof ListEntry>

export const entryExample: ListEntry = {
  ip: '203.0.113.7',
  port: 8080,
  protocols: ['http', 'https'],
  anonymity: 'elite',
  country_code: 'us',
  city: 'Dallas',
  asn: 7922,
  asn_org: 'Comcast Cable Communications, LLC',
  latency_ms: 412,
  uptime_24h: 92.3,
  last_checked: '2026-11-21T02:31:00.000Z',
}

export const entryOf = (endpoint: Endpoint, facts: IpFacts): ListEntry => ({
  ip: endpoint.ip,
  port: endpoint.port,
  protocols: [...endpoint.protocols],
  anonymity: endpoint.anonymity,
  country_code: facts.countryCode,
  city: facts.city,
  asn: facts.asn,
  asn_org: facts.asnOrg,
  latency_ms: endpoint.latencyMs,
  uptime_24h: endpoint.uptime24h,
  last_checked: endpoint.lastChecked,
})

const orMax = (value: number | null): number => value ?? Number.MAX_SAFE_INTEGER

/** The fields that the sort order uses. */
export type RankFields = Pick<ListEntry, 'uptime_24h' | 'latency_ms' | 'ip' | 'port'>

/** Highest uptime first, then lowest latency, then by address, so that the order is stable. */
export const compareByRank = (a: RankFields, b: RankFields): number =>
  (b.uptime_24h ?? -1) - (a.uptime_24h ?? -1) ||
  orMax(a.latency_ms) - orMax(b.latency_ms) ||
  (a.ip < b.ip ? -1 : a.ip > b.ip ? 1 : a.port - b.port)

export const defaultLimit = 100
export const maxLimit = 1_000

/** Filters that the MCP tools and the API share. */
export const filterFields = {
  country: countryCode('Only proxies in this country.').transform((code) => alpha2Of(code) as string),
  protocol: wordQuery(protocols, 'Only proxies with this protocol.', 'FreeProxyProtocol'),
  anonymity: wordQuery(
    anonymities,
    'Only proxies with this anonymity. `elite`: hides your address and the use of a proxy. `anonymous`: hides your address. `transparent`: shows your address.',
    'FreeProxyAnonymity',
  ),
} as const

export const formats = ['json', 'txt'] as const

export const listQuery = z.strictObject({
  format: wordQuery(formats, 'json, or txt for lines of ip:port.').default('json'),
  country: filterFields.country.optional(),
  protocol: filterFields.protocol.optional(),
  anonymity: filterFields.anonymity.optional(),
  limit: integerQuery({
    min: 1,
    description: `The maximum number of proxies in the answer. A value above ${maxLimit} has the effect of ${maxLimit}.`,
  })
    .transform((limit) => Math.min(limit, maxLimit))
    .prefault(String(defaultLimit)),
})

export const listCodes: FieldCodes = { limit: 'invalid_limit' }

export type ListQuery = z.output<typeof listQuery>
export type Filter = Pick<ListQuery, 'country' | 'protocol' | 'anonymity'>

export const matchesFilter = (entry: ListEntry, { country, protocol, anonymity }: Filter): boolean =>
  (country === undefined || entry.country_code === country) &&
  (protocol === undefined || entry.protocols.includes(protocol)) &&
  (anonymity === undefined || entry.anonymity === anonymity)

/** A cache key: equal for queries with the same answer. */
export const nameOf = ({ format, country, protocol, anonymity, limit }: ListQuery): string =>
  `${format} ${country ?? ''} ${protocol ?? ''} ${anonymity ?? ''} ${limit}`

/** Without characters that need decoding, because two parsers could decode them differently. */
const plainQuery = /^[\w=&-]{0,200}$/

/** Cached raw queries. The least recently used one is dropped. */
const maxCachedQueries = 2_000

/** Parses raw URL queries and caches the results. Null: the query needs the full parser. */
export const createQueryReader = (): ((raw: string) => ListQuery | null) => {
  const read = new LRUCache<string, { readonly query: ListQuery | null }>(
    growingCacheOptions(maxCachedQueries),
  )
  return (raw) => {
    const before = read.get(raw)
    if (before !== undefined) return before.query
    if (!plainQuery.test(raw)) return null
    const query = listQuery.safeParse(parse(raw)).data ?? null
    read.set(raw, { query })
    return query
  }
}
