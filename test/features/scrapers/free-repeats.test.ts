import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'

test('free repeats do not use the rate of calls', async (t) => {
  const { client, customer } = await testApp(t, {
    own: 'file',
    settings: {
      FAREBOX_RATE_LIMIT: 'on',
      FAREBOX_RATE_SCRAPES: '2/1',
      FAREBOX_RATE_KEY: '1000/1000',
      FAREBOX_RATE_ADDRESS: '1000/1000',
    },
  })
  const { key } = await customer({ cents: 100, scopes: ['scrape'] })
  const call = (id: string) =>
    client.post(
      '/v1/scrape/reddit/subreddit',
      { subreddit: 'node' },
      { key, headers: { 'X-Request-Id': id } },
    )
  const inputs = [{ subreddit: 'node' }]
  const batch = () =>
    client.post(
      '/v1/scrape/batch',
      { platform: 'reddit', operation: 'subreddit', inputs },
      { key, headers: { 'Idempotency-Key': 'batch' } },
    )
  assert.deepEqual([(await call('one')).status, (await batch()).status], [200, 202])
  const repeats = await Promise.all(
    Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? call('one') : batch())),
  )
  for (const { status, headers, text } of repeats)
    assert.deepEqual([status, headers.get('idempotency-replayed')], [200, 'true'], text)
  // New calls still have the limit.
  const calls = await Promise.all(Array.from({ length: 20 }, (_, n) => call(`new-${n}`)))
  assert.ok(calls.some(({ status, headers }) => status === 429 && headers.has('retry-after')))
})
