import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import type { Endpoint } from '../../domain/free-list/endpoint.ts'
import type { Clock } from '../../kernel/clock.ts'
import { countryOfAlpha2 } from '../../kernel/countries.ts'
import type { RouteLimit } from '../../platform/http/rate-limiter.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { isAllowedAddress } from '../../platform/outgoing/target.ts'
import { attribution, emptyIpFacts, type IpData, type IpFacts, type LiveList } from '../free-list/index.ts'

const form = 'an IPv4 or IPv6 address such as 8.8.8.8 or 2001:4860:4860::8888, without a port or a zone'

/** An address as text. */
export const ipField = (description: string) =>
  z
    .string()
    .regex(/^[0-9A-Fa-f.:]{2,45}$/)
    .refine((text) => isIP(text) !== 0, `must be ${form}`)
    .meta({ description, words: form })

/** The answer of `GET /api/ip-lookup` and of the tool `ip_lookup`. */
export const IpLookup = z
  .object({
    ip: z.string().meta({
      description: 'The address in its shortest form. An IPv4 address in IPv6 form is shown as IPv4.',
    }),
    version: z.int().min(4).max(6).meta({ description: '4 or 6.' }),
    reserved: z.boolean().meta({
      description: 'True: the address is private, loopback or reserved, so the internet does not route it.',
    }),
    country_code: z
      .string()
      .nullable()
      .meta({ description: 'The country as an ISO 3166-1 alpha-2 code in lower case. Null: unknown.' }),
    country: z.string().nullable(),
    state: z.string().nullable(),
    city: z.string().nullable(),
    latitude: z.number().nullable(),
    longitude: z.number().nullable(),
    timezone: z.string().nullable().meta({
      description: 'The time zone at the coordinates, as a name of the tz database. Null: unknown.',
    }),
    asn: z.int().nullable(),
    asn_org: z.string().nullable(),
    is_proxy: z.boolean().meta({
      description:
        'True: a public proxy answered at this address in the last 24 hours, or uses it as its exit address now.',
    }),
    in_live_list: z.boolean().meta({
      description: 'True: a proxy of the live list listens at this address or uses it as its exit address.',
    }),
    note: z.string().nullable().meta({
      description:
        'The fields that are null because the service has no data for them. Null: no data is missing.',
    }),
    attribution: z.string().meta({ description: 'The sources of the data. Show this text with the data.' }),
  })
  .meta({ id: 'IpLookup' })

export type IpLookup = z.output<typeof IpLookup>

export const lookupExample: IpLookup = {
  ip: '8.8.8.8',
  version: 4,
  reserved: false,
  country_code: 'us',
  country: 'United States',
  state: 'California',
  city: 'Mountain View',
  latitude: 37.422,
  longitude: -122.085,
  timezone: 'America/Los_Angeles',
  asn: 15169,
  asn_org: 'Google LLC',
  is_proxy: false,
  in_live_list: false,
  note: null,
  attribution,
}

/** Looks up an IPv4 or IPv6 address. Rejects when the stored endpoints or the data cannot be read. */
export type LookUp = (address: string) => Promise<IpLookup>

const dayMs = 86_400_000

const answeredSince =
  (sinceMs: number) =>
  ({ lastAnswered }: Endpoint): boolean =>
    lastAnswered !== null && Date.parse(lastAnswered) >= sinceMs

const placed = (facts: IpFacts) => ({
  country_code: facts.countryCode,
  country: facts.countryCode === null ? null : countryOfAlpha2(facts.countryCode).name,
  state: facts.state,
  city: facts.city,
  latitude: facts.latitude,
  longitude: facts.longitude,
  timezone: facts.timeZone,
  asn: facts.asn,
  asn_org: facts.asnOrg,
})

export const createLookUp = (dependencies: {
  readonly data: IpData
  readonly list: LiveList
  /** All stored ports of an address. */
  readonly readAddress: (ip: string, nowMs: number) => Promise<readonly Endpoint[]>
  /** Reserved addresses that still have a location: those of the sandbox. */
  readonly isSandboxAddress: (ip: string) => boolean
  readonly clock: Clock
}): LookUp => {
  const { data, list, readAddress, isSandboxAddress, clock } = dependencies
  return async (address) => {
    const parsed = ipaddr.process(address)
    const ip = parsed.toString()
    const reserved = !isAllowedAddress(ip, { allowLoopback: false })
    const nowMs = clock()
    const [facts, liveAddresses, endpoints] = await Promise.all([
      reserved && !isSandboxAddress(ip) ? emptyIpFacts : data.of(ip),
      list.current(),
      readAddress(ip, nowMs),
    ])
    const isListed = liveAddresses.has(ip)
    return {
      ip,
      version: parsed.kind() === 'ipv4' ? 4 : 6,
      reserved,
      ...placed(facts),
      is_proxy: isListed || endpoints.some(answeredSince(nowMs - dayMs)),
      in_live_list: isListed,
      note: data.note,
      attribution,
    }
  }
}

/** `GET /api/ip-lookup`: the location and network of an address. Public. */
export const ipLookupRoutes = (dependencies: {
  readonly lookUp: LookUp
  readonly limit: RouteLimit
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/ip-lookup',
    operationId: 'lookUpIp',
    summary: 'Locate an IP address',
    description:
      "The country, city, network and time zone of an address, and whether the address is a public proxy. For a private or reserved address, all other fields are null. No key is required. Locations are estimates: a city can be wrong by an hour's drive.",
    tag: 'Free tools',
    access: 'public',
    writes: false,
    cors: true,
    query: z.object({
      ip: ipField('The address to locate. Left out: the address of the client.').optional(),
    }),
    codes: { query: { ip: 'invalid_ip' } },
    examples: { query: { ip: lookupExample.ip } },
    limit: dependencies.limit,
    responses: { 200: { description: 'The data for the address.', body: IpLookup, example: lookupExample } },
    errors: [],
    handler: async ({ query, address }) => ({
      status: 200,
      body: await dependencies.lookUp(query.ip ?? address),
    }),
  }),
]
