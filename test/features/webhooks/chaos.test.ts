import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { startFarebox } from '../../support/farebox.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { eventsOf, hookTo, ping, startReactor, startWorker } from './deliveries.ts'
import { startReceiver } from './receiver.ts'

const soak = process.env.FAREBOX_SOAK !== undefined
const kills = soak ? 12 : 2

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

test('sending processes are killed at random: nothing is lost, and each delivery has one outcome', async (t) => {
  const app = await testApp(t, { own: true, roles: ['http', 'projections'] })
  const { log } = app.core
  const receiver = await startReceiver(t)
  // Slow enough that a kill finds some on their way.
  receiver.answer((response) => setTimeout(() => response.end('ok'), 20))
  const customer = await app.customer({ cents: 10_000_000 })
  for (let n = 0; n < 3; n++) await hookTo(app, receiver.url, ['order.fulfilled'], customer)
  const env = { ...app.env, FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on', FAREBOX_DEMO: 'off' }
  const start = () => startFarebox(t, env, ['reactors'])
  const steady = await start()
  let doomed = await start()
  const bought: string[] = []
  let over = false
  const buy = async (): Promise<void> => {
    while (!over) {
      const { status: code, body } = await app.client.post(
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
      // The remaining process is ended, and the new one takes over reactor and leases.
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

type Tried = {
  readonly delivery_id: string
  readonly attempt: number
  readonly at: string
  readonly status: number | null
  readonly latency_ms: number
}

test('workers that are killed repeatedly keep the order of attempts and the delays of the schedule', async (t) => {
  const app = await testApp(t, { own: true, roles: ['http', 'projections'] })
  const { log, pool } = app.core
  const receiver = await startReceiver(t)
  // Every delivery fails so often, by a number that its id gives, and is then taken.
  const failuresOf = (deliveryId: string): number => Number.parseInt(deliveryId.slice(-2), 16) % 3
  const hooks = await Promise.all([0, 1, 2, 3].map(() => hookTo(app, receiver.url)))
  const deliveryIds: string[] = []
  for (let n = 0; n < (soak ? 80 : 16); n++) deliveryIds.push(await ping(app, hooks[n % hooks.length]!))
  receiver.answer((response, { headers }) => {
    const sent = receiver.received.filter((one) => one.headers['webhook-id'] === headers['webhook-id']).length
    response.statusCode = sent > failuresOf(headers['webhook-id'] as string) ? 200 : 503
    // Slow enough that a kill finds some on their way.
    setTimeout(() => response.end(), 20)
  })

  const env = { ...app.env, FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on', FAREBOX_DEMO: 'off' }
  /** What has no outcome, when the first of it is due, and how much of it is due by a clock so far ahead. */
  const pending = async (aheadMs: number) => {
    const { rows } = await pool.query<{ left: number; first_due_at: string | null; due: number }>(
      `select count(*) as left, min(due_at) as first_due_at, count(*) filter (where due_at <= $1::timestamptz) as due
         from work.webhook_deliveries where status = 'pending'`,
      [new Date(Date.now() + aheadMs).toISOString()],
    )
    return rows[0]!
  }
  /** Queues with due items that no process would poll. */
  const overlooked = async (): Promise<number> => {
    const { rows } = await pool.query<{ queues: number }>(
      `select count(distinct d.endpoint_id) as queues
         from work.webhook_deliveries d left join work.queue_owners q
                on q.queue = 'webhooks' and q.owner = d.endpoint_id
        where d.status = 'pending' and (q.next_due_at is null or q.next_due_at > d.due_at)`,
    )
    return rows[0]!.queues
  }
  // Each process starts when the service's clock has reached the next due item. The first ones are killed
  // in the middle of their sending, the others once nothing is due.
  let aheadMs = 0
  let lives = 0
  for (let left = deliveryIds.length; left > 0; lives++) {
    assert.ok(lives < 100, `${left} deliveries are still pending`)
    const before = receiver.received.length
    const settings = { ...env, FAREBOX_CLOCK_OFFSET_MS: String(aheadMs) }
    const doomed = await startFarebox(t, settings, ['reactors'])
    await until(
      async () =>
        (lives < 2 * kills && receiver.received.length > before + 2) ||
        (receiver.received.length > 0 && (await pending(aheadMs)).due === 0),
      { timeoutMs: 60_000, everyMs: 5, what: 'deliveries before a kill' },
    )
    await sleep(Math.random() * 40)
    await doomed.kill()
    assert.equal(await overlooked(), 0, 'no queue is due later than what it holds')
    const now = await pending(aheadMs)
    left = now.left
    if (now.first_due_at !== null)
      aheadMs = Math.max(aheadMs, Date.parse(now.first_due_at) - Date.now() + 1_000)
  }

  const { rows } = await pool.query<Tried>(
    'select delivery_id, attempt, at, status, latency_ms from work.webhook_attempts order by delivery_id, attempt',
  )
  const tried = Map.groupBy(rows, ({ delivery_id }) => delivery_id)
  const attemptsOf = new Map(
    (await eventsOf(log, 'delivery-'))
      .filter(({ type }) => type === 'DeliverySucceeded')
      .map(({ data }) => [(data as Fact).deliveryId, (data as { attempts: number }).attempts]),
  )
  assert.deepEqual([...attemptsOf.keys()].sort(), [...deliveryIds].sort(), 'each was acknowledged')
  let unrecorded = 0
  for (const [deliveryId, attempts] of tried) {
    assert.deepEqual(
      attempts.map(({ attempt }) => attempt),
      attempts.map((_, index) => index + 1),
      'attempts are numbered without a gap',
    )
    // The row of the last one may have died between the outcome and itself; the log knows that it was.
    const failed = attempts.filter(({ status }) => status !== 200)
    assert.ok(failed.every(({ status }, index) => status === 503 && attempts[index] === failed[index]))
    assert.equal(attemptsOf.get(deliveryId), failed.length + 1)
    for (const [index, next] of attempts.slice(1).entries()) {
      const former = attempts[index]!
      const waitedMs = Date.parse(next.at) - Date.parse(former.at) - former.latency_ms
      const plannedMs = 30_000 * 2 ** index
      assert.ok(waitedMs >= plannedMs * 0.9 - 5, `${waitedMs} ms after attempt ${index + 1} of ${deliveryId}`)
    }
    const sent = receiver.received.filter(({ headers }) => headers['webhook-id'] === deliveryId).length
    assert.ok(
      sent >= attempts.length,
      `${deliveryId} arrived ${sent} times, ${attempts.length} are on record`,
    )
    unrecorded += sent - attempts.length
  }
  const { enqueued, finished } = await outcomesOf(log)
  assert.equal(enqueued.size, deliveryIds.length)
  assert.ok([...enqueued.values(), ...finished.values()].every((count) => count === 1))
  t.diagnostic(`${lives} processes were killed; ${unrecorded} requests were sent and not put on record`)
})

test('a worker without a database connection loses its lease, and another one sends', async (t) => {
  const app = await testApp(t, { own: true, roles: ['http', 'projections'] })
  const { pool } = app.core
  startReactor(t, app)
  const receiver = await startReceiver(t)
  let hold = true
  receiver.answer((response) => {
    if (!hold) response.end('ok')
  })
  startWorker(t, app, { sender: { timeoutMs: 30_000 } })
  const hook = await hookTo(app, receiver.url)
  await ping(app, hook)
  await until(() => receiver.received.length === 1)
  hold = false
  startWorker(t, app)
  // Its own connection locks its number; without that lock it counts as ended.
  await pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'farebox queue worker'
       and datname = current_database() order by backend_start limit 1`,
  )
  await until(() => receiver.received.length === 2, { timeoutMs: 20_000, what: 'the other worker' })
  const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
  assert.equal(ids[0], ids[1])
})

test('attempts of one endpoint never exceed four at once, over all workers', async (t) => {
  const app = await testApp(t, { own: true, roles: ['http', 'projections'] })
  startReactor(t, app)
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
  for (let n = 0; n < 3; n++) startWorker(t, app)
  const hook = await hookTo(app, receiver.url)
  for (let n = 0; n < 40; n++) await ping(app, hook)
  await until(() => new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size === 40, {
    timeoutMs: 60_000,
  })
  assert.ok(most > 1 && most <= 4, `${most} at once`)
  assert.equal(receiver.received.length, 40, 'each arrived once')
})
