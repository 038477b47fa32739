import { z } from 'zod'
import type { IpFacts } from '../ip-data/ip-data.ts'
import { anonymities, type Endpoint, protocols } from '../record/endpoint.ts'

/** One proxy that answered its last check, as the list shows it. The place and the network are those of `ip`. */
export const ListEntry = z
  .object({
    ip: z.string(),
    port: z.int(),
    protocols: z.array(z.enum(protocols)).meta({ description: 'All that its last check got through.' }),
    anonymity: z.enum(anonymities).nullable(),
    country_code: z.string().nullable().meta({ description: 'ISO 3166-1 alpha-2, lower case.' }),
    city: z.string().nullable(),
    asn: z.int().nullable(),
    asn_org: z.string().nullable(),
    latency_ms: z
      .int()
      .nullable()
      .meta({ description: 'The median of the last ten checks that it answered.' }),
    uptime_24h: z
      .number()
      .nullable()
      .meta({ description: 'Percent of the checks of the last 24 hours that it answered.' }),
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

const orLast = (value: number | null): number => value ?? Number.MAX_SAFE_INTEGER

/** What the order of the list looks at. */
export type Worth = Pick<ListEntry, 'uptime_24h' | 'latency_ms' | 'ip' | 'port'>

/** The one that was up most comes first, then the quicker one; then by address, so that the order is always the same. */
export const byWorth = (a: Worth, b: Worth): number =>
  (b.uptime_24h ?? -1) - (a.uptime_24h ?? -1) ||
  orLast(a.latency_ms) - orLast(b.latency_ms) ||
  (a.ip < b.ip ? -1 : a.ip > b.ip ? 1 : a.port - b.port)
