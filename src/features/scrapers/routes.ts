import { z } from 'zod'
import { exampleBody, rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { scrapers } from '../../domain/scrapers/scraper-table.ts'
import type { Clock } from '../../kernel/clock.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import { wordQuery } from '../../platform/http/query.ts'
import { accountOnly, JsonBytes, type Route, replayHeaders, route } from '../../platform/http/route.ts'
import { answerOf, billingHeaders, withHeaders } from './call-answer.ts'
import type { ScrapeRate } from './call-rate.ts'
import type { CacheDays, ScrapeInput } from './provider-port.ts'
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

const exampleRow = requireScraper('reddit', 'subreddit')
export const scrapeExample = sampleAnswer(exampleRow)

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
        'Fetches public data of a platform and charges the wallet the price of the scraper. A call is charged if it has a result, or if the platform says that the target does not exist. Other calls are not charged. A retry with the same `X-Request-Id` or `Idempotency-Key` and body returns the first answer again, byte for byte, for 24 hours, and is never charged twice. A failed call is made again. `GET /v1/scrape` lists the scrapers with their prices. `GET` of this path returns all fields of the answer and a sample.',
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
            if (!cached) scrapes.requireProvider(row)
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
          example: sampleAnswer(row),
        },
      },
    } as Route
  })
