import type { IpData } from '../../features/free-list/index.ts'
import { sandboxLocationOf, sandboxRangesOf } from '../exit-locations.ts'

/** Adds the sandbox addresses to the IP data, because no data package contains loopback addresses. */
export const withSandboxLocations = (data: IpData): IpData => {
  const orgOf = (ip: string): string | null => sandboxLocationOf(ip)?.org ?? null
  return {
    note: data.note,
    of: async (address) => {
      const place = sandboxLocationOf(address)
      if (place === null) return data.of(address)
      const { country, state, city, asn, org } = place
      return {
        countryCode: country,
        state,
        city,
        latitude: null,
        longitude: null,
        timeZone: null,
        asn,
        asnOrg: org,
      }
    },
    networkOf: async (address) => {
      const place = sandboxLocationOf(address)
      return place === null ? data.networkOf(address) : { asn: place.asn, org: place.org }
    },
    announced: async (asn) => {
      const ranges = sandboxRangesOf(asn)
      const real = await data.announced(asn)
      const [some] = ranges
      if (some === undefined) return real
      return {
        asn,
        org: orgOf(some.first) ?? real?.org ?? `AS${asn}`,
        ranges: [...ranges, ...(real?.ranges ?? [])],
      }
    },
  }
}
