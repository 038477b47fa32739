import { z } from 'zod'
import { exampleBody, rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { platforms, scraperOf, scrapers } from '../../domain/scrapers/scraper-table.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import { wordQuery } from '../../platform/http/query.ts'
import { createRouteLimit, type Rate } from '../../platform/http/rate-limiter.ts'
import { accountOnly, JsonBytes, type Route, replayHeaders, route } from '../../platform/http/route.ts'
import { answerOf, billingHeaders, withHeaders } from './call-answer.ts'
import type { ScrapeRate } from './call-rate.ts'
import type { ScraperHealth } from './provider-health.ts'
import type { CacheDays, ScrapeInput, Scraping } from './provider-port.ts'
import { inputOf, requireScraper, type Scrapes } from './scrape.ts'
import { bodySchema, dataSchema, ScraperSchema, scraperView } from './scraper-schemas.ts'

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

/** The list of scrapers: docs/guides/scrapers.md. */
export const scraperListRoutes = (dependencies: {
  readonly scraping: Pick<Scraping, 'stateOf'>
  readonly health: Pick<ScraperHealth, 'read'>
  readonly monotonicMs: MonotonicClock
  readonly limited: boolean
}): readonly Route[] => {
  const { scraping, health, monotonicMs, limited } = dependencies
  const limit = createRouteLimit('address', listRate, monotonicMs)

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
        'Every scraper with its price, its fields, an example, its availability, and its health in the last 24 hours. `q` selects scrapers by a text in the name or summary.',
      query: z.object({
        q: z
          .string()
          .min(1)
          .max(100)
          .optional()
          .meta({ description: 'A part of a name or summary, in upper or lower case.' }),
      }),
      responses: { 200: { description: 'The scrapers, sorted by name.', body: ListSchema, example } },
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
  ]
}

export const ScrapeAnswer = z
  .object({
    platform: z.string(),
    operation: z.string(),
    requestId: z
      .string()
      .meta({ description: 'The `X-Request-Id` of the call, from the client or created by the server.' }),
    data: z.json().meta({
      description: 'The public data of the platform. The `fields` of the scraper list the known fields.',
    }),
    nextCursor: z.string().nullable().meta({
      description:
        'The start of the next page. Send this value in `cursor`, or in `page` if the scraper has that field. Null: this is the last page.',
    }),
    billing: z.object({
      priceUsd: z
        .string()
        .meta({ description: 'The price of the scraper, in dollars with four decimals.', example: '0.0030' }),
      billed: z.boolean().meta({
        description: 'True: the call was charged, to the request that made it. Repeats have the same body.',
      }),
    }),
    fetchedAt: z.string().meta({ format: 'date-time' }),
    cached: z.boolean().meta({ description: 'True: this is an earlier answer. `fetchedAt` is its time.' }),
  })
  .meta({ id: 'ScrapeAnswer' })

const { data, nextCursor, fetchedAt, cached, ...common } = ScrapeAnswer.shape

/**
 * The answer of a call, or of a dry run, which describes a call without making it. It is one object, because generators
 * make no usable type of a choice between objects.
 */
const callAnswer = (dataOfCall: z.ZodType) =>
  z.object({
    ...common,
    data: dataOfCall.optional(),
    nextCursor: nextCursor.optional(),
    fetchedAt: fetchedAt.optional(),
    cached: cached.optional(),
    dryRun: z
      .boolean()
      .optional()
      .meta({ description: 'True: no call was made, and there is no `data`. Else it is left out.' }),
    input: z
      .record(z.string(), z.json())
      .optional()
      .meta({ description: 'With `dryRun`: the fields that a call sends to the platform.' }),
    costUsd: z.string().optional().meta({
      description:
        'With `dryRun`: the cost of a billed call, in dollars with four decimals. `0.0000`: there is an answer that `cacheMaxAge` accepts, and `cached` is true.',
      example: '0.0030',
    }),
  })

const CallAnswer = callAnswer(data).meta({ id: 'ScrapeCallAnswer' })

const ageWords = ['1d', '3d', '7d', '14d', '30d'] as const
type AgeWord = (typeof ageWords)[number]

/** The accepted age of an earlier answer. @throws ApiError bad_input, if no answers of the scraper are used again */
export const acceptedAge = (row: ScraperRow, word: AgeWord | undefined): CacheDays | undefined => {
  if (word === undefined) return undefined
  if (!row.source.isCacheable)
    throw refuse('bad_input', 'no answers of this scraper are cached', {
      details: 'cacheMaxAge must be left out for this scraper',
    })
  return Number.parseInt(word, 10) as CacheDays
}

/** The options of calls and of batches. */
export const query = z.object({
  dryRun: z
    .enum(['true', 'false'])
    .default('false')
    .meta({
      description:
        'True: the request only checks the fields and returns the cost. No call is made, and nothing is charged.',
      override: { type: 'boolean', default: false },
    }),
  cacheMaxAge: wordQuery(
    ageWords,
    'The maximum age of an earlier answer to the account, in days. If there is one, the call is free. For scrapers with `isCacheable` only.',
    'ScrapeCacheAge',
  ).optional(),
})

export const scrapeExample = {
  platform: 'reddit',
  operation: 'subreddit',
  requestId: 'scrape-1',
  data: { display_name: 'askreddit', subscribers: 57_000_000 },
  nextCursor: null,
  billing: { priceUsd: '0.0030', billed: true },
  fetchedAt: '2026-11-21T02:30:00.000Z',
  cached: false,
} as const satisfies z.input<typeof ScrapeAnswer>

/** Headers of each answer of a call, and of its refusals once the scraper is known. */
export const headers = {
  'X-Price-Usd': 'The price of the scraper, in dollars with four decimals.',
  'X-Billed': '`true`: this request was charged. A repeated answer is not charged again.',
  'X-Balance-Usd':
    'The available balance of the wallet after the call, in dollars with four decimals. Absent in dry runs and repeated answers.',
  ...replayHeaders,
}

/** Adds billing headers to refusals of calls. */
const withBillingHeaders = async <Value>(priceMicros: number, work: () => Promise<Value>): Promise<Value> => {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof ApiError) || error.headers?.['x-billed'] !== undefined) throw error
    throw withHeaders(error, billingHeaders({ priceMicros, billed: false, replayed: false }))
  }
}

const dryRunOf = (row: ScraperRow, input: ScrapeInput, requestId: string, cached: boolean) => ({
  status: 200 as const,
  body: {
    platform: row.platform,
    operation: row.operation,
    requestId,
    dryRun: true as const,
    input,
    cached,
    costUsd: dollarsOfMicros(cached ? 0 : row.priceMicros),
    billing: { priceUsd: dollarsOfMicros(row.priceMicros), billed: false as const },
  },
  headers: billingHeaders({ priceMicros: row.priceMicros, billed: false, replayed: false }),
  position: null,
})

/** Calls of scrapers: docs/guides/scrapers.md. */
export const scrapeRoutes = (dependencies: {
  readonly scrapes: Scrapes
  readonly clock: Clock
  /** Null: limits are off. */
  readonly rate: ScrapeRate | null
}): readonly Route[] => {
  const { scrapes, clock, rate } = dependencies
  return [
    route({
      method: 'POST',
      path: '/v1/scrape/{platform}/{operation}',
      operationId: 'scrape',
      summary: 'Call a scraper',
      description:
        'Fetches public data of a platform and charges the wallet the price of the scraper. A call is charged if it has a result, or if the platform says that the target does not exist. Other calls are not charged. A retry with the same `X-Request-Id` or `Idempotency-Key` and body returns the first answer again, byte for byte, for 24 hours, and is never charged twice. A failed call is made again. `GET /v1/scrape` lists the scrapers with their fields and prices.',
      tag: 'Scrapers',
      access: 'scrape',
      writes: true,
      customer: accountOnly('what a scraper costs is paid from the wallet, which is'),
      requestIdIsKey: true,
      hasResult: scrapes.hasResult,
      params: z.object({ platform: z.string(), operation: z.string() }),
      query,
      body: z.record(z.string(), z.json()).meta({
        description: 'The fields of the scraper.',
        override: { type: 'object', additionalProperties: true },
      }),
      examples: {
        params: { platform: scrapeExample.platform, operation: scrapeExample.operation },
        body: { subreddit: 'AskReddit' },
      },
      ...(rate && { limit: rate }),
      responses: {
        200: {
          description:
            'The data, or an answer without data if nothing was found. With `dryRun=true`: the fields and the price of the call.',
          body: CallAnswer,
          example: scrapeExample,
          headers,
        },
      },
      errorHeaders: headers,
      errors: [
        'unknown_scraper',
        'bad_input',
        'idempotency_conflict',
        'result_expired',
        'spend_cap_reached',
        'insufficient_balance',
        'target_not_found',
        'target_restricted',
        'provider_failed',
        'upstream_credits_exhausted',
        'upstream_auth_rejected',
        'scraper_unavailable',
      ],
      handler: async ({
        caller,
        requestId,
        params: { platform, operation },
        query: { dryRun, cacheMaxAge },
        idempotencyKey,
        body,
      }) => {
        const row = requireScraper(platform, operation)
        const { accountId, keyId, capKeyId, cap } = caller
        return withBillingHeaders(row.priceMicros, async () => {
          const maxAgeDays = acceptedAge(row, cacheMaxAge)
          if (dryRun === 'true') {
            const input = inputOf(row, body)
            const [cached = false] = await scrapes.cached(accountId, row, [input], maxAgeDays, clock())
            return dryRunOf(row, input, requestId, cached)
          }
          const finishedCall = await scrapes.call({
            accountId,
            keyId,
            capKeyId,
            cap,
            requestId,
            fresh: idempotencyKey === null,
            row,
            body,
            ...(maxAgeDays && { maxAgeDays }),
          })
          const { bytes, headers, position } = answerOf(finishedCall)
          return {
            status: 200 as const,
            body: JsonBytes.again<z.input<typeof CallAnswer>>(bytes),
            headers,
            position,
          }
        })
      },
    }),
  ]
}

const sentence = (text: string): string => `${text}.`

const nameOf = ({ platform, operation }: ScraperRow): string =>
  [platform, ...operation.split('-')]
    .map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)
    .join('')

/** Each scraper as a separate operation, for the interface description. All requests go to the one generic route. */
export const operationRoutes = (generic: Route): readonly Route[] =>
  scrapers.map((row): Route => {
    const { params: _params, ...common } = generic
    const price = dollarsOfMicros(row.priceMicros)
    return {
      ...common,
      path: `/v1/scrape/${rowName(row)}`,
      operationId: `scrape${nameOf(row)}`,
      summary: `${row.platform}: ${row.summary.charAt(0).toLowerCase()}${row.summary.slice(1)}`,
      description: [
        sentence(row.summary),
        `Costs $${price}.`,
        ...(row.note === null ? [] : [sentence(row.note)]),
        ...(row.isSearch ? ['A call without a hit costs nothing.'] : []),
      ].join(' '),
      query: row.source.isCacheable ? query : query.omit({ cacheMaxAge: true }),
      body: bodySchema(row),
      examples: { body: exampleBody(row) },
      errorsAs: 'ScraperCall',
      responses: {
        200: {
          ...(generic.responses[200] as object),
          description: sentence(row.answer.description),
          body: callAnswer(dataSchema(row)),
          example: undefined,
        },
      },
    } as Route
  })
