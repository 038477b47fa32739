import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createScrapeCommands } from '../../../src/features/scrapers/call-commands.ts'
import type { ScrapeOutcome } from '../../../src/features/scrapers/provider-port.ts'
import { dollarsOfMicros } from '../../../src/kernel/money.ts'
import { until } from '../../support/until.ts'
import { buyer } from '../accounts/world.ts'
import { bodyIn, bodyOf, failed, found, type Got, priceMicros, scrapeWorld, subreddit } from './world.ts'

const start = 1_000_000

test('a call holds its price, is charged once it has a result, and a retry gets the same bytes', async (t) => {
  const gate = Promise.withResolvers<void>()
  const world = await scrapeWorld(t, async () => {
    await gate.promise
    return { kind: 'found', data: { name: 'AskReddit' }, nextCursor: 'more' }
  })
  const first = world.here.call('one')
  await until(() => world.provider.calls.length === 1)
  assert.deepEqual(await world.wallet(), { available: start - priceMicros, held: priceMicros })
  gate.resolve()
  const got = await first
  const { fetchedAt, ...body } = bodyIn(got)
  assert.ok(Math.abs(Date.parse(fetchedAt) - Date.now()) < 60_000)
  assert.deepEqual(body, {
    platform: 'reddit',
    operation: 'subreddit',
    requestId: 'one',
    data: { name: 'AskReddit' },
    nextCursor: 'more',
    billing: { priceUsd: '0.0030', billed: true },
    cached: false,
  })
  assert.deepEqual(got.headers, {
    'x-price-usd': '0.0030',
    'x-billed': 'true',
    'x-balance-usd': dollarsOfMicros(start - priceMicros),
  })
  assert.deepEqual(await world.wallet(), { available: start - priceMicros, held: 0 })
  for (const process of [world.here, world.there]) {
    const again = await process.call('one')
    assert.equal('text' in again && again.text, 'text' in got && got.text)
    const { 'x-balance-usd': _, ...bill } = got.headers
    assert.deepEqual(again.headers, { ...bill, 'x-billed': 'false', 'idempotency-replayed': 'true' })
  }
  assert.equal(world.provider.calls.length, 1)
  assert.equal(world.provider.places(), 0)
  assert.deepEqual(await world.wallet(), { available: start - priceMicros, held: 0 })
})

const billing: readonly (readonly [
  name: string,
  outcome: Parameters<typeof failOf>[0] | 'found' | 'nothing',
  code: string | null,
  billed: boolean,
  stored: boolean,
])[] = [
  ['a result', 'found', null, true, true],
  ['a search without a hit', 'nothing', null, false, true],
  ['a target that does not exist', 'target_not_found', 'target_not_found', true, true],
  ['a target that is restricted', 'target_restricted', 'target_restricted', false, true],
  ['parameters that the platform refuses', 'bad_input', 'bad_input', false, false],
  ['a failure of the platform', 'provider_failed', 'provider_failed', false, false],
  ['no credits', 'upstream_credits_exhausted', 'upstream_credits_exhausted', false, false],
  ['a refused key of ours', 'upstream_auth_rejected', 'upstream_auth_rejected', false, false],
  ['a scraper without a provider', 'scraper_unavailable', 'scraper_unavailable', false, false],
  ['a platform whose places are taken', 'overloaded', 'overloaded', false, false],
]

const failOf = (
  kind:
    | 'target_not_found'
    | 'target_restricted'
    | 'bad_input'
    | 'provider_failed'
    | 'upstream_credits_exhausted'
    | 'upstream_auth_rejected'
    | 'scraper_unavailable'
    | 'overloaded',
) => {
  if (kind === 'bad_input') return { kind, details: 'subreddit must be one that exists' } as const
  if (kind === 'target_not_found' || kind === 'target_restricted') return { kind } as const
  return { kind: 'failed', code: kind, retryAfterSeconds: 7 } as const
}

for (const [name, outcome, code, billed, stored] of billing)
  test(`${name}: ${billed ? 'charged' : 'not charged'}, and a retry ${stored ? 'gets it again' : 'calls again'}`, async (t) => {
    const world = await scrapeWorld(t, () => {
      if (outcome === 'found') return found({ a: 1 })
      if (outcome === 'nothing') return { kind: 'nothing', data: { posts: [] }, nextCursor: null }
      return failOf(outcome)
    })
    const left = { available: start - (billed ? priceMicros : 0), held: 0 }
    const first = await world.here.call('one')
    assert.equal('code' in first ? first.code : null, code)
    assert.equal(first.headers['x-price-usd'], '0.0030')
    assert.equal(first.headers['x-billed'], String(billed))
    assert.equal(first.headers['idempotency-replayed'], undefined)
    assert.equal(first.headers['x-balance-usd'], dollarsOfMicros(left.available))
    if (outcome === 'bad_input')
      assert.deepEqual('extra' in first && first.extra, { details: 'subreddit must be one that exists' })
    if (!stored && outcome !== 'bad_input') assert.equal(first.headers['retry-after'], '7')
    assert.deepEqual(await world.wallet(), left)
    const again = await world.there.call('one')
    assert.equal('code' in again ? again.code : null, code)
    assert.equal(again.headers['idempotency-replayed'], stored ? 'true' : undefined)
    assert.equal(again.headers['x-billed'], 'false')
    assert.equal(world.provider.calls.length, stored ? 1 : 2)
    assert.deepEqual(await world.wallet(), left)
    assert.equal((await world.scrape('one'))?.started.attempt, stored ? 1 : 2)
  })

test('a failed call is charged once when a retry has a result', async (t) => {
  const world = await scrapeWorld(t, (_, n) => (n === 1 ? failed : found({ n })))
  assert.equal('code' in (await world.here.call('one')), true)
  assert.equal(bodyIn(await world.there.call('one')).data.n, 2)
  assert.equal(bodyIn(await world.here.call('one')).data.n, 2)
  assert.deepEqual(await world.wallet(), { available: start - priceMicros, held: 0 })
})

test('another body or scraper under an id is refused, also while it runs, and nothing is charged', async (t) => {
  const gate = Promise.withResolvers<void>()
  const world = await scrapeWorld(t, async () => {
    await gate.promise
    return found({})
  })
  const first = world.here.call('one')
  await until(() => world.provider.calls.length === 1)
  for (const process of [world.here, world.there])
    assert.equal(
      ((await process.call('one', bodyOf('cats'))) as { code: string }).code,
      'idempotency_conflict',
    )
  gate.resolve()
  await first
  for (const process of [world.here, world.there]) {
    assert.equal(
      ((await process.call('one', bodyOf('cats'))) as { code: string }).code,
      'idempotency_conflict',
    )
    // What could never be called is another body, too.
    assert.equal(((await process.call('one', { cats: 1 })) as { code: string }).code, 'idempotency_conflict')
  }
  assert.equal(world.provider.calls.length, 1)
  assert.deepEqual(await world.wallet(), { available: start - priceMicros, held: 0 })
})

test('refusals hold nothing and leave the id free', async (t) => {
  const world = await scrapeWorld(t, () => found({}))
  const head = await world.log.head()
  const unknown = (await world.here.call('one', { sub: 'cats' })) as Extract<Got, { code: string }>
  assert.equal(unknown.code, 'unknown_field')
  const missing = (await world.here.call('one', {})) as Extract<Got, { code: string }>
  assert.equal(missing.code, 'bad_input')
  assert.match(JSON.stringify(missing.extra), /subreddit/)
  assert.equal(await world.log.head(), head)
  assert.equal(world.provider.calls.length, 0)
  assert.equal(bodyIn(await world.here.call('one')).billing.billed, true)
})

test('a failure says whether and when to repeat the call', async (t) => {
  const world = await scrapeWorld(t, (_, n) => ({ ...failed, retryAfterSeconds: n === 1 ? 5 : null }))
  const [passing, lasting] = [await world.here.call('one'), await world.here.call('one')]
  assert.deepEqual(
    [passing, lasting].map((got) => ['extra' in got && got.extra, got.headers['retry-after']]),
    [
      [{ retryable: true }, '5'],
      [{ retryable: false }, undefined],
    ],
  )
})

test('fifty equal ids at once over two processes: one call, one charge, one answer', async (t) => {
  const world = await scrapeWorld(t, async () => {
    await new Promise((resolve) => setTimeout(resolve, 100))
    return found({ a: 1 })
  })
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? world.here : world.there).call('one')),
  )
  assert.equal(world.provider.calls.length, 1)
  assert.equal(new Set(answers.map((answer) => 'text' in answer && answer.text)).size, 1)
  assert.equal(answers.filter(({ headers }) => headers['idempotency-replayed'] === undefined).length, 1)
  assert.deepEqual(await world.wallet(), { available: start - priceMicros, held: 0 })
})

test('duplicates of a failing call get its failure, and make at most one call', async (t) => {
  const gate = Promise.withResolvers<void>()
  const world = await scrapeWorld(t, async () => {
    await gate.promise
    return failed
  })
  const first = world.here.call('one')
  await until(() => world.provider.calls.length === 1)
  const twins = [world.here.call('one'), world.there.call('one')]
  await until(async () => world.provider.places() === 1)
  gate.resolve()
  for (const got of await Promise.all([first, ...twins]))
    assert.equal('code' in got && got.code, 'provider_failed')
  assert.ok(world.provider.calls.length <= 2)
  assert.deepEqual(await world.wallet(), { available: start, held: 0 })
})

test('a wallet with less than the price is refused, and still returns results that it paid for', async (t) => {
  const world = await scrapeWorld(t, () => found({}), 1)
  // Three calls leave 1,000 micro-dollars: less than a price.
  for (const id of ['a', 'b', 'c']) bodyIn(await world.here.call(id))
  assert.deepEqual(await world.wallet(), { available: 1_000, held: 0 })
  const short = (await world.here.call('d')) as Extract<Got, { code: string }>
  assert.equal(short.code, 'insufficient_balance')
  assert.deepEqual(short.extra, {
    balanceCents: 0,
    amountCents: 1,
    shortfallCents: 1,
    shortfallMicros: 2_000,
  })
  assert.equal(world.provider.calls.length, 3)
  // A replay is answered from an empty wallet.
  assert.equal(bodyIn(await world.there.call('a')).requestId, 'a')
})

test('a result is stored for a day; after that the id reports so and is never charged again', async (t) => {
  const world = await scrapeWorld(t, () => found({}))
  bodyIn(await world.here.call('one'))
  world.clock.aheadMs = 24 * 60 * 60 * 1000 + 1_000
  for (const process of [world.here, world.there]) {
    const late = await process.call('one')
    assert.equal('code' in late && late.code, 'result_expired')
    assert.deepEqual(late.headers, {
      'x-price-usd': '0.0030',
      'x-billed': 'false',
      'idempotency-replayed': 'true',
    })
  }
  world.clock.aheadMs += 60 * 60 * 1000
  await world.results.forget()
  const { rows } = await world.pool.query('select count(*)::integer as stored from work.scrape_results')
  assert.equal(rows[0].stored, 0)
  assert.equal(world.provider.calls.length, 1)
  assert.deepEqual(await world.wallet(), { available: start - priceMicros, held: 0 })
})

test('a call that was ended before its answer came is retryable, and the retry is charged once', async (t) => {
  const gate = Promise.withResolvers<void>()
  const world = await scrapeWorld(t, async (_, n) => {
    if (n === 1) await gate.promise
    return found({ n })
  })
  const first = world.here.call('one')
  await until(() => world.provider.calls.length === 1)
  const { started } = (await world.scrape('one'))!
  await createScrapeCommands(world).settle(started)
  gate.resolve()
  const ended = await first
  assert.ok('code' in ended)
  assert.deepEqual([ended.code, ended.extra], ['provider_failed', { retryable: true }])
  assert.equal(ended.headers['retry-after'], '1')
  assert.deepEqual(bodyIn(await world.here.call('one')).data, { n: 2 })
  assert.deepEqual(await world.wallet(), { available: start - priceMicros, held: 0 })
})

test('an earlier answer of the account is free: no money, no hold, no call of the platform', async (t) => {
  const gone: ScrapeOutcome = { kind: 'target_not_found' }
  const world = await scrapeWorld(t, (input) => (input.subreddit === 'gone' ? gone : found({ a: 1 })), 1)
  const reuse = { maxAgeDays: 1 } as const
  const first = bodyIn(await world.here.call('one', bodyOf('AskReddit'), reuse))
  await world.here.call('two', bodyOf('gone'))
  bodyIn(await world.here.call('three', bodyOf('other')))
  const left = { available: 1_000, held: 0 }
  assert.deepEqual(await world.wallet(), left)
  const head = await world.log.head()
  const again = await world.there.call('four', bodyOf(' AskReddit '), reuse)
  const { requestId, billing, cached, ...answer } = bodyIn(again)
  assert.deepEqual([requestId, billing, cached], ['four', { priceUsd: '0.0030', billed: false }, true])
  assert.deepEqual(answer, {
    platform: 'reddit',
    operation: 'subreddit',
    data: first.data,
    nextCursor: null,
    fetchedAt: first.fetchedAt,
  })
  const { 'x-billed': billed, 'x-balance-usd': balance } = again.headers
  assert.deepEqual([billed, balance], ['false', '0.0010'])
  const absent = (await world.there.call('five', bodyOf('gone'), reuse)) as Extract<Got, { code: string }>
  assert.deepEqual([absent.code, absent.headers['x-billed']], ['target_not_found', 'false'])
  // A repeat has the bill of the first answer, so that a lost answer can be booked.
  const repeats = [
    { requestId: 'two', billed: true, options: {} },
    { requestId: 'five', billed: false, options: reuse },
  ]
  for (const { requestId, billed, options } of repeats) {
    const repeat = (await world.here.call(requestId, bodyOf('gone'), options)) as typeof absent
    assert.equal(repeat.headers['x-billed'], 'false')
    assert.deepEqual(repeat.extra, { billing: { priceUsd: '0.0030', billed }, cached: !billed })
  }
  // A retry gets the same answer.
  assert.equal(
    'text' in again && again.text,
    ((await world.here.call('four', bodyOf(' AskReddit '), reuse)) as { text: string }).text,
  )
  const appended = await world.log.readAll(head, 100)
  assert.deepEqual(
    appended.map(({ type }) => type),
    ['ScrapeStarted', 'ScrapeFinished', 'ScrapeStarted', 'ScrapeFinished'],
  )
  assert.deepEqual(await world.wallet(), left)
  assert.equal(world.provider.calls.length, 3)
  // Without the option it is fetched, and so it is if the answer is older.
  assert.equal('code' in (await world.here.call('six')), true)
  world.clock.aheadMs = 24 * 60 * 60 * 1000 + 1_000
  assert.equal('code' in (await world.here.call('seven', bodyOf('AskReddit'), reuse)), true)
})

test('an answer is used again for as long as its call accepts, by its account only', async (t) => {
  const world = await scrapeWorld(t, (_, n) => found({ n }))
  const days = (maxAgeDays: 1 | 7) => ({ maxAgeDays })
  await world.here.call('week', bodyOf('a'), days(7))
  await world.here.call('day', bodyOf('b'))
  world.clock.aheadMs = 3 * 24 * 60 * 60 * 1000
  const other = await buyer(world, { email: 'other@example.com', scopes: ['scrape'] })
  const accountId = other.accountId as typeof world.accountId
  const inputs = [bodyOf('a'), bodyOf('b')]
  const cached = (account: typeof accountId, age: 1 | 7) =>
    world.here.scrapes.cached(account, subreddit, inputs, age, world.now())
  assert.deepEqual(await cached(world.accountId, 7), [true, false])
  assert.deepEqual(await cached(world.accountId, 1), [false, false])
  assert.deepEqual(await cached(accountId, 7), [false, false])
  assert.equal(bodyIn(await world.here.call('again', bodyOf('a'), days(7))).data.n, 1)
  // An answer that was used again is no new answer: its age counts from its fetch.
  world.clock.aheadMs = 8 * 24 * 60 * 60 * 1000
  assert.deepEqual(await cached(world.accountId, 7), [false, false])
})

test('large results are compressed and returned unchanged', async (t) => {
  const text = 'The quick brown fox. '.repeat(20_000)
  const world = await scrapeWorld(t, () => found({ text }))
  const got = await world.here.call('one')
  const again = await world.there.call('one')
  assert.equal('text' in again && again.text, 'text' in got && got.text)
  const { rows } = await world.pool.query('select bytes, length(body) as stored from work.scrape_results')
  assert.ok(rows[0].stored * 20 < rows[0].bytes, JSON.stringify(rows[0]))
})
