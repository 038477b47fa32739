import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { orderIdsOfSchedule } from '../../../projections/subscriptions.ts'
import { createCatalog } from '../../../src/domain/catalog/catalog.ts'
import type { Product } from '../../../src/domain/catalog/product.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { graceMs } from '../../../src/domain/shared/billing-interval.ts'
import { createAccounts } from '../../../src/features/accounts/account-service.ts'
import { createCompletion } from '../../../src/features/orders/complete-orders.ts'
import type { PriceSources } from '../../../src/features/orders/prepare-order.ts'
import { readOrder, refundOrder } from '../../../src/features/orders/refund-order.ts'
import { addAddresses } from '../../../src/features/stock/add-stock.ts'
import { createRenewals } from '../../../src/features/subscriptions/renew.ts'
import type { SubscriptionInput } from '../../../src/features/subscriptions/subscription-service.ts'
import { createSubscriptions } from '../../../src/features/subscriptions/subscription-service.ts'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import type { AccountId, KeyId, OrderId, SubscriptionId } from '../../../src/kernel/ids.ts'
import { ledgerStream, orderStream, subscriptionStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import type { Caller } from '../../../src/platform/http/auth.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { runnerOver } from '../../platform/commands/world.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { createPlaceOrderOf } from '../../support/place-quoted.ts'
import { testDatabase } from '../../support/postgres.ts'
import { prefixLog, stopAtAppend } from '../../support/prefix-log.ts'
import { mortal } from '../../support/prefix-process.ts'
import { plainAddress } from '../../support/world.ts'

const dayMs = 86_400_000
const logger = createLogger('silent')
const cause = { actor: { kind: 'system', name: 'test' }, correlationId: 'test' } as const
const priceCents = 500

/** One product of traffic: 1 GB at $5.00, by the month. */
const product = {
  id: 'gb',
  aliases: [],
  name: 'GB',
  description: '',
  features: [],
  protocols: [],
  family: 'residential',
  state: 'active',
  successorId: null,
  parkedUntil: null,
  unit: 'GB',
  minQuantity: 1,
  maxQuantity: 10,
  billing: { payg: true, subscription: true, intervals: ['month'] },
  shape: 'gateway_gb',
  renewal: 'topup',
  tiers: [{ from: 1, unitPriceMicros: priceCents * 10_000 }],
  generate: { maxCount: 1, targeting: [] },
  since: '2026-01-01T00:00:00.000Z',
} as const satisfies Product

/** Two addresses for 30 days at $5.00. */
const isp = {
  ...product,
  id: 'isp',
  name: 'ISP',
  family: 'isp',
  unit: 'IP',
  shape: 'addresses',
  renewal: 'extend',
  rates: [
    { countries: ['USA'], periodDays: [30], tiers: [{ from: 1, unitPriceMicros: priceCents * 5_000 }] },
  ],
} as const satisfies Product

const gigabyte = { productId: product.id, quantity: 1, meta: undefined }
const twoAddresses = { productId: isp.id, quantity: 2, meta: { country: 'USA', period_days: 30 } }

const market: PriceSources = {
  catalog: {
    current: () => createCatalog({ digest: 'd', importedAt: product.since, products: [product, isp] }),
  },
  stock: { of: async () => [], all: async () => new Map() },
  termsOf: () => null,
  refreshTerms: async () => undefined,
}

/** One process of the service, reduced to subscriptions; its caches end with it. */
const processOver = (
  pool: Awaited<ReturnType<typeof testDatabase>>['pool'],
  log: EventLog,
  clock: () => number,
  sold: PriceSources,
) => {
  const limits = { resendFirstMs: 1, resendMaxMs: 4, unknownOutcomeWaitMs: 200, closeMs: 20 }
  const runner = runnerOver(log, { clock, limits })
  const complete = createCompletion({ log, runner })
  const placeOrder = createPlaceOrderOf({ log, runner })
  const subscriptions = createSubscriptions({
    log,
    runner,
    placeOrder,
    market: sold,
    settleTraffic: async () => undefined,
  })
  const renewals = createRenewals({
    pool,
    log,
    runner,
    placeOrder,
    market: sold,
    subscriptions,
    clock,
    logger,
  })
  return { runner, complete, subscriptions, renewals, end: () => runner.close() }
}

const openShop = async (t: TestContext, log: EventLog) => {
  const { pool } = await testDatabase(t)
  let nowMs = Date.parse('2026-01-31T12:00:00.000Z')
  const clock = () => nowMs
  const start = (over: EventLog, sold: PriceSources = market) => processOver(pool, over, clock, sold)
  const operator = start(log)
  t.after(() => operator.end())
  const wallets = createWallets({ runner: operator.runner })
  let references = 0
  const callerOf = (accountId: AccountId): Caller => ({
    accountId,
    keyId: 'key_one' as KeyId,
    capKeyId: 'key_one' as KeyId,
    scopes: ['buy'],
    cap: null,
    reseller: false,
    blocked: false,
    email: '',
  })
  const credit = async (accountId: AccountId, amountCents: number): Promise<void> => {
    references += 1
    const credited = await wallets.credit({ accountId, amountCents, reference: `c-${references}` }, cause)
    assert.equal(credited.outcome, 'applied')
  }
  return {
    log,
    pool,
    clock,
    start,
    credit,
    wait: (ms: number) => {
      nowMs += ms
    },
    account: async (): Promise<AccountId> => {
      references += 1
      const accounts = createAccounts({ pool, runner: operator.runner, logger: pino({ level: 'silent' }) })
      const made = await accounts.create({ email: `a${references}@example.com`, reseller: false }, cause)
      if (made.outcome !== 'done') return assert.fail(made.refusal.code)
      return made.accountId
    },
    subscribe: (
      process: ReturnType<typeof start>,
      accountId: AccountId,
      input: Pick<SubscriptionInput, 'productId' | 'quantity' | 'meta'> = gigabyte,
    ) =>
      process.subscriptions.start({
        caller: callerOf(accountId),
        requestId: 'test',
        idempotencyKey: 'key',
        fingerprint: 'same',
        input: { ...input, interval: 'month', expectedAmountCents: undefined },
      }),
  }
}

const ledgerOf = async (
  log: EventLog,
  accountId: AccountId,
): Promise<readonly (LedgerEvent & { revision: number })[]> => {
  const events: (LedgerEvent & { revision: number })[] = []
  for await (const stored of log.readStream(ledgerStream(accountId)))
    events.push({ ...(decode(stored) as LedgerEvent), revision: stored.revision })
  return events
}

/** The reactors' work after a crash: paid orders are completed, and subscriptions record their periods. */
const recover = async (shop: Awaited<ReturnType<typeof openShop>>, accountId: AccountId): Promise<void> => {
  const process = shop.start(prefixLog(shop.log))
  for (const event of await ledgerOf(shop.log, accountId)) {
    if (event.type !== 'WalletDebited') continue
    const { orderId } = event.data.order
    await process.complete(orderId as OrderId, { accountId, revision: event.revision })
    const order = await readOrder(shop.log, orderId as OrderId)
    if (order) await process.subscriptions.finish(order)
  }
  await process.end()
}

/** Checks in the log that every period was paid by one order, and that the wallet agrees. */
const audit = async (
  shop: Awaited<ReturnType<typeof openShop>>,
  accountId: AccountId,
  id: SubscriptionId,
) => {
  const process = shop.start(shop.log)
  const state = await process.subscriptions.read(id)
  await process.end()
  const debited = new Set<string>()
  const periods = new Set<string | null>()
  const schedule = state && {
    startedAt: state.terms.startedAt,
    period: state.terms.period,
    currentPeriodEnd: state.currentPeriodEnd,
  }
  const ids = orderIdsOfSchedule(id, schedule)
  for (const event of await ledgerOf(shop.log, accountId)) {
    if (event.type !== 'WalletDebited') continue
    const { orderId } = event.data.order
    assert.ok(!debited.has(orderId), 'an order was charged twice')
    debited.add(orderId)
    const order = await readOrder(shop.log, orderId as OrderId)
    assert.ok(order, 'a debit without an order')
    const { subscription } = order.details
    assert.ok(subscription)
    assert.ok(ids.includes(order.details.orderId), 'an order that a list of the subscription leaves out')
    if (order.status !== 'completed') {
      assert.equal(order.status, 'refunded')
      continue
    }
    assert.ok(!periods.has(subscription.periodStart), 'a period was charged twice')
    periods.add(subscription.periodStart)
  }
  assert.equal(periods.size, state?.periods ?? 0, 'orders that stand and periods that are paid differ')
  let ends = state?.terms.currentPeriodEnd
  for await (const stored of shop.log.readStream(subscriptionStream(id))) {
    const event = decode(stored) as { type: string; data: { periodStart: string; currentPeriodEnd: string } }
    if (event.type !== 'SubscriptionRenewed') continue
    assert.equal(event.data.periodStart, ends, 'a period was skipped')
    ends = event.data.currentPeriodEnd
  }
  return state
}

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('wait' as const), days: fc.integer({ min: 1, max: 45 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('credit' as const), periods: fc.integer({ min: 1, max: 8 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('crash' as const),
      at: fc.nat(6),
      written: fc.boolean(),
      prefixes: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('both' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancelWhileRenewing' as const) }) },
)

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

/**
 * The outcomes of random steps that the test must cover: a renewal, a crash, an unpaid end and a
 * cancellation.
 */
const oneOfEach: [number, Step[]][] = [
  [2, [{ do: 'wait', days: 31 }]],
  [2, [0, 1, 2].map((at) => ({ do: 'crash' as const, at, written: false, prefixes: true }))],
  [0, [31, 4, 4].map((days) => ({ do: 'wait' as const, days }))],
  [0, [{ do: 'cancel' }, { do: 'wait', days: 31 }]],
]

test('for any wallet and clock no period is charged twice, and none is skipped while the wallet has money', async (t) => {
  const shop = await openShop(t, createMemoryLog())
  const seen = { renewed: 0, expired: 0, canceled: 0, crashes: 0 }
  await fc.assert(
    fc.asyncProperty(fc.nat(12), fc.array(step, { maxLength: 20 }), async (first, steps) => {
      const accountId = await shop.account()
      let credited = (1 + first) * priceCents
      await shop.credit(accountId, credited)
      const opening = shop.start(shop.log)
      const { subscription } = await shop.subscribe(opening, accountId)
      await opening.end()
      const id = subscription.terms.subscriptionId as SubscriptionId

      for (const current of steps) {
        // Something is due when processes meet or die.
        if (['crash', 'both', 'cancelWhileRenewing'].includes(current.do)) shop.wait(31 * dayMs)
        switch (current.do) {
          case 'wait':
            shop.wait(current.days * dayMs)
            break
          case 'credit':
            credited += current.periods * priceCents
            await shop.credit(accountId, current.periods * priceCents)
            break
          case 'cancel': {
            const process = shop.start(shop.log)
            await process.subscriptions.cancel({ accountId, subscriptionId: id, ...cause })
            await process.end()
            break
          }
          case 'cancelWhileRenewing':
          case 'both': {
            const two = [shop.start(prefixLog(shop.log)), shop.start(shop.log)] as const
            await Promise.all([
              two[0].renewals.renew(id),
              two[1].renewals.renew(id),
              ...(current.do === 'both'
                ? []
                : [two[1].subscriptions.cancel({ accountId, subscriptionId: id, ...cause })]),
            ])
            for (const process of two) await process.end()
            break
          }
          case 'crash': {
            const stop = stopAtAppend(current.at, { kind: 'crash', written: current.written })
            const { log, died, dead } = mortal(current.prefixes ? prefixLog(shop.log, stop) : shop.log)
            const process = shop.start(log)
            await Promise.race([process.renewals.renew(id).catch(() => undefined), died])
            await process.end()
            if (dead()) seen.crashes += 1
            break
          }
        }
        await recover(shop, accountId)
        const after = shop.start(shop.log)
        await after.renewals.renew(id)
        await after.end()
        const state = await audit(shop, accountId, id)
        assert.ok(state)
        const leftCents = credited - state.periods * priceCents
        assert.ok(leftCents >= 0, 'the wallet went below zero')
        const end = Date.parse(state.currentPeriodEnd)
        if (state.ended?.status === 'expired') {
          assert.ok(Date.parse(state.ended.at) >= end + graceMs, 'it expired within the grace')
        } else if (!state.ended && !state.cancelScheduled) {
          assert.ok(shop.clock() < end || leftCents < priceCents, 'a full wallet was not charged')
          assert.ok(shop.clock() < end + graceMs, 'it outlived its grace unpaid')
        } else if (state.cancelScheduled && !state.ended) assert.ok(shop.clock() < end)
      }
      const state = await audit(shop, accountId, id)
      seen.renewed += (state?.periods ?? 1) - 1
      if (state?.ended) seen[state.ended.status] += 1
    }),
    { numRuns: runs(40, 1_000), examples: oneOfEach },
  )
  t.diagnostic(JSON.stringify(seen))
  for (const [what, times] of Object.entries(seen)) assert.ok(times > 0, `nothing ${what}`)
})

test('a start that is interrupted after any append charges once, and a retry returns one subscription', async (t) => {
  const shop = await openShop(t, createMemoryLog())
  for (const written of [true, false])
    for (let at = 0; at < 5; at += 1) {
      const accountId = await shop.account()
      await shop.credit(accountId, 2 * priceCents)
      const stop = stopAtAppend(at, { kind: 'crash', written })
      const { log, died } = mortal(prefixLog(shop.log, stop))
      const process = shop.start(log)
      await Promise.race([shop.subscribe(process, accountId).catch(() => undefined), died])
      await process.end()
      // Either the client comes back, or the reactors do it alone.
      if (at % 2 === 0) await recover(shop, accountId)
      const again = shop.start(prefixLog(shop.log))
      const { subscription } = await shop.subscribe(again, accountId)
      await again.end()
      const state = await audit(shop, accountId, subscription.terms.subscriptionId as SubscriptionId)
      assert.equal(state?.periods, 1)
      const debits = (await ledgerOf(shop.log, accountId)).filter(({ type }) => type === 'WalletDebited')
      assert.equal(debits.length, 1)
    }
})

test('many simultaneous processes place one renewal', async (t) => {
  const shop = await openShop(t, createMemoryLog())
  const accountId = await shop.account()
  await shop.credit(accountId, 100 * priceCents)
  const processes = Array.from({ length: 6 }, () => shop.start(shop.log))
  const { subscription } = await shop.subscribe(processes[0]!, accountId)
  const id = subscription.terms.subscriptionId as SubscriptionId
  for (let month = 1; month <= 10; month += 1) {
    shop.wait(31 * dayMs)
    await Promise.all(processes.flatMap(({ renewals }) => [renewals.renew(id), renewals.renew(id)]))
    const state = await audit(shop, accountId, id)
    assert.ok(Date.parse(state!.currentPeriodEnd) > shop.clock())
  }
  for (const process of processes) await process.end()
  const last = await audit(shop, accountId, id)
  assert.ok(await shop.log.lastOf(orderStream(last!.orderId as OrderId)))
})

test('a period whose order was refunded before its subscription recorded it counts as paid, as it would have a moment later', async (t) => {
  const shop = await openShop(t, createMemoryLog())
  const accountId = await shop.account()
  await shop.credit(accountId, 10 * priceCents)
  const operator = shop.start(shop.log)
  const { subscription } = await shop.subscribe(operator, accountId)
  const id = subscription.terms.subscriptionId as SubscriptionId
  const renew = async () => {
    const process = shop.start(shop.log)
    await process.renewals.renew(id)
    await process.end()
  }
  shop.wait(31 * dayMs)
  // Ledger, plan and order are written; the subscription has no record.
  const { log, died } = mortal(prefixLog(shop.log, stopAtAppend(2, { kind: 'crash', written: true })))
  const cut = shop.start(log)
  await Promise.race([cut.renewals.renew(id).catch(() => undefined), died])
  await cut.end()
  const orderId = orderIdsOfSchedule(id, {
    startedAt: subscription.terms.startedAt,
    period: subscription.terms.period,
    currentPeriodEnd: subscription.currentPeriodEnd,
  })[1]!
  const refunded = await refundOrder(
    { log: shop.log, runner: operator.runner, settleTraffic: async () => undefined },
    { orderId, refundId: 'ref_by_hand', request: { kind: 'whole' }, ...cause },
  )
  assert.equal(refunded?.kind, 'refunded')
  await operator.end()
  await renew()
  const process = shop.start(shop.log)
  const state = await process.subscriptions.read(id)
  await process.end()
  assert.deepEqual([state?.periods, state?.orderId], [2, orderId])
  assert.equal((await readOrder(shop.log, orderId))?.status, 'refunded')
})

/** A subscription of two addresses. No read table is ever written here, and every process starts cold. */
const openRentals = async (t: TestContext) => {
  const shop = await openShop(t, createMemoryLog())
  const operator = shop.start(shop.log)
  const ips = Array.from({ length: 12 }, (_, n) => `198.18.0.${n + 1}`)
  await addAddresses(
    operator.runner,
    { productId: isp.id, country: 'USA', addresses: ips.map(plainAddress) },
    cause,
  )
  const accountId = await shop.account()
  await shop.credit(accountId, 12 * priceCents)
  const { subscription } = await shop.subscribe(operator, accountId, twoAddresses)
  await operator.end()
  const id = subscription.terms.subscriptionId as SubscriptionId
  assert.equal(subscription.proxyIds.length, 2)
  return { shop, accountId, id, subscription }
}

test('addresses are renewed by processes that know only the log, whichever of them crashes', async (t) => {
  const { shop, accountId, id, subscription } = await openRentals(t)
  const renew = async (log: EventLog, died: Promise<unknown> = new Promise(() => undefined)) => {
    const process = shop.start(log)
    await Promise.race([process.renewals.renew(id).catch(() => undefined), died])
    await process.end()
  }
  for (let at = 0; at < 5; at += 1) {
    shop.wait(30 * dayMs - (at === 0 ? dayMs : 0))
    const { log, died } = mortal(prefixLog(shop.log, stopAtAppend(at, { kind: 'crash', written: true })))
    await renew(log, died)
    await recover(shop, accountId)
    await renew(shop.log)
    const state = await audit(shop, accountId, id)
    assert.equal(state?.periods, at + 2)
    assert.deepEqual(state?.proxyIds, subscription.proxyIds, 'others were rented in place of those that run')
  }
})

test('a renewal that a crash delayed until its addresses had ended is refunded, and others are rented', async (t) => {
  const { shop, accountId, id, subscription } = await openRentals(t)
  shop.wait(29 * dayMs)
  const stop = stopAtAppend(0, { kind: 'crash', written: true })
  const { log, died } = mortal(prefixLog(shop.log, stop))
  const cut = shop.start(log)
  await Promise.race([cut.renewals.renew(id).catch(() => undefined), died])
  await cut.end()
  shop.wait(2 * dayMs)
  await recover(shop, accountId)
  const process = shop.start(shop.log)
  await process.renewals.renew(id)
  await process.end()
  const state = await audit(shop, accountId, id)
  assert.equal(state?.periods, 2)
  assert.ok(state.proxyIds.every((proxyId) => !subscription.proxyIds.includes(proxyId)))
  assert.equal(state.proxyIds.length, 2)
})

test('addresses that end during their renewal are rented again at the next poll', async (t) => {
  const { shop, accountId, id } = await openRentals(t)
  shop.wait(30 * dayMs - 1)
  // They run when the renewal checks them; they end while it computes the price.
  const current = () => {
    shop.wait(1)
    return market.catalog.current()
  }
  const process = shop.start(shop.log, { ...market, catalog: { current } })
  await process.renewals.renew(id)
  assert.equal((await audit(shop, accountId, id))?.periods, 1)
  await process.end()
  const { rows } = await shop.pool.query('select retry_at <= $1::timestamptz as due from work.renewals', [
    new Date(shop.clock()).toISOString(),
  ])
  assert.deepEqual(rows, [{ due: true }])
  const again = shop.start(shop.log)
  await again.renewals.renew(id)
  await again.end()
  assert.equal((await audit(shop, accountId, id))?.periods, 2)
})
