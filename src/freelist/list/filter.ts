import { parse } from 'node:querystring'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { growingTo } from '../../kernel/growing.ts'
import { integerQuery, wordQuery } from '../../platform/http/query.ts'
import type { FieldCodes } from '../../platform/http/route.ts'
import { alpha2Of } from '../../terms/countries.ts'
import { anonymities, protocols } from '../record/endpoint.ts'
import type { ListEntry } from './entry.ts'

export const defaultLimit = 100
export const maxLimit = 1_000

const countryForm = 'a country code such as us (ISO 3166-1 alpha-2; alpha-3 and capitals are understood)'

/** Which proxies are wanted: what the tools and the API ask alike. */
export const filterFields = {
  country: z
    .string()
    .refine((code) => alpha2Of(code) !== null, `must be ${countryForm}`)
    .transform((code) => alpha2Of(code) as string)
    .meta({ description: 'Only those in this country.', words: countryForm, override: { type: 'string' } }),
  protocol: wordQuery(protocols, 'Only those that speak this protocol.'),
  anonymity: wordQuery(
    anonymities,
    'Only those that hide this much: elite hides you and that it is a proxy, anonymous hides you, transparent shows your address.',
  ),
} as const

export const formats = ['json', 'txt'] as const

export const listQuery = z.object({
  format: wordQuery(formats, 'json, or txt for lines of ip:port.').default('json'),
  country: filterFields.country.optional(),
  protocol: filterFields.protocol.optional(),
  anonymity: filterFields.anonymity.optional(),
  limit: integerQuery({
    min: 1,
    description: `How many at most; more than ${maxLimit} are read as ${maxLimit}.`,
  })
    .transform((limit) => Math.min(limit, maxLimit))
    .prefault(String(defaultLimit)),
})

export const listCodes: FieldCodes = { limit: 'invalid_limit' }

export type ListQuery = z.output<typeof listQuery>
export type Filter = Pick<ListQuery, 'country' | 'protocol' | 'anonymity'>

export const passes = (entry: ListEntry, { country, protocol, anonymity }: Filter): boolean =>
  (country === undefined || entry.country_code === country) &&
  (protocol === undefined || entry.protocols.includes(protocol)) &&
  (anonymity === undefined || entry.anonymity === anonymity)

/** The same for queries that are answered with the same bytes. */
export const nameOf = ({ format, country, protocol, anonymity, limit }: ListQuery): string =>
  `${format} ${country ?? ''} ${protocol ?? ''} ${anonymity ?? ''} ${limit}`

/** Nothing in it that must be decoded: two programs could read it otherwise. */
const plain = /^[\w=&-]{0,200}$/

/** Raw queries that are known; the one that was not asked for longest is forgotten. */
const keptQueries = 2_000

/** Reads queries as they stand in a URL, each once. Null: not one to be answered without a second look. */
export const createQueryReader = (): ((raw: string) => ListQuery | null) => {
  const read = new LRUCache<string, { readonly query: ListQuery | null }>(growingTo(keptQueries))
  return (raw) => {
    const before = read.get(raw)
    if (before !== undefined) return before.query
    if (!plain.test(raw)) return null
    const query = listQuery.safeParse(parse(raw)).data ?? null
    read.set(raw, { query })
    return query
  }
}
