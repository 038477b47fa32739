import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import type { Clock } from '../../kernel/clock.ts'
import { isAllowedAddress } from '../../platform/outgoing/target.ts'
import { countryOfAlpha2 } from '../../terms/countries.ts'
import { type IpData, type IpFacts, nothingKnown } from '../ip-data/ip-data.ts'
import { attribution } from '../ip-data/packages.ts'
import type { LiveList } from '../list/live-list.ts'
import type { Endpoint } from '../record/endpoint.ts'

/** What `GET /api/ip-lookup` and the tool `ip_lookup` answer. */
export const IpLookup = z
  .object({
    ip: z.string().meta({ description: 'In its shortest form; IPv4 in IPv6 form is read as IPv4.' }),
    version: z.union([z.literal(4), z.literal(6)]),
    reserved: z.boolean().meta({
      description: 'Private, loopback or set aside for another use: nobody on the internet has it.',
    }),
    country_code: z.string().nullable().meta({ description: 'ISO 3166-1 alpha-2, lower case.' }),
    country: z.string().nullable(),
    state: z.string().nullable(),
    city: z.string().nullable(),
    latitude: z.number().nullable(),
    longitude: z.number().nullable(),
    timezone: z.string().nullable().meta({ description: 'Of the tz database, by the coordinates.' }),
    asn: z.int().nullable(),
    asn_org: z.string().nullable(),
    is_proxy: z.boolean().meta({
      description: 'A public proxy answered at this address in the last 24 hours, or goes out by it now.',
    }),
    in_live_list: z
      .boolean()
      .meta({ description: 'It is in the live list now, as where a proxy listens or goes out.' }),
    note: z
      .string()
      .nullable()
      .meta({ description: 'What is null because the service has no data for it; null: nothing.' }),
    attribution: z.string().meta({ description: 'Whom the data is from: show it with the data.' }),
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

/** Looks an IPv4 or IPv6 address up. Rejects when the record or the data cannot be read. */
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

export const createLookUp = (deps: {
  readonly data: IpData
  readonly list: LiveList
  /** All ports of an address that are on record. */
  readonly readAddress: (ip: string, nowMs: number) => Promise<readonly Endpoint[]>
  /** Reserved addresses that have a place all the same: those of the sandbox. */
  readonly isSandboxAddress: (ip: string) => boolean
  readonly clock: Clock
}): LookUp => {
  const { data, list, readAddress, isSandboxAddress, clock } = deps
  return async (address) => {
    const parsed = ipaddr.process(address)
    const ip = parsed.toString()
    const reserved = !isAllowedAddress(ip, { allowLoopback: false })
    const nowMs = clock()
    const [facts, live, endpoints] = await Promise.all([
      reserved && !isSandboxAddress(ip) ? nothingKnown : data.of(ip),
      list.current(),
      readAddress(ip, nowMs),
    ])
    const listed = live.has(ip)
    return {
      ip,
      version: parsed.kind() === 'ipv4' ? 4 : 6,
      reserved,
      ...placed(facts),
      is_proxy: listed || endpoints.some(answeredSince(nowMs - dayMs)),
      in_live_list: listed,
      note: data.note,
      attribution,
    }
  }
}
