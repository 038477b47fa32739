import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { claimEmail } from '../../../src/features/accounts/account-vault.ts'
import { refundOrder } from '../../../src/features/orders/refund-order.ts'
import { createPeople } from '../../../src/features/sign-in/people.ts'
import { newSessionId } from '../../../src/features/sign-in/sessions.ts'
import type { RecordedEvent } from '../../../src/kernel/event.ts'
import { type AccountId, type DepositId, newId, shardOfId, withShard } from '../../../src/kernel/ids.ts'
import * as streams from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { done } from '../../support/app-actions.ts'
import { limitAlone } from '../../support/four-eyes.ts'
import { operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { startReceiver } from '../webhooks/receiver.ts'

const { shardKeyOf, streamPrefixes } = streams
const api = '/api/v1'
const rental = {
  product_id: 'isp-static',
  quantity: 1,
  fulfillment_meta: { country: 'USA', period_days: 30 },
}
const traffic = { product_id: 'residential-premium', quantity: 2 }

/** An account that was created in another log: its e-mail is claimed under an id of that home. */
const accountIn = async (app: TestApp, home: number, reseller: boolean) => {
  const email = `${randomUUID()}@homes.example`
  const accountId = withShard(newId<AccountId>('acc'), home)
  await claimEmail(app.core.pool, email, accountId)
  const made = await app.accounts.create({ email, reseller }, operator)
  assert.equal(made.outcome === 'done' && made.accountId, accountId)
  await app.credit(accountId, 500_000)
  const issued = await app.accounts.issueKey({ accountId, scopes: ['buy', 'scrape'], cap: null }, operator)
  if (issued.outcome !== 'done') assert.fail(issued.refusal.code)
  assert.equal(shardOfId(issued.keyId), home, 'a key lives with its account')
  return { accountId, key: issued.key, home }
}

const optionsOf = (key: string, more: object = {}) => ({
  key,
  headers: { 'Idempotency-Key': randomUUID(), ...more },
})

const everything = async (app: TestApp): Promise<readonly RecordedEvent[]> => {
  const { log } = app.core
  return (await log.readAll(0, 1_000_000)).map((stored) => decode(stored))
}

test('an account of another log keeps all its effects in that log; only addresses are shared', async (t) => {
  const app = await testApp(t, { own: true })
  const { client } = app
  const receiver = await startReceiver(t)
  const own = await accountIn(app, 5, false)
  const shop = await accountIn(app, 0xabc, true)
  await app.payCustomer(shop.accountId, 'alice', 100_000)
  const shopHeaders = { 'X-Reseller-Customer-Id': 'alice' }
  const ordered = await done(client.post(`${api}/orders`, traffic, optionsOf(own.key)))
  const whitelist = `${api}/plans/${ordered.body.planId}/whitelist`
  await done(client.post(whitelist, { entries: [{ cidr: '8.8.4.4' }] }, optionsOf(own.key)))
  const budget = { planId: ordered.body.planId, period: 'day', limitBytes: 1_000_000_000 }
  await done(client.call('PUT', `${api}/traffic-budgets`, { key: own.key, json: budget }))
  for (const body of [traffic, rental]) {
    await done(client.post(`${api}/orders`, body, optionsOf(own.key)))
    await done(client.post(`${api}/orders`, body, optionsOf(shop.key, shopHeaders)))
  }
  for (const { key } of [own, shop]) {
    const inputs = [{ subreddit: 'node' }]
    await done(
      client.post('/v1/scrape/batch', { platform: 'reddit', operation: 'subreddit', inputs }, { key }),
    )
    await done(client.post('/v1/scrape/reddit/subreddit', { subreddit: 'node' }, { key }))
    await done(client.post(`${api}/deposits`, { amount_cents: 5_000, method: 'card' }, optionsOf(key)))
    await done(client.post(`${api}/subscriptions`, { ...rental, interval: 'month' }, optionsOf(key)))
    const { body } = await done(client.post(`${api}/webhooks`, { url: receiver.url }, optionsOf(key)))
    await done(client.post(`${api}/webhooks/${body.id}/test`, {}, optionsOf(key)))
  }
  const topup = `${api}/wallet/auto-topup`
  const readTopup = async () => (await done(client.get(topup, { key: own.key }))).body
  const page = await done(client.post(`${topup}/card`, undefined, { key: own.key }))
  await fetch(page.body.url, {
    method: 'POST',
    body: new URLSearchParams({ card: 'good' }),
    redirect: 'manual',
  })
  await until(async () => (await readTopup()).card !== null, { what: 'the saved card' })
  const settings = { thresholdCents: 500_000, amountCents: 2_000, monthlyMaxCents: 2_000 }
  await done(client.call('PUT', topup, { key: own.key, json: settings }))
  await until(
    async () => {
      const { monthCents, pending } = await readTopup()
      return monthCents === 2_000 && !pending
    },
    { what: 'the automatic top-up', timeoutMs: 40_000 },
  )
  for (const { accountId: subjectId } of [own, shop]) {
    const sessionId = newSessionId(subjectId)
    const signIn = { subjectId, sessionId, method: 'cli-link' } as const
    await createPeople(app.core).signIn(signIn, operator)
  }
  const refunded = await refundOrder(
    { ...app.core, settleTraffic: async () => undefined },
    {
      orderId: ordered.body.orderId,
      refundId: newId('ref'),
      request: { kind: 'whole' },
      ...operator,
      correlationId: 'refund',
    },
  )
  assert.equal(refunded?.kind, 'refunded')
  await limitAlone(app.core.log, 1)
  for (const { accountId } of [own, shop]) {
    const credit = { accountId, amountCents: 1_000, reference: 'a large one' }
    const proposed = await app.wallets.credit(credit, operator)
    assert.equal(proposed.outcome, 'proposed')
  }

  const events = await everything(app)
  const kinds = new Set<string>()
  for (const { accountId, home } of [own, shop]) {
    const named = events.filter((event) => JSON.stringify([event.stream, event.data]).includes(accountId))
    for (const { stream } of named) {
      const at = shardKeyOf(stream)
      if (at.of === 'account') assert.equal(at.log, home, stream)
      kinds.add(stream.slice(0, stream.indexOf('-') + 1))
    }
  }
  for (const kind of streamPrefixes.filter((prefix) => prefix !== 'terms-'))
    if (shardKeyOf(`${kind}x` as streams.StreamName).of === 'account')
      assert.ok(kinds.has(kind), `${kind} was tried`)

  const asking = events.filter(({ metadata }) => metadata.correlationId !== operator.correlationId)
  const homes = Map.groupBy(asking, ({ metadata }) => metadata.correlationId)
  for (const [request, of] of homes) {
    const found = [...new Set(of.map(({ stream }) => JSON.stringify(shardKeyOf(stream))))].map((text) =>
      JSON.parse(text),
    )
    const logs = found.filter((home) => home.of === 'account')
    if (logs.some(({ log }) => log > 0)) {
      assert.equal(logs.length, 1, request)
      const others = found.filter((home) => home.of !== 'account').map((home) => home.of)
      const sharesAddresses = of.some(({ stream }) => stream.startsWith('stock-'))
      assert.deepEqual(others, sharesAddresses ? ['market'] : [], request)
    }
  }
})

describe('the home log of a stream', () => {
  test('is known for every stream name of the service, and for no other', () => {
    const account = withShard(newId<AccountId>('acc'), 7)
    const made = Object.entries(streams).flatMap(([name, value]) => {
      if (name.endsWith('Stream') && typeof value === 'string') return [value]
      if (!name.endsWith('Stream')) return []
      return [(value as (...parts: unknown[]) => streams.StreamName)(account, 'x', 'y')]
    })
    assert.ok(made.length >= 15)
    for (const stream of made) assert.ok(shardKeyOf(stream).of)
    assert.deepEqual(shardKeyOf(streams.ledgerStream(account)), { of: 'account', log: 7 })
    assert.deepEqual(shardKeyOf(streams.deliveryStream(account, 'ping', 'pong')), { of: 'account', log: 7 })
    assert.throws(() => shardKeyOf('elsewhere-1' as streams.StreamName), /has no home/)
  })

  test('is unambiguous: no two kinds of stream names begin alike', () => {
    for (const one of streamPrefixes)
      for (const other of streamPrefixes)
        if (one !== other) assert.ok(!other.startsWith(one), `${other} begins with ${one}`)
  })

  test('is log 0 for all ids of today', () => {
    for (const id of ['acc_1', newId('acc'), newId('dep'), 'cus_000000000000800080000000000000ff'])
      assert.equal(shardKeyOf(streams.depositStream(id as DepositId)).of === 'account' && shardOfId(id), 0)
  })
})
