import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AccountId, scrapeIdOf } from '../../../src/kernel/ids.ts'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'

test('ledger explain shows a scrape from its hold to its capture, by its id', async (t) => {
  const { client, demo, env } = await testApp(t)
  const { accountId, key } = demo.scraper
  const headers = { 'X-Request-Id': 'explain me' }
  const { status } = await client.post('/v1/scrape/tiktok/profile', { handle: 'nasa' }, { key, headers })
  assert.equal(status, 200)
  const scrapeId = scrapeIdOf(accountId as AccountId, 'explain me')
  const { out, err } = await operate(['ledger', 'explain', scrapeId, '--json'], env)
  assert.equal(err, '')
  const { chain } = JSON.parse(out)
  assert.deepEqual(
    chain.map(({ type }: { type: string }) => type),
    ['ScrapeStarted', 'FundsHeld', 'ScrapeFinished', 'HoldCaptured'],
  )
  assert.deepEqual(
    chain[3].postings.map(({ account, amountMicros }: Record<string, string>) => [account, amountMicros]),
    [
      ['revenue:scrapes:tiktok', '-3000'],
      [`liabilities:holds:${accountId}`, '3000'],
    ],
  )
})
