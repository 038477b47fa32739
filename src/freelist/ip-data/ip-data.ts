import { readFile } from 'node:fs/promises'
import { isIPv4 } from 'node:net'
import { join } from 'node:path'
import timeZoneOf from '@photostructure/tz-lookup'
import ipaddr from 'ipaddr.js'
import { type CityResponse, Reader, type Response } from 'maxmind'
import { isAlpha2 } from '../../terms/countries.ts'
import { type AsRanges, type NetworkNames, readAsRanges4, readAsRanges6 } from './as-ranges.ts'
import { type DataFolders, missingNote } from './packages.ts'

/** What is known of an address. Null: not known. */
export type IpFacts = {
  /** ISO 3166-1 alpha-2, lower case. */
  readonly countryCode: string | null
  readonly state: string | null
  readonly city: string | null
  /** Degrees. */
  readonly latitude: number | null
  readonly longitude: number | null
  /** Of the tz database, by the coordinates. */
  readonly timeZone: string | null
  readonly asn: number | null
  readonly asnOrg: string | null
}

export const nothingKnown: IpFacts = {
  countryCode: null,
  state: null,
  city: null,
  latitude: null,
  longitude: null,
  timeZone: null,
  asn: null,
  asnOrg: null,
}

export type IpData = {
  /**
   * What is known of an IPv4 or IPv6 address; an IPv4 address in IPv6 form is read as what it is. The first question of
   * a family opens its files, which takes a second and up to 100 MB of memory; every further one waits for nothing.
   * @throws what the file system throws
   */
  of(address: string): Promise<IpFacts>
  /** What every answer lacks because its data is not installed, for people; null: nothing. */
  readonly note: string | null
}

/** A record of `dbip-city-mmdb`: an empty text where nothing is known. */
type CityRecord = {
  readonly country_code: string
  readonly state1: string
  readonly city: string
  readonly latitude: number
  readonly longitude: number
}

type Family = 4 | 6
/** The tables of one family of addresses. */
type Tables = {
  city(address: string): CityRecord | null
  country(address: string): string | null
  network(address: string): { readonly asn: number; readonly org: string } | null
}

const none = (): null => null

const readerOf = async <Record extends object>(
  folder: string | null,
  file: string,
): Promise<(address: string) => Record | null> => {
  if (folder === null) return none
  // Only `get` is used, and what it returns is whatever the file holds.
  const reader = new Reader<Response>(await readFile(join(folder, file)))
  return (address) => reader.get(address) as CityResponse as unknown as Record | null
}

const number4 = (address: string): number =>
  ipaddr.IPv4.parse(address).octets.reduce((sum, octet) => sum * 256 + octet, 0)

const number6 = (address: string): bigint =>
  ipaddr.IPv6.parse(address).parts.reduce((sum, part) => (sum << 16n) | BigInt(part), 0n)

const networkOf = async (
  folder: string | null,
  family: Family,
  names: NetworkNames,
): Promise<Tables['network']> => {
  if (folder === null) return none
  const file = join(folder, `asn-ipv${family}-num.csv`)
  if (family === 6) {
    const ranges: AsRanges<bigint> = await readAsRanges6(file, names)
    return (address) => ranges.of(number6(address))
  }
  const ranges: AsRanges<number> = await readAsRanges4(file, names)
  return (address) => ranges.of(number4(address))
}

/** Texts of the tables as answers show them: an empty one says that nothing is known. */
const known = (text: string | undefined): string | null => (text === undefined || text === '' ? null : text)

const lowerCountry = (code: string | null | undefined): string | null => {
  const alpha2 = code?.toLowerCase() ?? ''
  return isAlpha2(alpha2) ? alpha2 : null
}

/**
 * The country is that of the city where one is known, so that the two never contradict each other; registries name the
 * country of the rest.
 */
const factsOf = ({ city, country, network }: Tables, address: string): IpFacts => {
  const place = city(address)
  const announced = network(address)
  const located = place !== null && known(place.city) !== null
  return {
    countryCode: lowerCountry(place?.country_code) ?? lowerCountry(country(address)),
    state: known(place?.state1),
    city: known(place?.city),
    latitude: located ? place.latitude : null,
    longitude: located ? place.longitude : null,
    timeZone: located ? timeZoneOf(place.latitude, place.longitude) : null,
    asn: announced?.asn ?? null,
    asnOrg: announced?.org ?? null,
  }
}

/** Facts about addresses from the files of the data packages. Nothing is opened before the first question. */
export const createIpData = (folders: DataFolders): IpData => {
  const names: NetworkNames = new Map()
  const opening = new Map<Family, Promise<Tables>>()

  const read = async (family: Family): Promise<Tables> => {
    const [city, country, network] = await Promise.all([
      readerOf<CityRecord>(folders.city, `dbip-city-ipv${family}.mmdb`),
      readerOf<{ country_code: string }>(folders.country, `geo-whois-asn-country-ipv${family}.mmdb`),
      networkOf(folders.network, family, names),
    ])
    return { city, country: (address) => country(address)?.country_code ?? null, network }
  }

  const open = (family: Family): Promise<Tables> => {
    const open = opening.get(family)
    if (open !== undefined) return open
    const reading = read(family)
    opening.set(family, reading)
    // A fault of the disk may pass: the next question tries again.
    reading.catch(() => opening.delete(family))
    return reading
  }

  return {
    note: missingNote(folders),
    of: async (address) => {
      const plain = ipaddr.process(address).toString()
      return factsOf(await open(isIPv4(plain) ? 4 : 6), plain)
    },
  }
}
