import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('a batch has the options of a call: dry runs, earlier answers, equal inputs', async (t) => {
  const { client, customer } = await testApp(t)
  const { key } = await customer({ cents: 100, scopes: ['scrape', 'buy'] })
  const path = '/v1/scrape/batch'
  const bodyOf = (...names: readonly string[]) => ({
    platform: 'tiktok',
    operation: 'profile',
    inputs: names.map((handle) => ({ handle })),
  })
  const left = async () => (await client.get('/api/v1/wallet', { key })).body.balanceCents
  const result = (batchId: string, n: number) => client.get(`${path}/${batchId}/results/${n}`, { key })
  const finished = (batchId: string) =>
    until(async () => {
      const { body } = await client.get(`${path}/${batchId}`, { key })
      return body.status === 'finished' ? body : null
    })
  type Item = {
    n: number
    sameAs: number | null
    outcome: string
    billed: boolean
    cached: boolean
    costUsd: string
  }
  const headers = { 'X-Request-Id': 'batch-of-the-test' }
  const body = bodyOf('one', '@one', 'two', 'two ', 'missing-7', '@missing-7')

  await t.test('a dry run says what each input costs, and makes no batch', async () => {
    const dry = await client.post(`${path}?dryRun=true`, body, { key, headers })
    assert.equal(dry.status, 200, dry.text)
    const { plan, ...rest } = dry.body
    assert.deepEqual(rest, {
      platform: 'tiktok',
      operation: 'profile',
      requestId: 'batch-of-the-test',
      inputs: 6,
      dryRun: true,
      costUsd: '0.0090',
    })
    assert.deepEqual(plan[1], { n: 2, input: { handle: 'one' }, sameAs: 1, cached: false, costUsd: '0.0000' })
    assert.deepEqual(
      plan.map(({ costUsd }: Item) => costUsd),
      ['0.0030', '0.0000', '0.0030', '0.0000', '0.0030', '0.0000'],
    )
    assert.deepEqual((await client.get(path, { key })).body.batches, [])
    const bad = await client.post(`${path}?dryRun=true`, bodyOf('one', ''), { key })
    assert.match(bad.body.error, /^input 2: handle/)
  })

  await t.test('a batch that could cost more than its limit starts nothing', async () => {
    for (const query of ['', '?dryRun=true']) {
      const above = await client.post(`${path}${query}`, { ...body, maxCents: 0 }, { key, headers })
      assert.equal(above.status, 402, above.text)
      const { code, costUsd, maxCents } = above.body
      assert.deepEqual(
        { code, costUsd, maxCents },
        { code: 'max_cents_exceeded', costUsd: '0.0090', maxCents: 0 },
      )
    }
    assert.deepEqual((await client.get(path, { key })).body.batches, [])
    assert.equal(await left(), 100)
  })

  await t.test('an unavailable scraper is refused before anything starts, as a call of it', async () => {
    const removed = { platform: 'tiktok', operation: 'popular-hashtags' }
    const single = '/v1/scrape/tiktok/popular-hashtags'
    for (const [at, json] of [
      [single, {}],
      [`${single}?dryRun=true`, {}],
      [path, { ...removed, inputs: [{}] }],
      [`${path}?dryRun=true`, { ...removed, inputs: [{}] }],
    ] as const) {
      const { status, body: refused, headers: got } = await client.post(at, json, { key })
      assert.deepEqual(
        [status, refused.code, got.get('retry-after')],
        [503, 'scraper_unavailable', '3600'],
        at,
      )
    }
    assert.deepEqual((await client.get(path, { key })).body.batches, [])
  })

  let firstBatch = ''
  await t.test('equal inputs are paid once, and each of them has its readable result', async () => {
    const accepted = await client.post(path, { ...body, maxCents: 1 }, { key, headers })
    assert.equal(accepted.status, 202, accepted.text)
    firstBatch = accepted.body.batchId
    const over = await finished(firstBatch)
    assert.deepEqual(
      over.items.map(({ sameAs, outcome, billed }: Item) => [sameAs, outcome, billed]),
      [
        [null, 'found', true],
        [1, 'found', false],
        [null, 'found', true],
        [3, 'found', false],
        [null, 'not_found', true],
        [5, 'not_found', false],
      ],
    )
    assert.deepEqual([over.inputs, over.done, over.chargedUsd], [6, 6, '0.0090'])
    const [first, second] = [await result(firstBatch, 1), await result(firstBatch, 2)]
    assert.equal(first.status, 200, first.text)
    assert.equal(second.text, first.text)
    for (const n of [5, 6]) {
      const absent = await result(firstBatch, n)
      assert.deepEqual([absent.status, absent.body.code], [404, 'target_not_found'], absent.text)
      assert.equal(absent.headers.get('x-billed'), 'false')
    }
    assert.equal((await result(firstBatch, 7)).body.code, 'not_found')
    assert.equal(await left(), 99)
    // The limit is no part of the request: the same batch is known, whatever the limit is now.
    const known = await client.post(path, { ...body, maxCents: 0 }, { key, headers })
    assert.deepEqual([known.status, known.body.batchId], [200, firstBatch])
  })

  await t.test('earlier answers are free', async () => {
    const again = bodyOf('one', 'missing-7', 'three', 'three')
    const dry = await client.post(`${path}?dryRun=true&cacheMaxAge=1d`, again, { key })
    assert.equal(dry.body.costUsd, '0.0030')
    const above = await client.post(`${path}?cacheMaxAge=1d`, { ...again, maxCents: 0 }, { key })
    assert.deepEqual([above.body.code, above.body.costUsd], ['max_cents_exceeded', '0.0030'])
    assert.deepEqual(
      dry.body.plan.map(({ cached, sameAs }: Item) => [cached, sameAs]),
      [
        [true, null],
        [true, null],
        [false, null],
        [false, 3],
      ],
    )
    const { batchId } = (await client.post(`${path}?cacheMaxAge=1d`, again, { key })).body
    const over = await finished(batchId)
    assert.deepEqual([over.done, over.chargedUsd], [4, '0.0030'])
    const reused = (await result(batchId, 1)).body
    assert.deepEqual([reused.cached, reused.billing.billed], [true, false])
    assert.deepEqual(reused.data, (await result(firstBatch, 1)).body.data)
    const listed = (await client.get(path, { key })).body.batches
    assert.deepEqual(
      listed.map(({ chargedUsd, done }: { chargedUsd: string; done: number }) => [chargedUsd, done]),
      [
        ['0.0030', 4],
        ['0.0090', 6],
      ],
    )
  })

  await t.test('inputs that ask for the same are equal, and so are repeats', async () => {
    const shorts = (...inputs: readonly object[]) => ({
      platform: 'youtube',
      operation: 'channel-shorts',
      inputs,
    })
    const [plain, written] = [{ handle: 'one' }, { handle: '@one', sort: 'newest' }]
    const dry = await client.post(`${path}?dryRun=true`, shorts(plain, written), { key })
    assert.equal(dry.body.plan[1].sameAs, 1, dry.text)
    const id = { 'X-Request-Id': 'shorts' }
    const accepted = await client.post(path, shorts(plain), { key, headers: id })
    const known = await client.post(path, shorts(written), { key, headers: id })
    assert.deepEqual([known.status, known.body.batchId], [200, accepted.body.batchId], known.text)
  })

  await t.test('another option under the same id is another batch', async () => {
    const other = await client.post(`${path}?cacheMaxAge=1d`, body, { key, headers })
    assert.deepEqual([other.status, other.body.code], [409, 'idempotency_conflict'])
  })
})
