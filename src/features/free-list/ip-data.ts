import { isIPv4 } from 'node:net'
import timeZoneOf from '@photostructure/tz-lookup'
import ipaddr from 'ipaddr.js'
import { isAlpha2 } from '../../kernel/countries.ts'
import type { Network, NetworkNames, Range } from './ip-tables.ts'
import { type DataFolders, type Family, missingNote, openTables, type Tables } from './ip-tables.ts'

/** Data about an address. Null: not known. */
export type IpFacts = {
  /** ISO 3166-1 alpha-2, lower case. */
  readonly countryCode: string | null
  readonly state: string | null
  readonly city: string | null
  /** Degrees with four decimals: eleven metres. */
  readonly latitude: number | null
  readonly longitude: number | null
  /** Name in the tz database, from the coordinates. */
  readonly timeZone: string | null
  readonly asn: number | null
  readonly asnOrg: string | null
}

export const emptyIpFacts: IpFacts = {
  countryCode: null,
  state: null,
  city: null,
  latitude: null,
  longitude: null,
  timeZone: null,
  asn: null,
  asnOrg: null,
}

/** A network with all address ranges that it announces, of both families. */
export type AnnouncedNetwork = Network & { readonly ranges: readonly Range<string>[] }

export type IpData = {
  /**
   * Data about an IPv4 or IPv6 address. IPv4-mapped IPv6 addresses are read as IPv4. The first call for a family opens
   * its files, which takes a second and up to 100 MB of memory. Later calls do not wait. Rejects with file system
   * errors.
   */
  of(address: string): Promise<IpFacts>
  /** The network only. */
  networkOf(address: string): Promise<Network | null>
  /** Null: no network with this number announces an address. */
  announced(asn: number): Promise<AnnouncedNetwork | null>
  /** What all answers lack because its data is not installed, for people; null: nothing. */
  readonly note: string | null
}

/** Converts table texts for answers: an empty text means unknown. */
const textOrNull = (text: string | undefined): string | null =>
  text === undefined || text === '' ? null : text

const lowerCountry = (code: string | null | undefined): string | null => {
  const alpha2 = code?.toLowerCase() ?? ''
  return isAlpha2(alpha2) ? alpha2 : null
}

const degrees = (value: number): number => Math.round(value * 10_000) / 10_000

/**
 * The country of the city if that is known, so that the two are always consistent. Else the country of the registry.
 */
const factsOf = ({ city, country, networks }: Tables, address: string): IpFacts => {
  const cityRecord = city(address)
  const network = networks.of(address)
  const isLocated = cityRecord !== null && textOrNull(cityRecord.city) !== null
  return {
    countryCode: lowerCountry(cityRecord?.country_code) ?? lowerCountry(country(address)),
    state: textOrNull(cityRecord?.state1),
    city: textOrNull(cityRecord?.city),
    latitude: isLocated ? degrees(cityRecord.latitude) : null,
    longitude: isLocated ? degrees(cityRecord.longitude) : null,
    timeZone: isLocated ? timeZoneOf(cityRecord.latitude, cityRecord.longitude) : null,
    asn: network?.asn ?? null,
    asnOrg: network?.org ?? null,
  }
}

const familyOf = (plainAddress: string): Family => (isIPv4(plainAddress) ? 4 : 6)
const plainOf = (address: string): string => ipaddr.process(address).toString()

/** Looks up address data in the files of the data packages. Files are opened on the first call. */
export const createIpData = (folders: DataFolders): IpData => {
  const names: NetworkNames = new Map()
  const opening = new Map<Family, Promise<Tables>>()

  const open = (family: Family): Promise<Tables> => {
    const open = opening.get(family)
    if (open !== undefined) return open
    const reading = openTables(folders, family, names)
    opening.set(family, reading)
    // A disk error may be temporary, so the next call tries again.
    reading.catch(() => opening.delete(family))
    return reading
  }

  return {
    note: missingNote(folders),
    of: async (address) => {
      const plainAddress = plainOf(address)
      return factsOf(await open(familyOf(plainAddress)), plainAddress)
    },
    networkOf: async (address) => {
      const plainAddress = plainOf(address)
      return (await open(familyOf(plainAddress))).networks.of(plainAddress)
    },
    announced: async (asn) => {
      const tables = await Promise.all([open(4), open(6)])
      const ranges = tables.flatMap(({ networks }) => networks.announcedBy(asn))
      return ranges.length === 0 ? null : { asn, org: names.get(asn) ?? `AS${asn}`, ranges }
    },
  }
}
