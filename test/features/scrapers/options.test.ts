import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { testApp } from '../../support/test-app.ts'
import { exampleOf } from './provider-world.ts'

test('options of a call', async (t) => {
  const { client, customer } = await testApp(t)
  const { key } = await customer({ cents: 100, scopes: ['scrape', 'buy'] })
  const cacheable = scrapers.find(({ source }) => source.isCacheable && !source.isWithdrawn)!
  const fresh = scrapers.find(({ source }) => !source.isCacheable && !source.isWithdrawn)!
  const pathOf = ({ platform, operation }: { platform: string; operation: string }, query: string) =>
    `/v1/scrape/${platform}/${operation}?${query}`
  const left = async () => (await client.get('/api/v1/wallet', { key })).body.balanceCents

  await t.test(
    'a dry run checks the fields, returns the price, and charges nothing and uses no id',
    async () => {
      const path = '/v1/scrape/reddit/subreddit'
      const headers = { 'X-Request-Id': 'tried' }
      const tried = await client.post(`${path}?dryRun=true`, { subreddit: ' node ' }, { key, headers })
      assert.equal(tried.status, 200, tried.text)
      assert.deepEqual(tried.body, {
        platform: 'reddit',
        operation: 'subreddit',
        requestId: 'tried',
        dryRun: true,
        input: { subreddit: 'node' },
        cached: false,
        costUsd: '0.0030',
        billing: { priceUsd: '0.0030', billed: false },
      })
      assert.deepEqual([tried.headers.get('x-price-usd'), tried.headers.get('x-billed')], ['0.0030', 'false'])
      const bad = await client.post(`${path}?dryRun=true`, { subreddit: 7 }, { key })
      assert.deepEqual([bad.status, bad.body.code], [400, 'bad_input'])
      assert.equal(await left(), 100)
      // The id is free: with another body it is another call.
      const made = await client.post(path, { subreddit: 'cats' }, { key, headers })
      assert.deepEqual([made.status, made.body.billing.billed], [200, true])
    },
  )

  await t.test('Idempotency-Key and X-Request-Id are the same id of a call', async () => {
    const path = '/v1/scrape/reddit/subreddit'
    const send = (headers: Readonly<Record<string, string>>, subreddit = 'keyed', at = path) =>
      client.post(at, { subreddit }, { key, headers })
    const first = await send({ 'Idempotency-Key': 'one key' })
    assert.deepEqual([first.status, first.body.requestId], [200, 'one key'])
    assert.equal(first.headers.get('x-request-id'), 'one key')
    const before = await left()
    for (const headers of [
      { 'Idempotency-Key': 'one key' },
      { 'X-Request-Id': 'one key' },
      { 'X-Request-Id': 'one key', 'Idempotency-Key': 'one key' },
    ])
      assert.equal((await send(headers)).text, first.text)
    assert.equal(await left(), before)
    const other = await send({ 'Idempotency-Key': 'one key' }, 'other')
    assert.deepEqual([other.status, other.body.code], [409, 'idempotency_conflict'])
    for (const at of [path, '/v1/scrape/batch']) {
      const two = await send({ 'X-Request-Id': 'a', 'Idempotency-Key': 'b' }, 'x', at)
      assert.deepEqual([two.status, two.body.code], [400, 'bad_input'], two.text)
      const long = await send({ 'Idempotency-Key': 'k'.repeat(129) }, 'x', at)
      assert.deepEqual([long.status, long.body.details], [400, 'Idempotency-Key'])
    }
  })

  await t.test('a retry may write the same call in another way', async () => {
    const path = '/v1/scrape/youtube/channel-shorts'
    const headers = { 'X-Request-Id': 'written in two ways' }
    const first = await client.post(path, { handle: 'nasa' }, { key, headers })
    assert.equal(first.status, 200, first.text)
    for (const body of [{ handle: ' @nasa' }, { handle: 'nasa', sort: 'newest' }]) {
      const again = await client.post(path, body, { key, headers })
      assert.equal(again.text, first.text)
    }
    const other = await client.post(path, { handle: 'nasa', sort: 'popular' }, { key, headers })
    assert.deepEqual([other.status, other.body.code], [409, 'idempotency_conflict'])
    const invalid = await client.post(path, { handle: '' }, { key, headers })
    assert.deepEqual([invalid.status, invalid.body.code], [409, 'idempotency_conflict'])
  })

  await t.test('a cached answer is found for the same call in another form', async () => {
    const path = '/v1/scrape/tiktok/video?cacheMaxAge=7d'
    const url = 'https://www.tiktok.com/@nasa/video/7'
    for (const [at, form] of [url, 'HTTPS://www.TIKTOK.com:443/@nasa/video/7?#top'].entries()) {
      const { body, text } = await client.post(path, { url: form, trim: false }, { key })
      assert.equal(body.cached, at > 0, text)
    }
  })

  await t.test('a cached answer is not charged, and requested only where answers are cached', async () => {
    const body = exampleOf(cacheable)
    const path = pathOf(cacheable, 'cacheMaxAge=7d')
    const first = await client.post(path, body, { key })
    assert.equal(first.status, 200, first.text)
    assert.deepEqual([first.body.cached, first.body.billing.billed], [false, true])
    const before = await left()
    const second = await client.post(path, body, { key })
    assert.equal(second.status, 200, second.text)
    assert.deepEqual([second.body.cached, second.body.billing.billed], [true, false])
    assert.equal(second.headers.get('x-billed'), 'false')
    assert.equal(await left(), before)
    const dry = await client.post(`${path}&dryRun=true`, body, { key })
    assert.deepEqual([dry.body.cached, dry.body.costUsd], [true, '0.0000'])
    const uncached = await client.post(pathOf(fresh, 'cacheMaxAge=7d'), exampleOf(fresh), { key })
    assert.deepEqual([uncached.status, uncached.body.code], [400, 'bad_input'])
    assert.match(uncached.body.details, /^cacheMaxAge must be left out/)
    const unknown = await client.post(pathOf(cacheable, 'cacheMaxAge=2d'), body, { key })
    assert.deepEqual([unknown.status, unknown.body.code], [400, 'invalid_parameter'])
    assert.match(unknown.body.error, /1d, 3d, 7d, 14d/)
  })
})
