import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { groups } from '../../../projections/groups.ts'
import { rebuild } from '../../../src/platform/projections/rebuild.ts'
import { type Customer, done } from '../../support/app-actions.ts'
import { signedIn } from '../../support/console.ts'
import { secondClient, type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { caughtUp, enqueued } from './causes.ts'
import { hookTo } from './deliveries.ts'
import { startReceiver } from './receiver.ts'

const path = '/api/v1/wallet/low-balance'
const order = { product_id: 'residential-basic', quantity: 1 }
const debits = 40

const setThreshold = (app: TestApp, { key }: Customer, thresholdCents: number | null) =>
  done(app.client.call('PUT', path, { key, json: { thresholdCents } }))

const buy = async (client: TestApp['client'], key: string): Promise<number> =>
  (await done(client.post('/api/v1/orders', order, { key, headers: { 'Idempotency-Key': randomUUID() } })))
    .body.amountCents

type Letter = { readonly to: readonly string[]; readonly subject: string; readonly text: string }

/** The e-mails to an address, when every fall that is known has its row and none is pending. */
const lettersTo = async (app: TestApp, { email }: Customer): Promise<readonly Letter[]> => {
  await until(
    async () => {
      const { rows } = await app.core.pool.query(
        `select from read.low_balances l left join work.low_balance_mails m using (transaction_id)
          where m.status is distinct from 'done'`,
      )
      return rows.length === 0
    },
    { timeoutMs: 30_000, what: 'the e-mails' },
  )
  const answer = await fetch(`${app.demo.sandbox}/_sandbox/mail`)
  const { letters } = (await answer.json()) as { letters: readonly Letter[] }
  return letters.filter(({ to }) => to.includes(email))
}

test('the threshold is set over the API, in the console and at the command line', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { client } = app
  const customer = await app.customer({ cents: 1_000 })
  const { key, accountId } = customer
  const threshold = async () => (await done(client.get(path, { key }))).body.thresholdCents
  assert.equal(await threshold(), null)
  for (const json of [
    {},
    { thresholdCents: 0 },
    { thresholdCents: 1.5 },
    { thresholdCents: '500' },
    { thresholdCents: 100_000_000_001 },
  ]) {
    const answer = await client.call('PUT', path, { key, json })
    assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_body'], answer.text)
    assert.match(answer.body.error, /thresholdCents/)
  }
  const scraping = await app.issueKey(accountId, null, ['scrape'])
  assert.equal((await client.get(path, { key: scraping })).status, 200)
  const unscoped = await client.call('PUT', path, { key: scraping, json: { thresholdCents: 500 } })
  assert.equal(unscoped.body.code, 'missing_scope')

  const browser = await signedIn(app, accountId)
  const post = (text: string) => browser.post('/console/low-balance', { threshold: text })
  assert.equal((await post('50.25')).status, 303)
  assert.equal(await threshold(), 5_025)
  assert.match((await browser.get('/console/low-balance')).html, /value="50\.25"/)
  for (const text of ['0', '-1', 'ten', '1.234']) {
    const page = await post(text)
    assert.deepEqual([page.status, /Type dollars above 0/.test(page.html)], [400, true], text)
  }
  assert.equal((await post('')).status, 303)
  assert.equal(await threshold(), null)

  const account = ['wallet', 'low-balance', '--account', accountId]
  const set = { accountId, thresholdCents: 700, currency: 'USD', changed: true }
  assert.deepEqual(await app.run(...account, '--cents', '700'), set)
  assert.deepEqual(await app.run(...account, '--cents', '700'), { ...set, changed: false })
  assert.equal(await threshold(), 700)
  await app.run(...account)
  assert.equal(await threshold(), null)
})

test('a row that SQL added to the queue sends no e-mail', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const customer = await app.customer({ cents: 1_000 })
  assert.equal(await app.balance(customer.key), 1_000)
  const { rows } = await app.core.pool.query(
    `insert into work.low_balance_mails (transaction_id, account_id, position, lineage, threshold_micros, due_at)
     select transaction_id, account_id, position, gen_random_uuid(), 10000000000, now()
       from read.transactions where account_id = $1 returning transaction_id`,
    [customer.accountId],
  )
  const done = await until(
    async () =>
      (
        await app.core.pool.query(
          `select result from work.low_balance_mails where transaction_id = $1 and status = 'done'`,
          [rows[0].transaction_id],
        )
      ).rows[0],
    { timeoutMs: 30_000, what: 'the row' },
  )
  assert.equal(done.result, 'no event causes it')
  assert.deepEqual(await lettersTo(app, customer), [])
})

test('key.cap_reached is sent at 80 % and at 100 %, once for each key and day', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { client } = app
  // At noon, so that the test does not run into the next day.
  const tomorrow = new Date(app.core.clock() + 86_400_000).toISOString().slice(0, 10)
  app.waitUntil(`${tomorrow}T12:00:00.000Z`)
  const customer = await app.customer({ cents: 200_000 })
  const price = await buy(client, customer.key)
  const receiver = await startReceiver(t)
  const hook = await hookTo(app, receiver.url, ['key.cap_reached'], customer)
  const key = await app.issueKey(customer.accountId, 10 * price)
  const { keyId } = (await app.accounts.read(customer.accountId, {
    actor: { kind: 'system', name: 't' },
    correlationId: 't',
  }))!.keys
    .toArray()
    .map(([keyId, { dailyCapCents }]) => ({ keyId, dailyCapCents }))
    .find(({ dailyCapCents }) => dailyCapCents !== null)!
  const levels = async () => {
    await caughtUp(app)
    return (await enqueued(app))
      .filter(({ endpointId }) => endpointId === hook.id)
      .map(({ resource }) => resource)
  }
  const day = new Date(app.core.clock()).toISOString().slice(0, 10)
  for (let n = 0; n < 7; n += 1) await buy(client, key)
  assert.deepEqual(await levels(), [])
  await Promise.all([buy(client, key), buy(client, key)])
  assert.deepEqual(await levels(), [`${keyId}.${day}.80`])
  await buy(client, key)
  assert.deepEqual(await levels(), [`${keyId}.${day}.80`, `${keyId}.${day}.100`])
  const refused = await client.post('/api/v1/orders', order, { key })
  assert.equal(refused.body.code, 'spend_cap_reached')
  // The next day after the spending no longer counts.
  app.wait(25 * 3_600_000)
  const nextDay = new Date(app.core.clock()).toISOString().slice(0, 10)
  for (let n = 0; n < 8; n += 1) await buy(client, key)
  assert.deepEqual((await levels()).slice(2), [`${keyId}.${nextDay}.80`])
  const received = await until(() => receiver.received.find(({ json }) => json.data.levelPct === 100))
  assert.deepEqual(received.json.data, {
    keyId,
    day,
    levelPct: 100,
    capCents: 10 * price,
    capCovers: 'orders',
    spentCents: 10 * price,
    currency: 'USD',
  })
})

// The last one: it verifies what the tests above left, too, and closes the service.
test(`${debits} debits at once that cross the threshold send one webhook and one e-mail, also after a rebuild`, async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { client, core } = app
  const sameClock = { FAREBOX_CLOCK_OFFSET_MS: String(app.clock.aheadMs) }
  const elsewhere = await secondClient(t, app, sameClock)
  const customer = await app.customer({ cents: 200_000 })
  const { key } = customer
  const price = await buy(client, key)
  const receiver = await startReceiver(t)
  const hook = await hookTo(app, receiver.url, ['wallet.low_balance'], customer)
  const sent = async () => {
    await caughtUp(app)
    return (await enqueued(app)).filter(({ endpointId }) => endpointId === hook.id).length
  }
  const balance = await app.balance(key)
  const thresholdCents = balance - (debits * price) / 2
  assert.ok(thresholdCents > 0)
  await setThreshold(app, customer, thresholdCents)
  assert.deepEqual((await done(client.get(path, { key }))).body, { thresholdCents, currency: 'USD' })

  await Promise.all(Array.from({ length: debits }, (_, n) => buy(n % 2 === 0 ? client : elsewhere, key)))
  assert.equal(await app.balance(key), balance - debits * price)
  assert.equal(await sent(), 1)
  const { json } = await until(() => receiver.received[0])
  const { transactions } = (await done(client.get('/api/v1/wallet/transactions?limit=100', { key }))).body
  const crossing = transactions.find(
    (one: { balanceAfterCents: number }) => one.balanceAfterCents === thresholdCents - price,
  )
  assert.equal(json.resource, crossing.transactionId)
  assert.deepEqual(json.data, {
    transactionId: crossing.transactionId,
    thresholdCents,
    balanceCents: thresholdCents - price,
    currency: 'USD',
  })
  const letters = await lettersTo(app, customer)
  assert.equal(letters.length, 1)
  assert.match(letters[0]!.subject, /^Low balance at /)
  assert.ok(letters[0]!.text.includes(crossing.transactionId), letters[0]!.text)

  await t.test(
    'a balance at the threshold is not low, and only a rise to it makes the next one due',
    async () => {
      const short = thresholdCents - (await app.balance(key))
      await app.credit(customer.accountId, short - 1)
      await buy(client, key)
      assert.equal(await sent(), 1)
      await app.credit(customer.accountId, 1 + price)
      assert.equal(await app.balance(key), thresholdCents)
      assert.equal(await sent(), 1)
      await buy(client, key)
      assert.equal(await sent(), 2)
      assert.equal((await lettersTo(app, customer)).length, 2)
    },
  )

  await t.test('a threshold above the balance is not a fall, and null removes it', async () => {
    await setThreshold(app, customer, 10_000_000)
    await buy(client, key)
    await setThreshold(app, customer, null)
    await app.credit(customer.accountId, 20_000_000)
    await buy(client, key)
    assert.equal(await sent(), 2)
    assert.equal((await done(client.get(path, { key }))).body.thresholdCents, null)
  })

  await t.test('a rebuild sends nothing again', async () => {
    await rebuild({ pool: core.pool, log: core.log, decode: core.codec.decode, groups }, 'all')
    await core.pool.query(`update engine.checkpoints set epoch = epoch + 1, position = 0, last_event = null
      where name = 'webhook-queue'`)
    assert.equal(await sent(), 2)
    // A fall after the rebuild, so that its e-mail is the last one.
    await setThreshold(app, customer, await app.balance(key))
    await buy(client, key)
    assert.equal(await sent(), 3)
    assert.equal((await lettersTo(app, customer)).length, 3)
    await until(() => receiver.received.length === 3)
  })
  await app.verified()

  await t.test('a restart sends nothing again', async (t) => {
    await app.close()
    const restarted = await testApp(t, { own: true, settings: { ...app.env, ...sameClock } })
    const answer = await restarted.client.get(`/api/v1/webhooks/${hook.id}/deliveries`, { key })
    assert.deepEqual(
      answer.body.deliveries.map(({ status }: { status: string }) => status),
      ['succeeded', 'succeeded', 'succeeded'],
    )
    assert.equal(receiver.received.length, 3)
  })
})
