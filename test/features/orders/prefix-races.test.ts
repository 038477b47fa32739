import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groups } from '../../../projections/groups.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { startCompletionReactor } from '../../../src/features/orders/complete-orders.ts'
import { startMovementReactor } from '../../../src/features/wallet/wallet-service.ts'
import type { AccountId, OrderId } from '../../../src/kernel/ids.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { openChosenLog } from '../../platform/eventstore/chosen-log.ts'
import { caughtUp, silent, startEngine } from '../../platform/projections/engine.ts'
import fc from '../../support/fast-check.ts'
import { testDatabase } from '../../support/postgres.ts'
import { prefixLog, type Stop, type StopAt } from '../../support/prefix-log.ts'
import { createShopProcess, type Item, mortal, type ShopProcess } from '../../support/prefix-process.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { until } from '../../support/until.ts'

const runs = process.env.FAREBOX_SOAK === '1' ? 300 : 25
const buyers = 3
const startCents = 3_000
const startMicros = startCents * 10_000

/** One request of one buyer, under its own key; `refund` refunds an order that was acknowledged before. */
type Request =
  | { readonly kind: 'addresses'; readonly buyer: number; readonly quantity: number }
  | { readonly kind: 'traffic'; readonly buyer: number }
  | { readonly kind: 'refund'; readonly buyer: number; readonly of: number; readonly cents: number | null }

const stops: readonly Stop[] = [
  { kind: 'unavailable' },
  { kind: 'unknown', written: true },
  { kind: 'unknown', written: false },
  { kind: 'crash', written: true },
  { kind: 'crash', written: false },
]

const buyer = fc.nat({ max: buyers - 1 })
const request: fc.Arbitrary<Request> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('addresses' as const),
      buyer,
      quantity: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('traffic' as const), buyer }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('refund' as const),
      buyer,
      of: fc.nat({ max: 11 }),
      cents: fc.option(fc.integer({ min: 1, max: 400 })),
    }),
  },
)

/** Which requests which process gets, together; and what happens at each append of a process, in turn. */
const play = fc.record({
  waves: fc.array(fc.array(fc.tuple(fc.nat({ max: 1 }), request), { minLength: 2, maxLength: 5 }), {
    minLength: 2,
    maxLength: 4,
  }),
  stops: fc.infiniteStream(
    fc.oneof(
      { weight: 6, arbitrary: fc.constant(null) },
      { weight: 1, arbitrary: fc.constantFrom(...stops) },
    ),
  ),
})

const stoppedBy =
  (next: Iterator<Stop | null>): StopAt =>
  () =>
    next.next().value as Stop | null

test('two processes whose log stops at random charge once, refund once, and rent no address twice', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await openChosenLog(t, url)
  t.after(() => log.close())
  const engine = await startEngine(t, pool, log, groups)
  let world = 0
  let crashes = 0

  await fc.assert(
    fc.asyncProperty(play, async ({ waves, stops: stream }) => {
      world += 1
      const accounts = Array.from({ length: buyers }, (_, n) => `acc_${world}_${n}` as AccountId)
      const productId = `product-${world}`
      const honest = createShopProcess(prefixLog(log), Date.now)
      for (const account of accounts) {
        await honest.openAccount(account)
        await honest.credit(account, startCents, 'start')
      }
      // Fewer than requested, so that some orders lose.
      await honest.stock(
        productId,
        [1, 2, 3, 4, 5].map((n) => `10.${world >> 8}.${world & 255}.${n}`),
      )

      const next = stream[Symbol.iterator]()
      const open = () => {
        const { log: own, died, dead } = mortal(prefixLog(log, stoppedBy(next)))
        return { process: createShopProcess(own, Date.now), died, dead }
      }
      const running = [open(), open()]
      const orderIds = new Map<number, OrderId>()
      const refundOf = new Map<number, OrderId>()
      const requests = waves.flat()

      const itemOf = (sent: Exclude<Request, { kind: 'refund' }>): Item =>
        sent.kind === 'addresses'
          ? { kind: 'addresses', productId, quantity: sent.quantity }
          : { kind: 'held-plan', productId: `traffic-${productId}` }

      /** Sends one request; refusals and outages do not matter: the log is checked. */
      const ask = async (process: ShopProcess, n: number): Promise<void> => {
        const sent = requests[n]![1]
        const account = accounts[sent.buyer]!
        if (sent.kind === 'refund') {
          // A retry is for the same order, whatever was placed since.
          const orderId = refundOf.get(n) ?? [...orderIds.values()][sent.of % orderIds.size]
          if (orderId) refundOf.set(n, orderId)
          const wanted =
            sent.cents === null
              ? ({ kind: 'whole' } as const)
              : ({ kind: 'cents', cents: sent.cents } as const)
          if (orderId) await process.refund(orderId, `refund-${n}`, wanted)
          return
        }
        const { order } = await process.order(account, `key-${n}`, itemOf(sent))
        const known = orderIds.get(n) ?? order.details.orderId
        assert.equal(known, order.details.orderId, 'one key gave two orders')
        orderIds.set(n, known)
      }
      const refused = (error: Error): void => {
        assert.ok(['CommandOverload', 'ApiError'].includes(error.name), error.stack)
      }

      let n = 0
      for (const wave of waves) {
        await Promise.all(
          wave.map(async ([at], index) => {
            const { process, died } = running[at]!
            await Promise.race([ask(process, n + index).catch(refused), died])
          }),
        )
        n += wave.length
        for (const at of [0, 1]) {
          if (!running[at]!.dead()) continue
          crashes += 1
          await running[at]!.process.end()
          running[at] = open()
        }
      }
      for (const { process } of running) await process.end()

      // Another process completes the rest; then every client repeats its requests, twice.
      const after = createShopProcess(prefixLog(log), Date.now)
      const dependencies = {
        scheduler: testScheduler(),
        pool,
        clock: () => Date.now() + 600_000,
        logger: silent,
        intervalMs: 180_000,
      }
      const pollers = [
        startCompletionReactor({ ...dependencies, complete: after.complete }),
        startMovementReactor({ ...dependencies, wallets: after.wallets }),
      ]
      // Requests of an ended process may still land after the first read.
      const nothingOpen = async (): Promise<boolean> => {
        await caughtUp(engine, log)
        for (const poller of pollers) await poller.runNow()
        await caughtUp(engine, log)
        return (await pool.query('select 1 from read.open_orders')).rows.length === 0
      }
      await until(nothingOpen, { what: 'the reactors to leave no order open' })
      for (const poller of pollers) await poller.stop()
      for (const _ of [1, 2]) for (const at of requests.keys()) await ask(after, at).catch(refused)
      await audit(log, accounts, productId)
      await honest.end()
      await after.end()
    }),
    { numRuns: runs },
  )

  /** The tables equal the ledger, and both show that every order ended. */
  async function audit(of: EventLog, accounts: readonly AccountId[], productId: string): Promise<void> {
    await caughtUp(engine, of)
    const left = await pool.query('select * from read.open_orders')
    assert.deepEqual(left.rows, [], 'an order is left open')
    for (const account of accounts) {
      const debits = new Map<string, number>()
      const refunds = new Map<string, number>()
      let availableMicros = 0
      for await (const stored of of.readStream(ledgerStream(account))) {
        const event = decode(stored) as unknown as LedgerEvent
        availableMicros = event.data.availableAfterMicros
        assert.ok(availableMicros >= 0, 'a wallet is below zero')
        if (event.type === 'WalletDebited') {
          const { orderId } = event.data.order
          assert.ok(!debits.has(orderId), 'an order is charged twice')
          debits.set(orderId, event.data.amountMicros)
        } else if (event.type === 'WalletCredited' && event.data.source === 'refund') {
          const { orderId, reference, amountMicros } = event.data
          assert.ok(!refunds.has(reference), 'a refund is paid twice')
          refunds.set(reference, amountMicros)
          debits.set(orderId!, debits.get(orderId!)! - amountMicros)
        }
      }
      const { rows } = await pool.query<{ order_id: string; status: string; remaining: number }>(
        `select order_id, status, (details::jsonb ->> 'amountCents')::bigint - refunded_cents as remaining
           from read.orders where account_id = $1`,
        [account],
      )
      assert.equal(rows.length, debits.size, 'as many orders as debits')
      for (const { order_id, status, remaining } of rows) {
        assert.ok(status === 'completed' || status === 'refunded', `an order is left ${status}`)
        assert.equal(
          debits.get(order_id),
          remaining * 10_000,
          'the remaining amount is the paid one less the refunds',
        )
      }
      const paid = [...debits.values()].reduce((sum, micros) => sum + micros, 0)
      assert.equal(availableMicros, startMicros - paid, 'no cent is lost')
    }
    const rented = await pool.query<{ ip: string }>(
      'select ip from read.proxies where product_id = $1 and released_at is null',
      [productId],
    )
    const ips = rented.rows.map(({ ip }) => ip)
    assert.equal(new Set(ips).size, ips.length, 'an address is rented twice')
    assert.ok(ips.length <= 5)
  }

  assert.ok(crashes > 0, 'no process crashed')
  t.diagnostic(`${world} plays, ${crashes} crashes`)
})
