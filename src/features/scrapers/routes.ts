import { z } from 'zod'
import { exampleBody, rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { scrapers } from '../../domain/scrapers/scraper-table.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import { wordQuery } from '../../platform/http/query.ts'
import { accountOnly, JsonBytes, type Route, route } from '../../platform/http/route.ts'
import { billingHeaders, withHeaders } from './call-answer.ts'
import type { ScrapeRate } from './call-rate.ts'
import type { CacheDays } from './provider-port.ts'
import { sampleAnswer } from './sample-answer.ts'
import { inputOf, requireScraper, type Scrapes } from './scrape.ts'
import { bodySchema, dataSchema } from './scraper-schemas.ts'

export const ScrapeAnswer = z
  .object({
    platform: z.string(),
    operation: z.string(),
    requestId: z
      .string()
      .meta({ description: 'The `X-Request-Id` of the call, from the client or created by the server.' }),
    data: z.json().meta({
      description:
        'The public data of the platform. `GET /v1/scrape/{platform}/{operation}` returns the known fields.',
    }),
    nextCursor: z.string().nullable().meta({
      description:
        'The start of the next page. Send this value in `cursor`, or in `page` if the scraper has that field. Null: this is the last page.',
    }),
    billing: z.object({
      priceUsd: z
        .string()
        .meta({ description: 'The price of the scraper, in dollars with four decimals.', example: '0.0030' }),
      billed: z.boolean().meta({ description: 'True: this call was charged.' }),
    }),
    fetchedAt: z.string().meta({ format: 'date-time' }),
    cached: z.boolean().meta({ description: 'True: the answer is from a cache and not from the platform.' }),
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
  })

const CallAnswer = callAnswer(data).meta({ id: 'ScrapeCallAnswer' })

const ageWords = ['1d', '3d', '7d', '14d', '30d'] as const
const daysOf = (word: (typeof ageWords)[number]): CacheDays => Number.parseInt(word, 10) as CacheDays

const query = z.object({
  dryRun: z
    .enum(['true', 'false'])
    .default('false')
    .meta({
      description:
        'True: the request only checks the fields and returns the price. No call is made, and nothing is charged.',
      override: { type: 'boolean', default: false },
    }),
  cacheMaxAge: wordQuery(
    ageWords,
    'The maximum age of a cached answer, in days. A cached answer is not charged. For scrapers with `isCacheable` only.',
    'ScrapeCacheAge',
  ).optional(),
})

const exampleRow = requireScraper('reddit', 'subreddit')
export const scrapeExample = sampleAnswer(exampleRow)

/** Headers of each answer of a call, and of its refusals once the scraper is known. */
const headers = {
  'X-Price-Usd': 'The price of the scraper, in dollars with four decimals.',
  'X-Billed': '`true`: the call was charged.',
  'X-Balance-Usd':
    'The available balance of the wallet after the call, in dollars with four decimals. Absent in dry runs and repeated answers.',
  'X-Replayed': '`true`: this is the answer to an earlier request with this `X-Request-Id`.',
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

/** @throws ApiError when the scraper does not accept the fields */
const dryRunOf = (row: ScraperRow, body: Readonly<Record<string, unknown>>, requestId: string) => ({
  status: 200 as const,
  body: {
    platform: row.platform,
    operation: row.operation,
    requestId,
    dryRun: true as const,
    input: inputOf(row, body),
    billing: { priceUsd: dollarsOfMicros(row.priceMicros), billed: false as const },
  },
  headers: billingHeaders({ priceMicros: row.priceMicros, billed: false, replayed: false }),
  position: null,
})

/** Calls of scrapers: docs/guides/scrapers.md. */
export const scrapeRoutes = (dependencies: {
  readonly scrapes: Scrapes
  /** Null: limits are off. */
  readonly rate: ScrapeRate | null
}): readonly Route[] => {
  const { scrapes, rate } = dependencies
  return [
    route({
      method: 'POST',
      path: '/v1/scrape/{platform}/{operation}',
      operationId: 'scrape',
      summary: 'Call a scraper',
      description:
        'Fetches public data of a platform and charges the wallet the price of the scraper. A call is charged if it has a result, or if the platform says that the target does not exist. Other calls are not charged. A retry with the same `X-Request-Id` and body returns the first answer again, byte for byte, for 24 hours, and is never charged twice. A failed call is made again. `GET /v1/scrape` lists the scrapers with their prices. `GET` of this path returns all fields of the answer and a sample.',
      tag: 'Scrapers',
      access: 'scrape',
      writes: true,
      customer: accountOnly('what a scraper costs is paid from the wallet, which is'),
      requestIdIsKey: true,
      params: z.object({ platform: z.string(), operation: z.string() }),
      query,
      body: z.record(z.string(), z.json()).meta({
        description: 'The fields of the scraper.',
        override: { type: 'object', additionalProperties: true },
      }),
      examples: {
        params: { platform: scrapeExample.platform, operation: scrapeExample.operation },
        body: exampleBody(exampleRow),
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
        body,
        headers: sent,
      }) => {
        const row = requireScraper(platform, operation)
        const { accountId, keyId, capKeyId, cap } = caller
        const isNew = sent['x-request-id'] === undefined
        return withBillingHeaders(row.priceMicros, async () => {
          if (cacheMaxAge !== undefined && !row.source.isCacheable)
            throw refuse('bad_input', 'no answers of this scraper are cached', {
              details: 'cacheMaxAge must be left out for this scraper',
            })
          if (dryRun === 'true') return dryRunOf(row, body, requestId)
          const { bytes, headers, position } = await scrapes.call({
            accountId,
            keyId,
            capKeyId,
            cap,
            requestId,
            fresh: isNew,
            row,
            body,
            ...(cacheMaxAge && { maxAgeDays: daysOf(cacheMaxAge) }),
          })
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
          example: sampleAnswer(row),
        },
      },
    } as Route
  })
