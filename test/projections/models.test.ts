import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { createLiveStock } from '../../projections/stock.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import type { AccountId, OrderId } from '../../src/kernel/ids.ts'
import { microsToCentsFloor } from '../../src/kernel/money.ts'
import { accountStream, catalogStream } from '../../src/kernel/streams.ts'
import { createKysely, type Db } from '../../src/platform/postgres/kysely.ts'
import { rebuild } from '../../src/platform/projections/rebuild.ts'
import { caughtUp, decode, startEngine } from '../platform/projections/engine.ts'
import fc, { runs } from '../support/fast-check.ts'
import { createMemoryLog } from '../support/memory-log.ts'
import { testDatabase } from '../support/postgres.ts'
import { createShop, type Shop } from './shop.ts'
import { accounts, fulfilmentSteps, moneySteps, planOf, startMs, waiting } from './steps.ts'

const planIds = accounts.map(planOf)
const step = fc.oneof(...moneySteps, ...fulfilmentSteps, waiting(0, 1_000_000))

const checkBalances = async (db: Db, shop: Shop): Promise<void> => {
  for (const id of accounts) {
    const { availableMicros, heldMicros, receivableMicros } = shop.ledger(id)
    const row = await db
      .selectFrom('read.balances')
      .selectAll()
      .where('accountId', '=', id)
      .executeTakeFirst()
    assert.deepEqual(
      [row?.availableMicros ?? 0, row?.heldMicros ?? 0, row?.receivableMicros ?? 0],
      [availableMicros, heldMicros, receivableMicros],
    )
    const list = await db
      .selectFrom('read.transactions')
      .selectAll()
      .where('accountId', '=', id)
      .orderBy('position')
      .execute()
    let [balance, owed] = [0, 0]
    for (const { amountMicros, owedChangeMicros, balanceAfterMicros, owedAfterMicros } of list) {
      assert.notEqual(amountMicros, 0)
      balance += amountMicros + owedChangeMicros
      owed += owedChangeMicros
      assert.deepEqual([balanceAfterMicros, owedAfterMicros], [balance, owed])
    }
    assert.deepEqual([balance, owed], [availableMicros, receivableMicros])
    const counted = await db
      .selectFrom('read.balances')
      .select('transactions')
      .where('accountId', '=', id)
      .execute()
    assert.equal(counted[0]?.transactions ?? 0, list.length)
  }
}

const checkOrders = async (db: Db, shop: Shop): Promise<void> => {
  const rows = await db.selectFrom('read.orders').selectAll().execute()
  assert.equal(rows.length, shop.orders.size)
  const counts = new Map<string, number>()
  for (const row of rows) {
    const order = shop.order(row.orderId as OrderId)!
    const { details, ...columns } = row
    const { orderId, accountId, customerId, createdAt, catalogDigest, fingerprint } = order.details
    // All data that no column contains and that is more than a digest of the log's.
    assert.deepEqual(
      { ...JSON.parse(details), orderId, accountId, customerId, createdAt, catalogDigest, fingerprint },
      order.details,
    )
    assert.deepEqual(columns, {
      orderId: orderId,
      accountId: accountId,
      customerId: customerId,
      status: order.status,
      createdAt: createdAt,
      balanceCents: order.balanceCents,
      planId: order.planId,
      proxyIds: order.proxyIds,
      fulfilledAt: order.fulfilledAt,
      failedAt: order.failedAt,
      failureReason: order.failureReason,
      refundedAt: order.refundedAt,
      refundedCents: order.refundedCents,
      refundedCostCents: order.refunds.some(({ landed, costCents }) => landed && costCents !== undefined)
        ? order.refundedCostCents
        : null,
    })
    const key = `${row.accountId} ${row.status}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  const counted = await db.selectFrom('read.order_counts').selectAll().execute()
  const listed = counted.flatMap(({ accountId, ...totals }) =>
    Object.entries(totals).map(
      ([status, total]) =>
        [`${accountId} ${status === 'awaitingPayment' ? 'awaiting_payment' : status}`, total] as const,
    ),
  )
  assert.deepEqual(new Map(listed.filter(([, total]) => total !== 0)), counts)
  assert.deepEqual(await db.selectFrom('read.open_orders').selectAll().execute(), [])
}

const checkPlans = async (db: Db, shop: Shop): Promise<void> => {
  for (const id of planIds) {
    const { plan } = shop.plan(id)
    const row = await db.selectFrom('read.plans').selectAll().where('planId', '=', id).executeTakeFirst()
    assert.deepEqual(
      row && [row.accountId, row.totalBytes, row.usedBytes, row.generation],
      plan ? [plan.accountId, plan.totalBytes, plan.usedBytes, plan.generation] : undefined,
    )
  }
}

const checkStock = async (db: Db, shop: Shop): Promise<void> => {
  const rented = await db.selectFrom('read.proxies').selectAll().where('releasedAt', 'is', null).execute()
  assert.deepEqual(
    new Map(rented.map((row) => [row.proxyId, [row.ip, row.orderId, row.accountId, row.expiresAt]])),
    new Map(
      [...shop.stock().rentals].map(([id, rental]) => [
        id,
        [rental.ip, rental.orderId, rental.accountId, isoTime(rental.expiresAtMs)],
      ]),
    ),
  )
}

const world = async (t: TestContext) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  return { pool, log, db: createKysely(pool) }
}

test('the tables equal the folds of the log, for any events of the shop', async (t) => {
  const { pool, db } = await world(t)
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 20, maxLength: 80 }),
      fc.integer({ min: 1, max: 40 }),
      async (steps, maxBatch) => {
        await pool.query('drop schema read cascade; create schema read; truncate engine.checkpoints')
        const log = createMemoryLog()
        const shop = createShop(log, startMs)
        const engine = await startEngine(t, pool, log, groups, { maxBatch, maxRows: 10 })
        try {
          await shop.stockUp(['203.0.113.1', '203.0.113.2', '203.0.113.3', '203.0.113.4', '203.0.113.5'])
          for (const id of accounts) await shop.credit(id, 10_000)
          for (const [n, act] of steps.entries()) await act(shop, n)
          await caughtUp(engine, log)
          await checkBalances(db, shop)
          await checkOrders(db, shop)
          await checkPlans(db, shop)
          await checkStock(db, shop)
          const stock = createLiveStock({ db, clock: shop.now })
          const pools = shop.stock().pools.first()
          const rested = pools?.resting.count(({ availableFromMs }) => availableFromMs <= shop.now()) ?? 0
          const count = {
            country: 'USA',
            carrierId: null,
            service: null,
            available: (pools?.ready.size ?? 0) + rested,
          }
          assert.deepEqual(await stock.of('isp-static'), [count])
          assert.deepEqual(await stock.all(), new Map([['isp-static', [count]]]))
        } finally {
          await engine.stop()
        }
        const [result] = await rebuild({ pool, log, decode, groups }, 'all', { compareOnly: true })
        assert.deepEqual(result?.differences, [])
        assert.equal(result?.compared.length, groups[0]?.models.length)
      },
    ),
    { numRuns: runs(15) },
  )
})

test('accounts and keys have the state of their events', async (t) => {
  const { pool, log, db } = await world(t)
  const engine = await startEngine(t, pool, log, groups)
  const stream = accountStream('acc_1' as AccountId)
  const metadata = (at: string) =>
    JSON.stringify({
      correlationId: at,
      causationId: null,
      actor: { kind: 'system', name: 't' },
      recordedAt: at,
    })
  let revision = -1
  const append = async (type: string, data: unknown): Promise<void> => {
    const at = isoTime(startMs + revision * 1000 + 1000)
    const event = { id: crypto.randomUUID(), type, data: JSON.stringify(data), metadata: metadata(at) }
    await log.append(stream, revision === -1 ? 'noStream' : revision, [event])
    revision += 1
  }
  const issue = { scopes: ['buy', 'scrape'], dailyCapCents: null, displayPrefix: 'fbx_abcd' }
  await append('AccountCreated', { accountId: 'acc_1', reseller: true })
  await append('KeyIssued', { keyId: 'key_1', ...issue })
  const held = { name: 'shop', networks: ['203.0.113.0/24'], rolledFrom: 'key_1', capKeyId: 'key_1' }
  await append('KeyIssued', { keyId: 'key_2', ...issue, ...held })
  await append('KeyCapped', { keyId: 'key_1', dailyCapCents: 500 })
  await append('KeyRevoked', { keyId: 'key_2' })
  await append('KeyExpirySet', { keyId: 'key_1', expiresAt: isoTime(startMs + 60_000) })
  await append('AccountBlocked', { reason: 'chargeback' })
  await caughtUp(engine, log)
  const account = { accountId: 'acc_1', position: 1, reseller: true, createdAt: isoTime(startMs) }
  assert.deepEqual(await db.selectFrom('read.accounts').selectAll().execute(), [
    { ...account, blocked: true, blockedReason: 'chargeback', lowBalanceMicros: null },
  ])
  const key = { accountId: 'acc_1', scopes: ['buy', 'scrape'], displayPrefix: 'fbx_abcd' }
  assert.deepEqual(await db.selectFrom('read.keys').selectAll().orderBy('position').execute(), [
    {
      ...key,
      keyId: 'key_1',
      position: 2,
      dailyCapCents: 500,
      capCovers: 'orders',
      revoked: false,
      name: null,
      expiresAt: isoTime(startMs + 60_000),
      networks: null,
      capKeyId: 'key_1',
      createdAt: isoTime(startMs + 1000),
    },
    {
      ...key,
      keyId: 'key_2',
      position: 3,
      dailyCapCents: null,
      capCovers: 'orders',
      revoked: true,
      name: 'shop',
      expiresAt: null,
      networks: ['203.0.113.0/24'],
      capKeyId: 'key_1',
      createdAt: isoTime(startMs + 2000),
    },
  ])
  await append('AccountUnblocked', {})
  await append('LowBalanceThresholdSet', { thresholdMicros: 50_000_000 })
  await caughtUp(engine, log)
  assert.deepEqual(await db.selectFrom('read.accounts').selectAll().execute(), [
    { ...account, blocked: false, blockedReason: null, lowBalanceMicros: 50_000_000 },
  ])
})

test('the catalogue is one row in its present state, and its revision changes with it', async (t) => {
  const { pool, log, db } = await world(t)
  const engine = await startEngine(t, pool, log, groups)
  const metadata = JSON.stringify({
    correlationId: 'import',
    causationId: null,
    actor: { kind: 'operator', name: 't' },
    recordedAt: isoTime(startMs),
  })
  const append = (revision: number | 'noStream', type: string, data: unknown): Promise<unknown> =>
    log.append(catalogStream, revision, [
      { id: crypto.randomUUID(), type, data: JSON.stringify(data), metadata },
    ])
  const since = isoTime(startMs)
  const product = {
    id: 'isp-static',
    name: 'Static ISP é',
    state: 'active',
    successorId: null,
    parkedUntil: null,
    since,
  }
  await append('noStream', 'CatalogImported', { digest: 'd1', importedAt: since, products: [product] })
  await caughtUp(engine, log)
  const row = { catalogId: 'catalog', digest: 'd1', importedAt: since, products: [product], revision: 0 }
  assert.deepEqual(await db.selectFrom('read.catalog').selectAll().execute(), [row])
  const later = isoTime(startMs + 5000)
  await append(0, 'ProductStateChanged', {
    productId: 'isp-static',
    state: 'parked',
    successorId: null,
    since: later,
  })
  await caughtUp(engine, log)
  const parked = { ...product, state: 'parked', since: later }
  assert.deepEqual(await db.selectFrom('read.catalog').selectAll().execute(), [
    { ...row, products: [parked], revision: 1 },
  ])
})

test('the shown balance is in whole cents, rounded down, and a capture is no transaction of 0', async (t) => {
  const { pool, log, db } = await world(t)
  const engine = await startEngine(t, pool, log, groups)
  const shop = createShop(log, startMs)
  await shop.credit('acc_one' as AccountId, 100)
  await shop.scrape('acc_one' as AccountId, 3000, 'capture')
  await caughtUp(engine, log)
  const row = await db.selectFrom('read.balances').selectAll().executeTakeFirstOrThrow()
  assert.equal(row.availableMicros, 997_000)
  assert.equal(microsToCentsFloor(row.availableMicros), 99)
  const types = await db
    .selectFrom('read.transactions')
    .select(['type', 'amountMicros'])
    .orderBy('position')
    .execute()
  assert.deepEqual(types, [
    { type: 'credit', amountMicros: 1_000_000 },
    { type: 'hold', amountMicros: -3000 },
  ])
})
