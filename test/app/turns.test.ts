import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import { createCompletion, startCompletionReactor } from '../../src/features/orders/complete-orders.ts'
import { startRenewals } from '../../src/features/subscriptions/renewal-worker.ts'
import { startMovementReactor } from '../../src/features/wallet/wallet-service.ts'
import { buyer, cause, projectedWorld } from '../features/accounts/world.ts'
import { testScheduler } from '../support/scheduler.ts'
import { until } from '../support/until.ts'

/** A list of `stuck` items that cannot be decided, and one behind them; long ago, so that each is due. */
const openWorld = async (t: TestContext) => {
  const world = await projectedWorld(t)
  const { accountId } = await buyer(world)
  await world.wallets.credit({ accountId, amountCents: 100, reference: 'seed' }, cause)
  await until(() => world.projections.caughtUp())
  return { ...world, accountId, clock: Date.now }
}
const longAgo = "'2026-01-01T00:00:00Z'::timestamptz"

test('the worker polls an open order however many orders before it cannot be completed', async (t) => {
  const { pool, log, runner, logger, clock, accountId } = await openWorld(t)
  // Their debits are not where the table says: the first revision of this ledger pays no order.
  await pool.query(
    `insert into read.open_orders (order_id, step, account_id, debit_revision, opened_at)
     select 'ord_' || lpad(n::text, 3, '0'), 'outcome', $1::text, 0, ${longAgo} from generate_series(1, 101) n`,
    [accountId],
  )
  const lookedAt = new Set<string>()
  const complete = createCompletion({ log, runner })
  const reactor = startCompletionReactor({
    scheduler: testScheduler(),
    pool,
    complete: (orderId, debit) => {
      lookedAt.add(orderId)
      return complete(orderId, debit)
    },
    clock,
    logger,
    intervalMs: 60_000,
  })
  t.after(() => reactor.stop())
  await assert.rejects(reactor.runNow(), /100 of them failed/)
  await assert.rejects(reactor.runNow(), /does not pay ord_101/)
  assert.equal(lookedAt.size, 101)
})

test('the worker polls a manual movement however many movements before it cannot be finished', async (t) => {
  const { pool, wallets, logger, clock } = await openWorld(t)
  await pool.query(
    `insert into read.open_movements (movement_id, movement, opened_at)
     select 'mov_' || n, '{}'::jsonb, ${longAgo} + n * interval '1 second' from generate_series(1, 101) n`,
  )
  let lookedAt = 0
  const resume: typeof wallets.resume = (...given) => {
    lookedAt += 1
    return wallets.resume(...given)
  }
  const reactor = startMovementReactor({
    scheduler: testScheduler(),
    pool,
    wallets: { ...wallets, resume },
    clock,
    logger,
    intervalMs: 60_000,
  })
  t.after(() => reactor.stop())
  await assert.rejects(reactor.runNow(), /100 of them failed/)
  await assert.rejects(reactor.runNow())
  assert.equal(lookedAt, 101)
})

test('the worker renews a subscription however many subscriptions before it cannot be decided', async (t) => {
  const { pool, log, logger, clock, accountId } = await openWorld(t)
  await pool.query(
    `insert into read.subscriptions (subscription_id, account_id, product_id, quantity, interval, order_id, proxy_ids,
       amount_cents, started_at, current_period_start, current_period_end, due_at, cancel_at_period_end)
     select 'sub_' || n, $1::text, 'residential-premium', 1, 'month', 'ord_' || n, '{}', 550, ${longAgo}, ${longAgo},
       ${longAgo}, ${longAgo} + n * interval '1 second', false
       from generate_series(1, 201) n`,
    [accountId],
  )
  const lookedAt = new Set<string>()
  const reactor = startRenewals({
    scheduler: testScheduler(),
    pool,
    log,
    subscriptions: {
      finish: async () => undefined,
      known: async () => false,
      start: () => Promise.reject(new Error('unexpected call')),
      cancel: async () => null,
      read: async () => null,
      companion: () => {
        throw new Error('unexpected call')
      },
    },
    renewals: {
      renew: async (subscriptionId) => {
        lookedAt.add(subscriptionId)
        throw new Error(`${subscriptionId} cannot be read`)
      },
    },
    refresh: async () => undefined,
    clock,
    logger,
    intervalMs: 60_000,
  })
  t.after(() => reactor.stop())
  await assert.rejects(reactor.runNow(), (error) => /cannot be read/.test(inspect(error)))
  assert.equal(lookedAt.size, 200)
  await assert.rejects(reactor.runNow(), /sub_201 cannot be read/)
  assert.equal(lookedAt.size, 201)
})
