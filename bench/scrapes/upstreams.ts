import type { ScraperRow } from '../../src/domain/scrapers/scraper.ts'
import { exampleBody, rowName } from '../../src/domain/scrapers/scraper.ts'
import { scraperOf } from '../../src/domain/scrapers/scraper-table.ts'

/** A scraper that is called, and how long the stand-in takes for it. */
export type Upstream = { readonly row: ScraperRow; readonly delayMs: number; readonly body: string }

const upstream = (platform: string, operation: string, delayMs: number): Upstream => {
  const row = scraperOf(platform, operation)
  if (row === null) throw new Error(`no scraper ${platform}/${operation}`)
  return { row, delayMs, body: JSON.stringify(exampleBody(row)) }
}

/** One platform each, so that the places and breakers of one are not those of another. */
export const upstreams = {
  instant: upstream('reddit', 'subreddit', 0),
  steady: upstream('youtube', 'channel', 100),
  slow: upstream('tiktok', 'profile', 4_000),
} as const

/** Where the service takes calls of it. */
export const scrapePath = ({ row }: Upstream): string => `/v1/scrape/${rowName(row)}`
