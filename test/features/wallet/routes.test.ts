import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Registry } from 'prom-client'
import type { TransactionRow } from '../../../projections/balances.ts'
import { createDirectory } from '../../../src/features/accounts/authenticate.ts'
import { accountRoutes } from '../../../src/features/accounts/routes.ts'
import { walletRoutes } from '../../../src/features/wallet/routes.ts'
import { publicTransaction } from '../../../src/features/wallet/transaction-record.ts'
import { openApiDocument } from '../../../src/platform/api-docs/openapi-document.ts'
import { createHttpMetrics } from '../../../src/platform/http/gauges.ts'
import { createHttpServer } from '../../../src/platform/http/server.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import { sampleCustomerId } from '../../platform/http/sample.ts'
import { type Document, httpClient } from '../../support/http.ts'
import { until } from '../../support/until.ts'
import { buyer, cause, projectedWorld } from '../accounts/world.ts'

const served = async (t: TestContext, readsWaitMs?: number) => {
  const world = await projectedWorld(t, readsWaitMs)
  const { pool, reads, logger } = world
  const db = createKysely(pool)
  const routes = [
    ...accountRoutes({ reads, db, runner: world.runner, clock: Date.now }),
    ...walletRoutes({ reads, db, accounts: world.accounts }),
  ]
  const server = createHttpServer({
    routes,
    customerIdOf: sampleCustomerId,
    directory: createDirectory({
      ...world,
      clock: Date.now,
      clockProblem: () => null,
      onUse: () => undefined,
    }),
    logger,
    metrics: createHttpMetrics(new Registry()),
    limits: null,
    monotonicMs: () => performance.now(),
  })
  t.after(() => server.close())
  const baseUrl = await server.listen({ host: '127.0.0.1', port: 0 })
  const document = openApiDocument(routes, { forTests: true }) as unknown as Document
  return { ...world, client: httpClient(baseUrl, document) }
}

test('a key reads its own account', async (t) => {
  const world = await served(t)
  const { accountId, keyId, key } = await buyer(world, {
    email: 'ann@example.com',
    cap: { cents: 500, covers: 'orders' },
  })
  const me = {
    accountId,
    userId: accountId,
    email: 'ann@example.com',
    scopes: ['buy'],
    dailySpendCapCents: 500,
    capCovers: 'orders',
    dailySpentCents: 0,
    owedCents: 0,
  }
  assert.deepEqual((await world.client.get('/api/v1/me', { key })).body, me)
  await world.accounts.capKey(keyId, null, cause)
  await until(() => world.projections.caughtUp())
  assert.deepEqual((await world.client.get('/api/v1/me', { key })).body, {
    ...me,
    dailySpendCapCents: null,
    capCovers: null,
    dailySpentCents: null,
  })
})

test('an account without money has a balance of zero', async (t) => {
  const world = await served(t)
  const { key } = await buyer(world)
  assert.deepEqual((await world.client.get('/api/v1/wallet', { key })).body, {
    balanceCents: 0,
    owedCents: 0,
    currency: 'USD',
  })
  assert.deepEqual((await world.client.get('/api/v1/wallet/transactions', { key })).body, {
    transactions: [],
    total: 0,
    limit: 50,
    offset: 0,
  })
})

test('a debt is in the wallet and in the account, and each transaction has the part that changed it', async (t) => {
  const world = await served(t)
  const { accountId, key } = await buyer(world)
  const shown = async () => {
    const [wallet, me] = await Promise.all(
      ['wallet', 'me'].map((path) => world.client.get(`/api/v1/${path}`, { key })),
    )
    return [wallet!.body.balanceCents, wallet!.body.owedCents, me!.body.owedCents]
  }
  await world.wallets.credit({ accountId, amountCents: 500, reference: 'first' }, cause)
  const refund = { accountId, reason: 'deposit_refund', gateway: 'stripe', reference: 'stripe re_1' } as const
  await world.wallets.adjust({ ...refund, amountCents: -2_500 }, cause)
  assert.deepEqual(await shown(), [0, 2_000, 2_000])
  await world.wallets.credit({ accountId, amountCents: 2_500, reference: 'second' }, cause)
  assert.deepEqual(await shown(), [500, 0, 0])
  const { transactions } = (await world.client.get('/api/v1/wallet/transactions', { key })).body
  assert.deepEqual(
    transactions.map((one: Record<string, unknown>) => [
      ...[one.type, one.amountCents, one.amountMicros, one.owedChangeCents, one.balanceAfterCents],
    ]),
    [
      ['credit', 2_500, 25_000_000, -2_000, 500],
      ['deposit_refund', -2_500, -25_000_000, 2_000, 0],
      ['credit', 500, 5_000_000, 0, 500],
    ],
  )
})

test('parts of a cent are rounded against the account, and the cents still add up', () => {
  const changes = [
    { amountMicros: 9_970_000, owedChangeMicros: 0 },
    { amountMicros: -25_000_000, owedChangeMicros: 15_030_000 },
    { amountMicros: 15_027_500, owedChangeMicros: -15_027_500 },
    { amountMicros: 5_000, owedChangeMicros: -2_500 },
  ]
  let [balanceAfterMicros, owedAfterMicros] = [0, 0]
  const shown = changes.map((change) => {
    balanceAfterMicros += change.amountMicros + change.owedChangeMicros
    owedAfterMicros += change.owedChangeMicros
    const row = { ...change, balanceAfterMicros, owedAfterMicros } as TransactionRow
    const { amountCents, owedChangeCents, balanceAfterCents } = publicTransaction(row)
    return [amountCents, owedChangeCents, balanceAfterCents]
  })
  assert.deepEqual(shown, [
    [997, 0, 997],
    [-2_500, 1_503, 0],
    [1_502, -1_502, 0],
    [1, -1, 0],
  ])
})

test('a balance that another process credited is read at once', async (t) => {
  const world = await served(t)
  const { accountId, key } = await buyer(world)
  for (let n = 1; n <= 20; n += 1) {
    await world.elsewhere.wallets.credit({ accountId, amountCents: 7, reference: `r${n}` }, cause)
    assert.equal((await world.client.get('/api/v1/wallet', { key })).body.balanceCents, 7 * n)
  }
})

test('while projections are stopped a balance is answered with 503, never outdated', async (t) => {
  const world = await served(t, 500)
  const { accountId, key } = await buyer(world)
  const wallet = () => world.client.get('/api/v1/wallet', { key })
  // On a busy machine folding may take longer than the bound of a read, which is short here.
  await until(async () => (await wallet()).status === 200)
  await world.projections.pause()
  await world.wallets.credit({ accountId, amountCents: 7, reference: 'r' }, cause)
  const behind = await wallet()
  assert.deepEqual([behind.status, behind.body.code], [503, 'overloaded'])
  world.projections.resume()
  const first = await until(async () => {
    const read = await wallet()
    return read.status === 503 ? null : read
  })
  assert.deepEqual([first.status, first.body.balanceCents], [200, 7])
})

test('transactions come newest first, in pages, and their cents add up to the balance', async (t) => {
  const world = await served(t)
  const { accountId, key } = await buyer(world)
  await world.wallets.credit({ accountId, amountCents: 500, reference: 'first' }, cause)
  const correction = {
    accountId,
    amountCents: -120,
    reference: 'second',
    reason: 'correction',
    gateway: null,
  } as const
  await world.wallets.adjust(correction, cause)
  await world.wallets.credit({ accountId, amountCents: 30, reference: 'third' }, cause)
  const { body } = await world.client.get('/api/v1/wallet/transactions', { key })
  assert.deepEqual(
    body.transactions.map((one: Record<string, unknown>) => [
      one.type,
      one.amountCents,
      one.balanceAfterCents,
      one.reference,
    ]),
    [
      ['credit', 30, 410, 'third'],
      ['correction', -120, 380, 'second'],
      ['credit', 500, 500, 'first'],
    ],
  )
  const page = (await world.client.get('/api/v1/wallet/transactions?limit=1&offset=1', { key })).body
  assert.deepEqual([page.total, page.limit, page.offset, page.transactions[0].reference], [3, 1, 1, 'second'])
  const capped = (await world.client.get('/api/v1/wallet/transactions?limit=1000', { key })).body
  assert.equal(capped.limit, 100)
  for (const [query, code] of [
    ['limit=0', 'invalid_limit'],
    ['offset=-1', 'invalid_offset'],
  ]) {
    const refused = await world.client.get(`/api/v1/wallet/transactions?${query}`, { key })
    assert.deepEqual([refused.status, refused.body.code], [400, code])
  }
})

test('a scrape key reads the wallet and changes nothing of it; a blocked account reads it; no key reads nothing', async (t) => {
  const world = await served(t)
  const { accountId, key } = await buyer(world)
  const scrape = await world.accounts.issueKey({ accountId, scopes: ['scrape'], cap: null }, cause)
  assert.ok(scrape.outcome === 'done')
  assert.equal((await world.client.get('/api/v1/me', { key: scrape.key })).status, 200)
  assert.equal((await world.client.get('/api/v1/wallet', { key: scrape.key })).status, 200)
  const refused = await world.client.call('PUT', '/api/v1/wallet/low-balance', {
    key: scrape.key,
    json: { threshold_cents: 500 },
  })
  assert.deepEqual([refused.status, refused.body.code], [403, 'missing_scope'])
  await world.accounts.block(accountId, 'fraud', cause)
  assert.equal((await world.client.get('/api/v1/wallet', { key })).status, 200)
  assert.equal((await world.client.get('/api/v1/wallet')).status, 401)
})
