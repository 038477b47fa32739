import { facebook } from './rows/facebook.ts'
import { instagram } from './rows/instagram.ts'
import { linkedin } from './rows/linkedin.ts'
import { links } from './rows/links.ts'
import { media } from './rows/media.ts'
import { networks } from './rows/networks.ts'
import { reddit } from './rows/reddit.ts'
import { tiktok } from './rows/tiktok.ts'
import { twitter } from './rows/twitter.ts'
import { web } from './rows/web.ts'
import { youtube } from './rows/youtube.ts'
import { rowName, type ScraperRow } from './scraper.ts'

/** Every scraper, in alphabetical order of platform and operation. */
export const scrapers: readonly ScraperRow[] = [
  ...facebook,
  ...instagram,
  ...linkedin,
  ...reddit,
  ...tiktok,
  ...twitter,
  ...youtube,
  ...networks,
  ...web,
  ...media,
  ...links,
].sort((one, other) => (rowName(one) < rowName(other) ? -1 : 1))

const byName: ReadonlyMap<string, ScraperRow> = new Map(scrapers.map((row) => [rowName(row), row]))

/** The row of `/v1/scrape/{platform}/{operation}`; null if there is none. */
export const scraperOf = (platform: string, operation: string): ScraperRow | null =>
  byName.get(rowName({ platform, operation })) ?? null

/** The platforms, in alphabetical order. */
export const platforms: readonly string[] = [...new Set(scrapers.map(({ platform }) => platform))]
