import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Browser, hiddenField, signedIn } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const scrapePath = '/v1/scrape/reddit/subreddit'
/** A call of the scraper costs 0.3 cents. */
const callsOfACent = 3
/** $5.50 of traffic. */
const order = { product_id: 'residential-premium', quantity: 1 }
const orderCents = 550

test('a cap that covers everything', async (t) => {
  const app = await testApp(t)
  const { client } = app
  const owner = await app.customer({ cents: 100_000 })
  const key = await app.issueKey(owner.accountId, orderCents + 1, ['buy', 'scrape'], 'everything')
  const call = async (name: string, of = key) => {
    const headers = { 'X-Request-Id': `${owner.accountId}-${name}` }
    const { status, body } = await client.post(scrapePath, { subreddit: name }, { key: of, headers })
    return status === 200 ? 'billed' : body.code
  }
  const spending = async () => {
    const { dailySpendCapCents, capCovers, dailySpentCents } = (await client.get('/api/v1/me', { key })).body
    return [dailySpendCapCents, capCovers, dailySpentCents]
  }

  await t.test('limits orders and calls together, and the account shows what is spent', async () => {
    assert.deepEqual(await spending(), [orderCents + 1, 'everything', 0])
    assert.equal((await client.post('/api/v1/orders', order, { key })).status, 201)
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => call(`parallel-${n}`)))
    assert.equal(answers.filter((answer) => answer === 'billed').length, callsOfACent)
    assert.equal(answers.filter((answer) => answer === 'spend_cap_reached').length, 12 - callsOfACent)
    assert.deepEqual(await spending(), [orderCents + 1, 'everything', orderCents + 1])
    const refused = await client.post('/api/v1/orders', order, { key })
    assert.deepEqual(
      [refused.status, refused.body.code, refused.body.spentCents],
      [402, 'spend_cap_reached', orderCents + 1],
    )
  })

  await t.test('limits the calls of batches', async () => {
    const { body } = await client.post(
      '/v1/scrape/batch',
      { platform: 'reddit', operation: 'subreddit', inputs: [{ subreddit: 'one' }, { subreddit: 'two' }] },
      { key },
    )
    const batch = await until(async () => {
      const { body: shown } = await client.get(`/v1/scrape/batch/${body.batchId}`, { key })
      return shown.status === 'finished' ? shown : null
    })
    assert.deepEqual(
      batch.items.map(({ problem }: { problem: string }) => problem),
      ['spend_cap_reached', 'spend_cap_reached'],
    )
  })

  await t.test('does not limit the calls of a key whose cap covers orders', async () => {
    const ofOrders = await app.issueKey(owner.accountId, 0, ['buy', 'scrape'])
    assert.equal(await call('orders-only', ofOrders), 'billed')
  })

  await t.test('keeps the key from changing automatic top-up and saving a card', async () => {
    const path = '/api/v1/wallet/auto-topup'
    const settings = { thresholdCents: 2_000, amountCents: 5_000, monthlyMaxCents: 50_000 }
    for (const answer of [
      await client.call('PUT', path, { key, json: settings }),
      await client.call('DELETE', path, { key }),
      await client.post(`${path}/card`, undefined, { key }),
    ])
      assert.deepEqual([answer.status, answer.body.code], [403, 'capped_key'])
    assert.equal((await client.call('PUT', path, { key: owner.key, json: settings })).status, 200)
  })

  await t.test('is recommended by the form of a new key, and changed on its page', async () => {
    const browser: Browser = await signedIn(app, owner.accountId)
    const path = '/console/keys/new'
    const page = await browser.get(path)
    assert.match(page.html, /value="everything" checked/)
    const fields = { name: 'capped in the console', scopes: 'scrape', cap: '0.02', days: '', networks: '' }
    const form = hiddenField(page, 'form')
    const created = await browser.post(path, { form, ...fields, covers: 'everything' })
    assert.match(created.html, /at most \$0\.02 in 24 hours for orders and scraper calls/)
  })
})
