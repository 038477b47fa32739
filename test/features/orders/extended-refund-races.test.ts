import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groups } from '../../../projections/groups.ts'
import type { StockEvent } from '../../../src/domain/stock/events.ts'
import { startCompletionReactor } from '../../../src/features/orders/complete-orders.ts'
import { readOrder } from '../../../src/features/orders/refund-order.ts'
import { type AccountId, orderIdOf } from '../../../src/kernel/ids.ts'
import { stockStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { caughtUp, silent, startEngine } from '../../platform/projections/engine.ts'
import { testDatabase } from '../../support/postgres.ts'
import { prefixLog } from '../../support/prefix-log.ts'
import { createShopProcess, mortal, type ShopProcess } from '../../support/prefix-process.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { testApp } from '../../support/test-app.ts'

const cause = { actor: { kind: 'system', name: 'test' }, correlationId: 'test' } as const
const clock = Date.now
const startCents = 100_000

test('the order of extended addresses is refunded on the command line after its extension, and not before', async (t) => {
  const app = await testApp(t)
  const { buyer } = app
  const { cli } = app
  const wallet = async () => (await buyer.get('/api/v1/wallet')).body.balanceCents as number
  const key = (name: string) => ({ headers: { 'Idempotency-Key': name } })
  const rented = async (orderId: string) =>
    (await buyer.get(`/api/v1/proxies?order_id=${orderId}`)).body.proxies.filter(
      ({ status }: { status: string }) => status === 'active',
    ).length
  const before = await wallet()
  const { body: order } = await buyer.post(
    '/api/v1/orders',
    { product_id: 'isp-static', quantity: 2, fulfillment_meta: { country: 'USA', period_days: 30 } },
    key('order'),
  )
  const { body: extension, status } = await buyer.post(
    '/api/v1/proxies/extend',
    { order_id: order.orderId, period_days: 30 },
    key('extension'),
  )
  assert.equal(status, 201)
  const paid = await wallet()
  assert.equal(paid, before - order.amountCents - extension.amountCents)

  for (const args of [[], ['--proxy', order.proxyIds[0]], ['--cents', String(order.amountCents)]]) {
    const refused = await cli('orders', 'refund', '--order', order.orderId, ...args)
    assert.deepEqual([refused.code, refused.json.code], [1, 'refund_refused'])
    assert.deepEqual(refused.json.extensionOrderIds, [extension.orderId])
    assert.match(refused.json.error, new RegExp(`refund ${extension.orderId} first`))
  }
  assert.equal(await wallet(), paid, 'a refusal moved money')
  assert.equal(await rented(order.orderId), 2)
  assert.equal((await buyer.get(`/api/v1/orders/${order.orderId}`)).body.refundedCents, 0)

  const some = await cli('orders', 'refund', '--order', order.orderId, '--cents', '5')
  assert.deepEqual([some.code, some.json.refundCents, some.json.keptProxyIds], [0, 5, []])
  assert.equal(await rented(order.orderId), 2)

  for (const { orderId } of [extension, order]) {
    const done = await cli('orders', 'refund', '--order', orderId)
    assert.deepEqual([done.code, done.json.status], [0, 'refunded'], done.err)
  }
  assert.equal(await wallet(), before)
  assert.equal(await rented(order.orderId), 0)
})

/** A new account with two rentals of its own product. */
const sceneOf = async (honest: ShopProcess, n: number) => {
  const accountId = `acc_case_${n}` as AccountId
  const productId = `product-${n}`
  await honest.openAccount(accountId)
  await honest.credit(accountId, startCents, 'start')
  await honest.stock(productId, [`10.0.${n}.1`, `10.0.${n}.2`])
  const { order } = await honest.order(accountId, 'bought', { kind: 'addresses', productId, quantity: 2 })
  const { orderId } = order.details
  const extend = (process: ShopProcess) =>
    process.order(accountId, 'extended', { kind: 'extension', productId, proxyIds: order.proxyIds })
  const extensionId = orderIdOf(accountId, 'extended')
  return { accountId, productId, orderId, extensionId, proxyIds: order.proxyIds, extend }
}
type Scene = Awaited<ReturnType<typeof sceneOf>>

/** The final state of both orders and their rentals, and the wallet's balance. */
const endOf = async (log: EventLog, process: ShopProcess, scene: Scene) => {
  const rentals = new Set<string>()
  for await (const stored of log.readStream(stockStream(scene.productId, 'USA'))) {
    const { type, data } = decode(stored) as StockEvent
    if (type === 'AddressesAllocated') for (const { proxyId } of data.allocations) rentals.add(proxyId)
    if (type === 'AddressesReleased') for (const { proxyId } of data.releases) rentals.delete(proxyId)
  }
  const { availableMicros } = await process.wallets.read(scene.accountId, cause)
  const extension = await readOrder(log, scene.extensionId)
  return {
    order: (await readOrder(log, scene.orderId))?.status,
    extension: extension?.status ?? null,
    rentals: rentals.size,
    spentCents: startCents - availableMicros / 10_000,
  }
}

test('a simultaneous extension and refund from two processes end in one of them and never in both', async (t) => {
  const { url } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  const [one, two] = [createShopProcess(log, clock), createShopProcess(log, clock)]
  const ends: string[] = []
  for (let n = 0; n < 24; n += 1) {
    const scene = await sceneOf(one, n)
    // A process that has the stock in its cache, so that it decides on cached data.
    if (n % 2 === 0) await two.stock(scene.productId, [`10.1.${n}.1`])
    const refund = () => two.refund(scene.orderId, 'once', { kind: 'whole' })
    const extend = () =>
      scene.extend(one).then(
        () => 'extended',
        (error: { code?: string }) => error.code,
      )
    const [answer, extended] =
      n % 3 === 0
        ? await Promise.all([refund(), extend()])
        : await Promise.all([extend(), refund()]).then(([a, b]) => [b, a] as const)
    const end = await endOf(log, one, scene)
    if (answer?.kind === 'refunded') {
      assert.equal(extended, 'out_of_stock')
      assert.deepEqual(end, { order: 'refunded', extension: null, rentals: 0, spentCents: 0 })
    } else {
      assert.ok(answer?.kind === 'refused', JSON.stringify(answer))
      assert.deepEqual(answer.extended?.extensionOrderIds, [scene.extensionId])
      assert.equal(extended, 'extended')
      assert.deepEqual(end, { order: 'completed', extension: 'completed', rentals: 2, spentCents: 1_000 })
    }
    ends.push(answer.kind)
  }
  for (const process of [one, two]) await process.end()
  t.diagnostic(`${ends.filter((kind) => kind === 'refunded').length} of ${ends.length} were refunded`)
})

test('a refund that the service decides is completed, and a paid extension continues', async (t) => {
  const { url } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  const process = createShopProcess(log, clock)
  const scene = await sceneOf(process, 0)
  await scene.extend(process)
  const byOperator = await process.refund(scene.orderId, 'by-operator', { kind: 'whole' })
  assert.equal(byOperator?.kind, 'refused')
  const bySystem = await process.refund(scene.orderId, 'by-system', { kind: 'whole' }, cause.actor)
  assert.equal(bySystem?.kind, 'refunded')
  assert.deepEqual(await endOf(log, process, scene), {
    order: 'refunded',
    extension: 'completed',
    rentals: 2,
    spentCents: 500,
  })
  await process.end()
})

test('on a log without atomic appends an extension between the steps of a refund keeps its rentals', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  const engine = await startEngine(t, pool, log, groups)
  const honest = createShopProcess(prefixLog(log), clock)
  const both = { order: 'refunded', extension: 'completed', rentals: 2, spentCents: 500 }

  /**
   * The refund of a process in which the extension lands before an append, and which then continues or
   * crashes.
   */
  const refundWith = async (n: number, before: 'ledger' | 'stock', dies: boolean) => {
    const scene = await sceneOf(honest, n)
    let came = false
    const { log: own, died } = mortal(
      prefixLog(log, async ({ append }) => {
        if (came || !append.stream.startsWith(`${before}-`)) return null
        came = true
        await scene.extend(honest)
        return dies ? { kind: 'crash', written: false } : null
      }),
    )
    const process = createShopProcess(own, clock)
    const running = process.refund(scene.orderId, 'once', { kind: 'whole' })
    const answer = await Promise.race([running.catch((error: Error) => error), died])
    assert.ok(came)
    if (dies) await process.end().catch(() => undefined)
    else await process.end()
    return { scene, answer }
  }

  for (const [n, before] of (['ledger', 'stock'] as const).entries()) {
    await t.test(`before the ${before} is written, and the refund continues`, async () => {
      const { scene, answer } = await refundWith(2 * n, before, false)
      assert.ok(answer && 'kind' in answer && answer.kind === 'refunded', JSON.stringify(answer))
      assert.deepEqual([...answer.keptProxyIds].sort(), [...scene.proxyIds].sort())
      assert.deepEqual(await endOf(log, honest, scene), both)
    })

    await t.test(
      `before the ${before} is written, and the process dies: the reactor completes it`,
      async () => {
        const { scene } = await refundWith(2 * n + 1, before, true)
        await caughtUp(engine, log, ['hot'])
        const reactor = startCompletionReactor({
          scheduler: testScheduler(),
          pool,
          complete: honest.complete,
          clock: () => Date.now() + 600_000,
          logger: silent,
          intervalMs: 180_000,
        })
        await reactor.runNow()
        await reactor.stop()
        assert.deepEqual(await endOf(log, honest, scene), both)
        await caughtUp(engine, log, ['hot'])
        assert.equal((await pool.query('select 1 from read.open_orders')).rows.length, 0)
      },
    )
  }
  await honest.end()
})
