import { z } from 'zod'
import { findScrapers } from '../../domain/scrapers/find-scrapers.ts'
import { rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { platforms, scrapers } from '../../domain/scrapers/scraper-table.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { type Micros, parseDollarsToMicros } from '../../kernel/money.ts'
import { refuse } from '../../platform/http/errors.ts'
import { createRouteLimit, type Rate } from '../../platform/http/rate-limiter.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { ScraperHealth } from './provider-health.ts'
import type { Scraping } from './provider-port.ts'
import { ScrapeAnswer } from './routes.ts'
import { answerDetails } from './sample-answer.ts'
import { requireScraper } from './scrape.ts'
import { ScraperSchema, scraperView } from './scraper-schemas.ts'

const ListSchema = z
  .strictObject({
    scrapers: z.array(ScraperSchema),
    total: z.int(),
  })
  .meta({ id: 'ScraperList' })

const FieldSchema = z
  .strictObject({
    path: z.string().meta({
      description:
        'The place of the field in `data`: `posts[].author.name` is a field of each entry of `posts`.',
    }),
    type: z.string().meta({
      description:
        'The type of the value: `string`, `number`, `boolean` or `object`; with `[]` for a list of them; `array` for a list of unknown entries; `any` if it differs between answers.',
    }),
    meaning: z.string(),
    unit: z.string().nullable(),
  })
  .meta({ id: 'ScraperField' })

const DetailSchema = ScraperSchema.extend({
  dataFields: z.array(FieldSchema).meta({
    description:
      'The known fields of `data`, also those of nested objects. Each field can be missing or null, and platforms add fields.',
  }),
  sample: ScrapeAnswer,
}).meta({ id: 'ScraperDetail' })

const exampleRow = requireScraper('reddit', 'subreddit')
const exampleView = scraperView(exampleRow, 'live', {
  calls: 412,
  successShare: 0.9903,
  p50Ms: 2_000,
  p95Ms: 4_000,
  lastGoodAt: '2026-11-21T02:30:00.000Z',
})
const example = { scrapers: [exampleView], total: 1 }

/** The list needs no key, so each address has its own limit. */
const listRate: Rate = { burst: 60, perSecond: 2 }

const priceForm = 'dollars such as 0.0050'

const listQuery = z.object({
  q: z.string().min(1).max(100).optional().meta({
    description:
      'Words with spaces between. Each must be a part of the platform, the operation, the descriptions, or a field of the answer. Case and underscores do not matter. Scrapers with all words in their name come first.',
  }),
  field: z.string().min(1).max(100).optional().meta({
    description:
      'A part of the path of a field of the answer, such as `email` or `author.name`. Case and underscores do not matter.',
  }),
  maxPriceUsd: z
    .string()
    .regex(/^\d{1,4}(\.\d{1,6})?$/)
    .transform((dollars) => parseDollarsToMicros(dollars) as Micros)
    .optional()
    .meta({
      description: `The maximum price of a call: ${priceForm}.`,
      words: priceForm,
      override: { type: 'string', pattern: '^[0-9]{1,4}(\\.[0-9]{1,6})?$' },
    }),
})

/** The list of scrapers, and each with all fields of its answer: docs/guides/scrapers.md. */
export const scraperListRoutes = (dependencies: {
  readonly scraping: Pick<Scraping, 'stateOf'>
  readonly health: Pick<ScraperHealth, 'read'>
  readonly monotonicMs: MonotonicClock
}): readonly Route[] => {
  const { scraping, health, monotonicMs } = dependencies
  const limit = createRouteLimit('address', listRate, monotonicMs)

  const readViews = async () => {
    const healthByName = await health.read()
    return (row: ScraperRow) => scraperView(row, scraping.stateOf(row), healthByName.get(rowName(row)))
  }
  const scraperList = async (rows: readonly ScraperRow[]) => {
    const views = rows.map(await readViews())
    return { status: 200 as const, body: { scrapers: views, total: views.length } }
  }
  const common = {
    method: 'GET',
    tag: 'Scrapers',
    access: 'public',
    writes: false,
    cors: true,
    limit,
  } as const

  return [
    route({
      ...common,
      path: '/v1/scrape',
      operationId: 'listScrapers',
      summary: 'List scrapers',
      description:
        'Every scraper with its price, its fields, an example, its availability, and its health in the last 24 hours. `q`, `field` and `maxPriceUsd` select scrapers.',
      query: listQuery,
      examples: { query: { q: 'tiktok profile' } },
      responses: { 200: { description: 'The scrapers, sorted by name.', body: ListSchema, example } },
      errors: [],
      handler: ({ query: { q, field, maxPriceUsd } }) =>
        scraperList(findScrapers({ words: q, field, maxPriceMicros: maxPriceUsd })),
    }),
    route({
      ...common,
      path: '/v1/scrape/{platform}',
      operationId: 'listPlatformScrapers',
      summary: 'List scrapers of a platform',
      description:
        'Every scraper of one platform with its price, its fields, an example, its availability, and its health in the last 24 hours.',
      params: z.object({ platform: z.string().max(100) }),
      examples: { params: { platform: 'reddit' } },
      responses: {
        200: { description: 'The scrapers of the platform, sorted by name.', body: ListSchema, example },
      },
      errors: ['unknown_scraper'],
      handler: ({ params: { platform } }) => {
        if (!platforms.includes(platform))
          throw refuse('unknown_scraper', `no scraper has this platform; there are ${platforms.join(', ')}`)
        return scraperList(scrapers.filter((row) => row.platform === platform))
      },
    }),
    route({
      ...common,
      path: '/v1/scrape/{platform}/{operation}',
      operationId: 'getScraper',
      summary: 'Get a scraper',
      description:
        'One scraper as in the list, with every known field of its answer, and a complete answer whose values are invented in `sample`.',
      params: z.object({ platform: z.string().max(100), operation: z.string().max(100) }),
      examples: { params: { platform: exampleRow.platform, operation: exampleRow.operation } },
      responses: {
        200: {
          description: 'The scraper.',
          body: DetailSchema,
          example: { ...exampleView, ...answerDetails(exampleRow) },
        },
      },
      errors: ['unknown_scraper'],
      handler: async ({ params: { platform, operation } }) => {
        const row = requireScraper(platform, operation)
        const viewOf = await readViews()
        return { status: 200 as const, body: { ...viewOf(row), ...answerDetails(row) } }
      },
    }),
  ]
}
