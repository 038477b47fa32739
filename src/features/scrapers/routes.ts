import { z } from 'zod'
import { rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { platforms, scraperOf, scrapers } from '../../domain/scrapers/scraper-table.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { refuse } from '../../platform/http/errors.ts'
import { createRateLimiter, type Rate } from '../../platform/http/rate-limit.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { ScraperHealth } from './provider-health.ts'
import type { Scraping } from './provider-port.ts'
import { ScraperSchema, scraperView } from './scraper-schemas.ts'

const ListSchema = z
  .strictObject({
    scrapers: z.array(ScraperSchema),
    total: z.int(),
  })
  .meta({ id: 'ScraperList' })

const exampleRow = scraperOf('reddit', 'subreddit')
const exampleView =
  exampleRow === null
    ? undefined
    : scraperView(exampleRow, 'live', {
        calls: 412,
        successShare: 0.9903,
        p50Ms: 2_000,
        p95Ms: 4_000,
        lastGoodAt: '2026-11-21T02:30:00.000Z',
      })
const example = exampleView && { scrapers: [exampleView], total: 1 }

/** The list needs no key, so each address has its own limit. */
const listRate: Rate = { burst: 60, perSecond: 2 }

/** The list of scrapers: docs/scrapers.md. */
export const scraperListRoutes = (deps: {
  readonly scraping: Pick<Scraping, 'stateOf'>
  readonly health: Pick<ScraperHealth, 'read'>
  readonly monotonicMs: MonotonicClock
  readonly limited: boolean
}): readonly Route[] => {
  const { scraping, health, monotonicMs, limited } = deps
  const limiter = createRateLimiter(listRate, monotonicMs)
  const limit = { per: 'address', take: (address: string) => limiter.take(address) } as const

  const scraperList = async (rows: readonly ScraperRow[]) => {
    const healthByName = await health.read()
    const views = rows.map((row) => scraperView(row, scraping.stateOf(row), healthByName.get(rowName(row))))
    return { status: 200 as const, body: { scrapers: views, total: views.length } }
  }
  const common = {
    method: 'GET',
    tag: 'Scrapers',
    access: 'public',
    writes: false,
    cors: true,
    ...(limited && { limit }),
  } as const

  return [
    route({
      ...common,
      path: '/v1/scrape',
      operationId: 'listScrapers',
      summary: 'List scrapers',
      description:
        'Every scraper with its price, its fields, an example, whether it can be called now, and how it did in the last 24 hours. `q` leaves those whose name or summary holds a text.',
      query: z.object({
        q: z
          .string()
          .min(1)
          .max(100)
          .optional()
          .meta({ description: 'A part of a name or summary, in any case.' }),
      }),
      responses: { 200: { description: 'The scrapers, by name.', body: ListSchema, example } },
      errors: [],
      handler: ({ query: { q } }) => {
        const searchText = q?.toLowerCase() ?? ''
        return scraperList(
          scrapers.filter((row) => `${rowName(row)} ${row.summary}`.toLowerCase().includes(searchText)),
        )
      },
    }),
    route({
      ...common,
      path: '/v1/scrape/{platform}',
      operationId: 'listPlatformScrapers',
      summary: 'List scrapers of a platform',
      description: 'The same of one platform.',
      params: z.object({ platform: z.string().max(100) }),
      examples: { params: { platform: 'reddit' } },
      responses: {
        200: { description: 'The scrapers of the platform, by name.', body: ListSchema, example },
      },
      errors: ['unknown_scraper'],
      handler: ({ params: { platform } }) => {
        if (!platforms.includes(platform))
          throw refuse('unknown_scraper', `no scraper has this platform; there are ${platforms.join(', ')}`)
        return scraperList(scrapers.filter((row) => row.platform === platform))
      },
    }),
  ]
}
