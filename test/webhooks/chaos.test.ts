import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EventLog } from '../../src/eventstore/port.ts'
import { openStage } from '../contract/stage.ts'
import { startFarebox } from '../support/farebox.ts'
import { until } from '../support/until.ts'
import { startReceiver } from './receiver.ts'
import { eventsOf, hookTo, openHooks, ping, startReactor, startWorker } from './world.ts'

const kills = process.env.FAREBOX_SOAK ? 12 : 2

type Fact = { readonly deliveryId: string; readonly endpointId: string; readonly resource: string }

const outcomesOf = async (log: EventLog) => {
  const events = await eventsOf(log, 'delivery-')
  const count = (types: readonly string[]) => {
    const counts = new Map<string, number>()
    for (const { type, data } of events)
      if (types.includes(type)) {
        const { deliveryId } = data as Fact
        counts.set(deliveryId, (counts.get(deliveryId) ?? 0) + 1)
      }
    return counts
  }
  return {
    enqueued: count(['WebhookEnqueued']),
    finished: count(['DeliverySucceeded', 'DeliveryAbandoned', 'DeliveryCanceled']),
  }
}

test('processes that send are killed at random: nothing is lost, and each delivery has one outcome', async (t) => {
  const stage = await openStage(t, {}, { roles: ['http', 'projections'] })
  const { log } = stage.farebox.core
  const receiver = await startReceiver(t)
  // Slow enough that a kill finds some on their way.
  receiver.answer((response) => setTimeout(() => response.end('ok'), 20))
  const customer = await stage.customer({ cents: 10_000_000 })
  for (let n = 0; n < 3; n++) await hookTo(stage, receiver.url, ['order.fulfilled'], customer)
  const env = { ...stage.env, FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on', FAREBOX_DEMO: 'off' }
  const start = () => startFarebox(t, env, ['reactors'])
  const steady = await start()
  let doomed = await start()
  const bought: string[] = []
  let over = false
  const buy = async (): Promise<void> => {
    while (!over) {
      const { status: code, body } = await stage.client.post(
        '/api/v1/orders',
        { product_id: 'residential-basic', quantity: 1 },
        { key: customer.key },
      )
      assert.equal(code, 201)
      bought.push(body.orderId)
      // Orders go on until the last kill, and do not pile up.
      await sleep(20)
    }
  }
  const buying = buy()
  for (let n = 0; n < kills; n++) {
    const before = receiver.received.length
    await until(() => receiver.received.length > before + 3, {
      timeoutMs: 60_000,
      what: 'deliveries before a kill',
    })
    await sleep(Math.random() * 50)
    await doomed.kill()
    doomed = await start()
    if (n % 3 === 2) {
      // The one that stayed goes, and the new one takes over reactor and leases.
      await steady.kill()
    }
  }
  over = true
  await buying
  await until(
    async () => {
      const { finished } = await outcomesOf(log)
      return finished.size === bought.length * 3
    },
    { timeoutMs: 120_000, everyMs: 200, what: 'an outcome of every delivery' },
  )
  const { enqueued, finished } = await outcomesOf(log)
  assert.deepEqual([...enqueued.keys()].sort(), [...finished.keys()].sort())
  assert.ok([...enqueued.values(), ...finished.values()].every((count) => count === 1))
  const arrived = new Set(receiver.received.map(({ headers }) => headers['webhook-id'] as string))
  for (const deliveryId of enqueued.keys()) assert.ok(arrived.has(deliveryId), `${deliveryId} never arrived`)
  const perOrder = Map.groupBy(receiver.received, ({ json }) => json.resource)
  for (const orderId of bought) assert.ok((perOrder.get(orderId)?.length ?? 0) >= 3)
  t.diagnostic(`${receiver.received.length} requests for ${enqueued.size} deliveries, ${kills} kills`)
})

test('a worker that stops answering the database loses its lease with its connection, and another sends', async (t) => {
  const stage = await openHooks(t)
  const { pool } = stage.farebox.core
  startReactor(t, stage)
  const receiver = await startReceiver(t)
  let hold = true
  receiver.answer((response) => {
    if (!hold) response.end('ok')
  })
  startWorker(t, stage, { sender: { timeoutMs: 30_000 } })
  const hook = await hookTo(stage, receiver.url)
  await ping(stage, hook)
  await until(() => receiver.received.length === 1)
  hold = false
  startWorker(t, stage)
  // Its number is locked by a connection of its own; without that it is as good as dead.
  await pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'farebox webhook worker'
       and datname = current_database() order by backend_start limit 1`,
  )
  await until(() => receiver.received.length === 2, { timeoutMs: 20_000, what: 'the other worker' })
  const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
  assert.equal(ids[0], ids[1])
})

test('attempts of one endpoint never overlap beyond four, over all workers', async (t) => {
  const stage = await openHooks(t)
  startReactor(t, stage)
  const receiver = await startReceiver(t)
  let now = 0
  let most = 0
  receiver.answer((response) => {
    now += 1
    most = Math.max(most, now)
    setTimeout(() => {
      now -= 1
      response.end('ok')
    }, 30)
  })
  for (let n = 0; n < 3; n++) startWorker(t, stage)
  const hook = await hookTo(stage, receiver.url)
  for (let n = 0; n < 40; n++) await ping(stage, hook)
  await until(() => new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size === 40, {
    timeoutMs: 60_000,
  })
  assert.ok(most > 1 && most <= 4, `${most} at once`)
  assert.equal(receiver.received.length, 40, 'each arrived once')
})
