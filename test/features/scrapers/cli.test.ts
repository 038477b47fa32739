import assert from 'node:assert/strict'
import { test } from 'node:test'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('an operator lists scrapers, shows one, and tests one at the provider without charging a wallet', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { demo } = app
  assert.ok(demo.sandbox)
  const env = { ...app.env, FAREBOX_SANDBOX_URL: demo.sandbox }
  const run = async (...args: string[]) => {
    const ran = await operate(['scrapers', ...args, '--json'], env)
    return { code: ran.code, json: ran.out === '' ? null : JSON.parse(ran.out) }
  }

  const all = (await run('list')).json
  assert.equal(all.total, 117)
  const reddit = (await run('list', '--platform', 'reddit')).json.scrapers
  assert.deepEqual([...new Set(reddit.map(({ platform }: { platform: string }) => platform))], ['reddit'])
  const { out } = await operate(['scrapers', 'show', 'tiktok/audience'], env)
  assert.match(out, /^price +\$0\.0780$/m)
  assert.match(out, /^handle +yes +/m)
  assert.match(out, /^audienceLocations\[\]\.percentage +string +Share of the sample \(percent\)$/m)
  const found = (
    await run('list', '--search', 'reddit rules', '--field', 'subscribers', '--max-price', '0.003')
  ).json
  assert.deepEqual(
    found.scrapers.map(({ operation }: { readonly operation: string }) => operation),
    ['subreddit'],
  )
  const { sample, dataFields } = (await run('show', 'tiktok/audience')).json
  assert.equal(sample.data.audienceLocations.length, 1)
  assert.equal(dataFields[0].path, 'audienceLocations')

  const tried = await run('try', 'reddit/subreddit', '--input', '{"subreddit":"node"}')
  assert.equal(tried.code, 0)
  assert.deepEqual(
    [tried.json.outcome, tried.json.credits, tried.json.input],
    ['found', 1, { subreddit: 'node' }],
  )
  assert.equal(
    (await run('try', 'tiktok/profile', '--input', '{"handle":"missing-1"}')).json.outcome,
    'target_not_found',
  )
  const failed = await run('try', 'tiktok/profile', '--input', '{"handle":"html-1"}')
  assert.deepEqual([failed.code, failed.json.outcome], [1, 'provider_failed'])
  const health = await until(async () => {
    const { scrapers } = (await run('health')).json
    return scrapers.length === 2 ? scrapers : null
  })
  assert.deepEqual(
    health.map(({ operation, health: { calls } }: { operation: string; health: { calls: number } }) => [
      operation,
      calls,
    ]),
    [
      ['subreddit', 1],
      ['profile', 2],
    ],
  )

  for (const [args, words] of [
    [['show', 'tiktok/nothing'], /there is no scraper tiktok\/nothing/],
    [['list', '--platform', 'nothing'], /there is no platform nothing; there are amazon/],
    [['list', '--max-price', 'cheap'], /--max-price must be dollars such as 0.005/],
    [['try', 'reddit/subreddit', '--input', '[1]'], /--input must be a JSON object such as/],
    [['try', 'reddit/subreddit', '--input', '{"colour":1}'], /unknown field/],
  ] as const) {
    const refused = await operate(['scrapers', ...args], env)
    assert.notEqual(refused.code, 0)
    assert.match(refused.err, words)
  }
})
