import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scrapingAccount } from '../features/scrapers/account.ts'
import { call } from '../support/farebox.ts'
import { balanceOf, counted, openTwo, type TwoShops } from './two-shops.ts'

const path = '/v1/scrape/reddit/subreddit'

/** `count` calls, sent to both servers in turn, all at once. */
const scrapeBoth = (
  { shops }: TwoShops,
  count: number,
  key: string,
  requestOf: (n: number) => { readonly id: string; readonly name: string },
) =>
  Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const { id, name } = requestOf(n)
      const answer = await fetch(`${shops[n % 2]!.baseUrl}${path}`, {
        method: 'POST',
        headers: { 'X-API-Key': key, 'X-Request-Id': id, 'Content-Type': 'application/json' },
        body: JSON.stringify({ subreddit: name }),
      })
      const text = await answer.text()
      return { status: answer.status, headers: answer.headers, text, body: JSON.parse(text) }
    }),
  )

const callsOf = async ({ demo }: TwoShops): Promise<number> =>
  ((await (await fetch(`${demo.sandbox}/_sandbox/scrapers/journal`)).json()) as { total: number }).total

test('fifty equal ids at once through two servers are one call, one charge and one answer, and a wallet for three calls pays three of forty', async (t) => {
  const town = await openTwo(t)
  const { key } = await scrapingAccount(town.env, 100)
  // It takes a while, so that all of them arrive before it ends.
  const answers = await scrapeBoth(town, 50, key, () => ({ id: 'one', name: 'slow-500-twins' }))
  assert.deepEqual(counted(answers), { '200': 50 })
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1)
  assert.equal(answers.filter(({ headers }) => !headers.has('idempotency-replayed')).length, 1)
  assert.equal(await callsOf(town), 1)
  assert.equal(await balanceOf(town, key), 99)
  const { body } = await call(`${town.shops[0].baseUrl}/api/v1/wallet/transactions`, key)
  assert.deepEqual(
    body.transactions.map(({ type, scraper, reference, amountMicros }: Record<string, unknown>) => [
      type,
      scraper,
      reference,
      amountMicros,
    ]),
    [
      ['hold', 'reddit/subreddit', 'one', -3_000],
      ['credit', null, 'start', 1_000_000],
    ],
  )

  const poor = await scrapingAccount(town.env, 1)
  const all = await scrapeBoth(town, 40, poor.key, (n) => ({ id: `id-${n}`, name: `about-${n}` }))
  assert.deepEqual(counted(all), { '200': 3, '402 insufficient_balance': 37 })
  assert.equal(await callsOf(town), 4)
  const left = await call(`${town.shops[1].baseUrl}/api/v1/wallet/transactions`, poor.key)
  assert.equal(left.body.transactions[0].balanceAfterMicros, 1_000)
})

test('the 101st call of a burst through two servers gets the time to wait, and succeeds then', async (t) => {
  const town = await openTwo(t, {
    FAREBOX_RATE_LIMIT: 'on',
    FAREBOX_RATE_SCRAPES: '100/1',
    FAREBOX_RATE_KEY: '10000/10000',
    FAREBOX_RATE_ADDRESS: '10000/10000',
  })
  const { key } = await scrapingAccount(town.env, 1_000)
  const startMs = performance.now()
  const answers = await scrapeBoth(town, 140, key, (n) => ({ id: `id-${n}`, name: `about-${n}` }))
  const tookS = (performance.now() - startMs) / 1000
  const { 200: passed = 0, '429 rate_limited': refused = 0 } = counted(answers)
  assert.equal(passed + refused, 140)
  assert.ok(passed >= 100 && passed <= 101 + tookS, `${passed} passed in ${tookS} s`)
  for (const { status, headers } of answers)
    if (status === 429) assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  assert.equal(await callsOf(town), passed, 'a call that was refused was made')
  const retryAfterS = Number(answers.find(({ status }) => status === 429)!.headers.get('retry-after'))
  await new Promise((resolve) => setTimeout(resolve, retryAfterS * 1000))
  const [again] = await scrapeBoth(town, 1, key, () => ({ id: 'late', name: 'late' }))
  assert.equal(again!.status, 200, again!.text)
})
