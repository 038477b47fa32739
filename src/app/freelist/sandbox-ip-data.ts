import type { IpData } from '../../freelist/ip-data/ip-data.ts'
import { sandboxPlaceOf, sandboxRangesOf } from '../../sandbox/free-places.ts'

/** The data about addresses, with those of the sandbox in it: no package knows a loopback address. */
export const withSandboxPlaces = (data: IpData): IpData => {
  const orgOf = (ip: string): string | null => sandboxPlaceOf(ip)?.org ?? null
  return {
    note: data.note,
    of: async (address) => {
      const place = sandboxPlaceOf(address)
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
      const place = sandboxPlaceOf(address)
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
