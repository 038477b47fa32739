import type { IpData } from '../../features/free-list/index.ts'
import { sandboxLocationOf, sandboxRangesOf } from '../exit-locations.ts'

/** Adds the sandbox addresses to the IP data, because no data package contains loopback addresses. */
export const withSandboxLocations = (data: IpData): IpData => {
  const orgOf = (ip: string): string | null => sandboxLocationOf(ip)?.org ?? null
  return {
    note: data.note,
    of: async (address) => {
      const location = sandboxLocationOf(address)
      if (location === null) return data.of(address)
      const { country, state, city, asn, org } = location
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
      const location = sandboxLocationOf(address)
      return location === null ? data.networkOf(address) : { asn: location.asn, org: location.org }
    },
    announced: async (asn) => {
      const ranges = sandboxRangesOf(asn)
      const realNetwork = await data.announced(asn)
      const [firstRange] = ranges
      if (firstRange === undefined) return realNetwork
      return {
        asn,
        org: orgOf(firstRange.first) ?? realNetwork?.org ?? `AS${asn}`,
        ranges: [...ranges, ...(realNetwork?.ranges ?? [])],
      }
    },
  }
}
