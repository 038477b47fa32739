import { done } from '../support/app-actions.ts'
import type { HttpClient } from '../support/http.ts'
import type { TestApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import type { Case } from './case.ts'

const path = '/v1/scrape/reddit/subreddit'
const profile = '/v1/scrape/tiktok/profile'

const scrapeOf =
  ({ client, demo }: Pick<TestApp, 'client' | 'demo'>) =>
  (answer: string, how: string, json: unknown, at = path, key = demo.scraper.key, headers = {}): Case => ({
    operation: 'scrape',
    answer,
    how,
    send: () => client.post(at, json, { key, headers }),
  })

const batches = '/v1/scrape/batch'
const batchOf = (...names: readonly string[]) => ({
  platform: 'reddit',
  operation: 'subreddit',
  inputs: names.map((subreddit) => ({ subreddit })),
})
const known = { 'X-Request-Id': 'known-batch' }

/** The id of a finished batch of the demo's scraper. */
export const finishedBatch = async ({ client, demo }: Pick<TestApp, 'client' | 'demo'>): Promise<string> => {
  const { key } = demo.scraper
  const { batchId } = (await done(client.post(batches, batchOf('cats'), { key, headers: known }))).body
  await until(async () => (await client.get(`${batches}/${batchId}`, { key })).body.status === 'finished')
  return batchId
}

const batchCases = ({ client, demo }: Pick<TestApp, 'client' | 'demo'>): readonly Case[] => {
  const batch = (answer: string, how: string, json: unknown, headers = {}): Case => ({
    operation: 'scrapeBatch',
    answer,
    how,
    send: () => client.post(batches, json, { key: demo.scraper.key, headers }),
  })
  return [
    batch('202', 'a new one', batchOf('dogs')),
    batch('200', 'the same again', batchOf('cats'), known),
    batch('409 idempotency_conflict', 'the id of another batch', batchOf('dogs'), known),
    batch('404 unknown_scraper', 'a platform that there is not', { ...batchOf('cats'), platform: 'nothing' }),
    batch('400 bad_input', 'an input without what it needs', { ...batchOf(), inputs: [{}] }),
    batch('402 max_cents_exceeded', 'above its limit', { ...batchOf('cats'), maxCents: 0 }),
    batch('400 invalid_body', 'no input', batchOf()),
    batch('503 scraper_unavailable', 'withdrawn', {
      platform: 'tiktok',
      operation: 'popular-hashtags',
      inputs: [{}],
    }),
  ]
}

/** A scraper's answers while its provider is available. Words in a target control the stand-in. */
export const scrapeCases = async (app: TestApp): Promise<readonly Case[]> => {
  const scrape = scrapeOf(app)
  const poor = await app.customer({ cents: 0, scopes: ['scrape'] })
  const headers = { 'X-Request-Id': 'known' }
  const { key } = app.demo.scraper
  const inputs = [{ handle: 'missing-1' }, { handle: 'agegate-1' }]
  const batch = { platform: 'tiktok', operation: 'profile', inputs }
  const { batchId } = (await done(app.client.post(batches, batch, { key }))).body
  const resultCase = (answer: string, how: string, n: number): Case => ({
    operation: 'getScrapeBatchResult',
    answer,
    how,
    send: () => app.client.get(`${batches}/${batchId}/results/${n}`, { key }),
  })
  await until(async () => (await app.client.get(`${batches}/${batchId}`, { key })).body.status === 'finished')
  await done(app.client.post(path, { subreddit: 'cats' }, { key: app.demo.scraper.key, headers }))
  return [
    scrape('404 unknown_scraper', 'a platform that there is not', {}, '/v1/scrape/nothing/profile'),
    scrape('400 bad_input', 'without what it needs', {}),
    scrape('402 insufficient_balance', 'an empty wallet', { subreddit: 'cats' }, path, poor.key),
    scrape(
      '409 idempotency_conflict',
      'the id of another call',
      { subreddit: 'dogs' },
      path,
      undefined,
      headers,
    ),
    scrape('404 target_not_found', 'no account of this name', { handle: 'missing-1' }, profile),
    scrape('403 target_restricted', 'for grown-ups', { handle: 'agegate-1' }, profile),
    scrape('502 provider_failed', 'no answer', { handle: 'html-1' }, profile),
    resultCase('404 target_not_found', 'no account of this name', 1),
    resultCase('403 target_restricted', 'for grown-ups', 2),
    ...batchCases(app),
  ]
}

/**
 * A scraper's answers in separate processes: a day later, without a key or credits, and without a provider
 * for the row.
 */
export const lateScrapeCases = (
  { demo }: Pick<TestApp, 'demo'>,
  others: Readonly<Record<'future' | 'keyless' | 'broke' | 'unserved', HttpClient>>,
): readonly Case[] => {
  const { key } = demo.scraper
  const by = (client: HttpClient) => scrapeOf({ client, demo })
  return [
    by(others.future)('410 result_expired', 'a day later', { subreddit: 'cats' }, path, key, {
      'X-Request-Id': 'known',
    }),
    {
      operation: 'scrapeBatch',
      answer: '410 result_expired',
      how: 'a day later',
      send: () => others.future.post(batches, batchOf('cats'), { key, headers: known }),
    },
    by(others.keyless)('503 upstream_auth_rejected', 'our key is refused', { handle: 'nokey-1' }, profile),
    by(others.broke)(
      '503 upstream_credits_exhausted',
      'our credits are spent',
      { handle: 'broke-1' },
      profile,
    ),
    by(others.unserved)('503 scraper_unavailable', 'withdrawn', {}, '/v1/scrape/tiktok/popular-hashtags'),
  ]
}
