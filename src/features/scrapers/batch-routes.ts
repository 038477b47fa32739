import { z } from 'zod'
import type { ScraperRow } from '../../domain/scrapers/scraper.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { refuse } from '../../platform/http/errors.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/query.ts'
import { accountOnly, JsonBytes, type Route, replayHeaders, route } from '../../platform/http/route.ts'
import type { CountedBatch } from './batch-items.ts'
import {
  batchStatuses,
  costOf,
  itemRequestId,
  type PlannedItem,
  type ScrapeBatches,
  type ShownBatch,
  statusOf,
} from './batch-service.ts'
import { answerOf } from './call-answer.ts'
import type { ScrapeRate } from './call-rate.ts'
import { acceptedAge, headers, query, ScrapeAnswer, scrapeExample } from './routes.ts'
import { requireScraper } from './scrape.ts'

export const maxInputs = 100

const instant = z.string().meta({ format: 'date-time' })
const count = z.int().min(0)
const outcomes = ['found', 'empty', 'not_found', 'restricted', 'failed', 'canceled'] as const

const summaryShape = {
  batchId: z.string(),
  requestId: z.string(),
  status: namedEnum('ScrapeBatchStatus', batchStatuses).meta({
    description:
      'The status of the batch. `canceling`: the batch makes no more calls, and its open calls finish. `canceled`: the batch was canceled, and all of its calls are finished.',
  }),
  platform: z.string(),
  operation: z.string(),
  inputs: count,
  done: count.meta({ description: 'The number of finished calls.' }),
  chargedUsd: z
    .string()
    .meta({ description: 'The amount charged until now, in dollars with four decimals.', example: '0.0060' }),
  createdAt: instant,
  finishedAt: instant.nullable(),
}

const BatchSummary = z.object(summaryShape).meta({ id: 'ScrapeBatchSummary' })
const BatchList = z.object({ batches: z.array(BatchSummary), ...pageShape }).meta({ id: 'ScrapeBatchList' })

const Batch = z
  .object({
    ...summaryShape,
    items: z
      .array(
        z.object({
          n: z.int().min(1).meta({ description: 'The number of the input, starting at 1.' }),
          requestId: z.string().meta({ description: 'The `X-Request-Id` of the call.' }),
          sameAs: z.int().min(1).nullable().meta({
            description:
              'The number of an earlier equal input, whose call and result this one shares. Null: there is none.',
          }),
          outcome: namedEnum('ScrapeBatchItemOutcome', outcomes)
            .nullable()
            .meta({ description: 'The outcome of the call. Null: the call is not finished.' }),
          problem: z.string().nullable().meta({
            description:
              'The error code of a failed call, the same as for a single call. Null: the call did not fail.',
          }),
          billed: z.boolean(),
        }),
      )
      .meta({ description: 'The calls of the batch, in the order of the inputs.' }),
  })
  .meta({ id: 'ScrapeBatch' })

const {
  platform: _platform,
  operation: _operation,
  requestId: _requestId,
  inputs: _inputs,
  ...rest
} = Batch.shape

/**
 * The existing batch, or a dry run. It is one object, because generators make no usable type of a choice between
 * objects.
 */
const BatchAnswer = z
  .object({
    ...Batch.pick({ platform: true, operation: true, requestId: true, inputs: true }).shape,
    ...z.object(rest).partial().shape,
    dryRun: z
      .boolean()
      .optional()
      .meta({ description: 'True: there is no batch, only its cost in `plan`. Else it is left out.' }),
    costUsd: z.string().optional().meta({
      description: 'With `dryRun`: the cost if all calls are billed, in dollars with four decimals.',
      example: '0.0060',
    }),
    plan: z
      .array(
        z.object({
          n: z.int().min(1),
          input: z
            .record(z.string(), z.json())
            .meta({ description: 'The fields that a call sends to the platform.' }),
          sameAs: z.int().min(1).nullable().meta({ description: 'The number of an earlier equal input.' }),
          cached: z
            .boolean()
            .meta({ description: 'True: there is an earlier answer that `cacheMaxAge` accepts.' }),
          costUsd: z.string().meta({
            description:
              'The cost of the input if its call is billed. `0.0000`: it is cached or equal to an earlier input.',
          }),
        }),
      )
      .optional()
      .meta({ description: 'With `dryRun`: the cost of each input.' }),
  })
  .meta({ id: 'ScrapeBatchAnswer' })

const summaryOf = (batch: CountedBatch): z.infer<typeof BatchSummary> => ({
  batchId: batch.batch_id,
  requestId: batch.request_id,
  status: statusOf(batch),
  platform: batch.platform,
  operation: batch.operation,
  inputs: batch.inputs,
  done: batch.done,
  chargedUsd: dollarsOfMicros(batch.charged_micros),
  createdAt: batch.created_at,
  finishedAt: batch.finished_at,
})

const batchJson = ({ batch, items }: ShownBatch): z.infer<typeof Batch> => ({
  ...summaryOf({
    ...batch,
    done: items.filter(({ outcome }) => outcome !== null).length,
    charged_micros: items.reduce((sum, { charged_micros }) => sum + charged_micros, 0),
  }),
  items: items.map(({ n, call, outcome, problem, charged_micros }) => ({
    n,
    requestId: itemRequestId(batch.batch_id, call),
    sameAs: call === n ? null : call,
    outcome,
    problem,
    billed: charged_micros > 0,
  })),
})

const batchId = 'scb_5f3c2a1b9d8e5f60a1b2c3d4e5f60718'
const example = {
  batchId,
  requestId: 'profiles-2026-11-21',
  status: 'running',
  platform: 'reddit',
  operation: 'subreddit',
  inputs: 2,
  done: 1,
  chargedUsd: '0.0030',
  createdAt: '2026-11-21T02:30:00.000Z',
  finishedAt: null,
  items: [
    { n: 1, requestId: `${batchId}.1`, sameAs: null, outcome: 'found', problem: null, billed: true },
    { n: 2, requestId: `${batchId}.2`, sameAs: null, outcome: null, problem: null, billed: false },
  ],
} as const satisfies z.infer<typeof Batch>

const { items: _calls, ...summaryExample } = example

const dryRunJson = (
  { platform, operation }: ScraperRow,
  requestId: string,
  plan: readonly PlannedItem[],
): z.infer<typeof BatchAnswer> => ({
  ...{ platform, operation, requestId },
  inputs: plan.length,
  dryRun: true,
  costUsd: dollarsOfMicros(costOf(plan)),
  plan: plan.map(({ call, input, cached, costMicros }, at) => ({
    n: at + 1,
    input: { ...input },
    sameAs: call === at + 1 ? null : call,
    cached,
    costUsd: dollarsOfMicros(costMicros),
  })),
})

const common = { tag: 'Scrapers', access: 'scrape', customer: accountOnly('a batch of scrapes is') } as const
const batchNotFound = () => refuse('not_found', 'there is no such batch, or it was over more than a day ago')

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * @throws ApiError: invalid_body, with the number (from 1) of the first value that is not an object, as all input
 * refusals
 */
const objectsOf = (inputs: readonly unknown[]): readonly Readonly<Record<string, unknown>>[] =>
  inputs.map((input, at) => {
    if (!isObject(input)) throw refuse('invalid_body', `input ${at + 1}: it must be an object`)
    return input
  })

/** Batches of scrapes: docs/guides/scrapers.md, "Many at once". */
export const scrapeBatchRoutes = (dependencies: {
  readonly batches: ScrapeBatches
  /** Null: limits are off. */
  readonly rate: ScrapeRate | null
}): readonly Route[] => [
  route({
    ...common,
    method: 'POST',
    path: '/v1/scrape/batch',
    operationId: 'scrapeBatch',
    summary: 'Call a scraper many times',
    description: `Accepts up to ${maxInputs} calls of one scraper and answers at once. Each call is made and billed separately. Equal inputs share a call, which is paid once. A call with a temporary failure is tried up to six times in total. Read the batch until it is \`finished\` or \`canceled\`, or register a webhook endpoint for \`scrape.batch.finished\`. All inputs are checked first: one invalid input rejects the batch, and nothing is charged. An unavailable scraper rejects it, too. A request with the same \`X-Request-Id\` or \`Idempotency-Key\` and the same body returns the existing batch.`,
    writes: true,
    requestIdIsKey: true,
    hasResult: dependencies.batches.isKnown,
    query,
    body: z.strictObject({
      platform: z.string(),
      operation: z.string(),
      inputs: z
        .array(z.unknown().meta({ override: { type: 'object', additionalProperties: true } }))
        .min(1)
        .max(maxInputs)
        .meta({ description: 'The inputs: one object with the fields of the scraper for each call.' }),
      maxCents: z.int().min(0).max(100_000_000).optional().meta({
        description:
          'The most that the batch may cost, in whole cents. If its calls could cost more, it is refused, and none is made.',
      }),
    }),
    examples: {
      body: {
        platform: 'reddit',
        operation: 'subreddit',
        inputs: [{ subreddit: 'AskReddit' }, { subreddit: 'node' }],
      },
    },
    ...(dependencies.rate && { limit: dependencies.rate }),
    responses: {
      200: {
        description: 'The existing batch with this `X-Request-Id`, or a dry run.',
        body: BatchAnswer,
        example,
        headers: replayHeaders,
      },
      202: {
        description: 'The batch was accepted.',
        body: Batch,
        example: { ...example, done: 0, chargedUsd: '0.0000' },
      },
    },
    errors: [
      'unknown_scraper',
      'bad_input',
      'idempotency_conflict',
      'result_expired',
      'max_cents_exceeded',
      'scraper_unavailable',
    ],
    handler: async ({ caller, requestId, query: { dryRun, cacheMaxAge }, body }) => {
      const { platform, operation, maxCents } = body
      const inputs = objectsOf(body.inputs)
      const row = requireScraper(platform, operation)
      const { accountId, keyId } = caller
      const maxAgeDays = acceptedAge(row, cacheMaxAge)
      if (dryRun === 'true') {
        const plan = await dependencies.batches.plan({ accountId, row, inputs, maxAgeDays, maxCents })
        return { status: 200, body: dryRunJson(row, requestId, plan) }
      }
      const cause = { actor: { kind: 'key', accountId, keyId }, correlationId: requestId } as const
      const { position, isNew, ...batch } = await dependencies.batches.accept(
        { accountId, keyId, requestId, row, inputs, maxAgeDays, maxCents },
        cause,
      )
      if (isNew) return { status: 202, body: batchJson(batch), position }
      return { status: 200, body: batchJson(batch), position, headers: { 'idempotency-replayed': 'true' } }
    },
  }),

  route({
    ...common,
    method: 'GET',
    path: '/v1/scrape/batch',
    operationId: 'listScrapeBatches',
    summary: 'List batches',
    description: 'The readable batches, newest first, without their calls.',
    writes: false,
    query: z.object(pagingQuery),
    codes: { query: pagingCodes },
    responses: {
      200: {
        description: 'A page of batches.',
        body: BatchList,
        example: { batches: [summaryExample], total: 1, limit: 50, offset: 0 },
      },
    },
    errors: [],
    handler: async ({ caller, query: { limit, offset } }) => {
      const { batches, total } = await dependencies.batches.list(caller.accountId, { limit, offset })
      return { status: 200, body: { batches: batches.map(summaryOf), total, limit, offset } }
    },
  }),

  route({
    ...common,
    method: 'DELETE',
    path: '/v1/scrape/batch/{id}',
    operationId: 'cancelScrapeBatch',
    summary: 'Cancel a batch',
    description:
      'Stops the batch. Calls that were not started end as `canceled` and cost nothing. Open calls finish and are billed. A finished batch does not change.',
    writes: true,
    params: z.object({ id: z.string() }),
    examples: { params: { id: batchId } },
    responses: {
      200: { description: 'The batch.', body: Batch, example: { ...example, status: 'canceling' } },
    },
    errors: ['not_found'],
    handler: async ({ caller, params: { id } }) => {
      const found = await dependencies.batches.cancel(caller.accountId, id)
      if (found === null) throw batchNotFound()
      return { status: 200, body: batchJson(found) }
    },
  }),

  route({
    ...common,
    method: 'GET',
    path: '/v1/scrape/batch/{id}',
    operationId: 'getScrapeBatch',
    summary: 'Read a batch',
    description: 'The batch with the outcomes of its calls. A batch can be read for one day after its end.',
    writes: false,
    params: z.object({ id: z.string() }),
    examples: { params: { id: batchId } },
    responses: { 200: { description: 'The batch with its calls.', body: Batch, example } },
    errors: ['not_found'],
    handler: async ({ caller, params: { id } }) => {
      const found = await dependencies.batches.find(caller.accountId, id)
      if (found === null) throw batchNotFound()
      return { status: 200, body: batchJson(found) }
    },
  }),

  route({
    ...common,
    method: 'GET',
    path: '/v1/scrape/batch/{id}/results/{n}',
    operationId: 'getScrapeBatchResult',
    summary: 'Read the result of a call of a batch',
    description:
      'The answer of call `n` (the first call is 1), the same as for a repeated single call: also `target_not_found` and `target_restricted`. The answer is stored for one day.',
    writes: false,
    params: z.object({ id: z.string(), n: z.string() }),
    examples: { params: { id: batchId, n: '1' } },
    responses: {
      200: {
        description: 'The answer of the call.',
        body: ScrapeAnswer,
        example: { ...scrapeExample, requestId: `${batchId}.1` },
        headers,
      },
    },
    errorHeaders: headers,
    errors: ['not_found', 'target_not_found', 'target_restricted'],
    handler: async ({ caller, params: { id, n } }) => {
      const call = /^[1-9]\d{0,2}$/.test(n)
        ? await dependencies.batches.result(caller.accountId, id, Number(n))
        : null
      if (call === null)
        throw refuse(
          'not_found',
          'this call has no result: it runs, failed or was canceled, or was over more than a day ago',
        )
      const { bytes, headers: billing } = answerOf(call)
      return { status: 200, body: JsonBytes.again<z.input<typeof ScrapeAnswer>>(bytes), headers: billing }
    },
  }),
]
