import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { groups } from '../../../projections/groups.ts'
import { refundIdOf, refundOrder } from '../../../src/features/orders/refund-order.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import { deliveryIdOf } from '../../../src/features/webhooks/enqueue.ts'
import { appendEvents, type EventAppend } from '../../../src/features/webhooks/settle.ts'
import { newId, type OrderId } from '../../../src/kernel/ids.ts'
import { deliveryStream } from '../../../src/kernel/streams.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { rebuild } from '../../../src/platform/projections/rebuild.ts'
import { done } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { skipWithoutPostgresLog } from '../../support/service-env.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { buyPlan, caughtUp, enqueued, gb, meter, nowhere as url } from './causes.ts'
import { eventsOf, type Hook, hookTo, path, startReactor, startWorker } from './deliveries.ts'
import { startReceiver } from './receiver.ts'
import { acceptEvents, refuseEvents } from './refused-events.ts'

const announcementTo = ({ id, accountId }: Hook): EventAppend => {
  const event = 'announcement.published'
  const resource = newId<string>('ntc')
  const deliveryId = deliveryIdOf(id, event, resource)
  const data = { deliveryId, endpointId: id, accountId, event, resource, data: {} }
  return {
    stream: deliveryStream(id, event, resource),
    expected: 'noStream',
    events: [{ type: 'WebhookEnqueued', data }],
    correlationId: 'test',
    causationId: null,
    nowMs: Date.now(),
    afterMs: 0,
  }
}

test('an event goes to the endpoints that were subscribed at its log position, however late the reactor is', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const customer = await app.customer({ cents: 100_000 })
  const other = await app.customer({ cents: 0 })
  const listens = await hookTo(app, url, ['order.fulfilled'], customer)
  const elsewhere = await hookTo(app, url, ['order.refunded'], customer)
  const foreign = await hookTo(app, url, ['order.fulfilled'], other)
  const stops = await hookTo(app, url, ['order.fulfilled'], customer)
  const first = await buyPlan(app, customer)
  const patch = (id: string, json: unknown) =>
    done(app.client.call('PATCH', `${path}/${id}`, { key: customer.key, json }))
  await patch(stops.id, { events: ['ping'] })
  await patch(listens.id, { status: 'disabled' })
  const second = await buyPlan(app, customer)
  await patch(listens.id, { status: 'active' })
  const late = await hookTo(app, url, ['order.fulfilled'], customer)
  const third = await buyPlan(app, customer)

  let reactor = startReactor(t, app)
  await caughtUp(app)
  const resourcesFor = (id: string) => async () =>
    (await enqueued(app)).filter(({ endpointId }) => endpointId === id).map(({ resource }) => resource)
  assert.deepEqual(await resourcesFor(listens.id)(), [first.orderId, third.orderId])
  assert.deepEqual(await resourcesFor(stops.id)(), [first.orderId])
  assert.deepEqual(await resourcesFor(late.id)(), [third.orderId])
  assert.deepEqual(await resourcesFor(elsewhere.id)(), [])
  assert.deepEqual(await resourcesFor(foreign.id)(), [])
  assert.ok(second.orderId)

  await t.test('a refund is sent once nothing of the order is left, with the refunded amount', async () => {
    const { core } = app
    const orderId = first.orderId as OrderId
    for (const [reference, request] of [
      ['half', { kind: 'cents', cents: Math.floor(first.amountCents / 2) }],
      ['rest', { kind: 'whole' }],
    ] as const)
      await refundOrder(
        { ...core, settleTraffic: createMeter(core).settle },
        {
          orderId,
          refundId: refundIdOf(orderId, reference),
          request,
          ...operator,
        },
      )
    await caughtUp(app)
    const events = (await eventsOf(core.log, `delivery-${elsewhere.id}`)).map(
      ({ data }) => data as { data: object },
    )
    assert.equal(events.length, 1)
    const order = (await app.client.get(`/api/v1/orders/${orderId}`, { key: customer.key })).body
    assert.deepEqual(events[0]!.data, {
      orderId,
      status: 'refunded',
      productId: order.productId,
      quantity: order.quantity,
      amountCents: order.amountCents,
      currency: 'USD',
      createdAt: order.createdAt,
      fulfilledAt: order.fulfilledAt,
      refundedAt: order.refundedAt,
      refundCents: order.amountCents,
    })
  })

  await t.test('a late delivery for an endpoint that is now disabled or removed is canceled', async () => {
    const gone = await hookTo(app, url, ['order.fulfilled'], customer)
    const off = await hookTo(app, url, ['order.fulfilled'], customer)
    await reactor.stop()
    await buyPlan(app, customer)
    await patch(off.id, { status: 'disabled' })
    await done(app.client.call('DELETE', `${path}/${gone.id}`, { key: customer.key }))
    reactor = startReactor(t, app)
    await caughtUp(app)
    await caughtUp(app)
    for (const { id } of [gone, off]) {
      const types = (await eventsOf(app.core.log, `delivery-${id}`)).map(({ type }) => type)
      assert.deepEqual(types, ['WebhookEnqueued', 'DeliveryCanceled'])
    }
    const { rows } = await app.core.pool.query(
      'select distinct status from work.webhook_deliveries where endpoint_id = any ($1::text[])',
      [[gone.id, off.id]],
    )
    assert.deepEqual(rows, [{ status: 'canceled' }])
  })

  await t.test('a rebuild and a replay from the start enqueue nothing', async () => {
    const { core } = app
    const before = (await eventsOf(core.log, 'delivery-')).length
    await rebuild({ pool: core.pool, log: core.log, decode: core.codec.decode, groups }, 'all')
    await reactor.stop()
    await core.pool.query(`update engine.checkpoints set epoch = epoch + 1, position = 0, last_event = null
      where name = 'webhook-queue'`)
    startReactor(t, app)
    await caughtUp(app)
    assert.equal((await eventsOf(core.log, 'delivery-')).length, before)
  })
})

test('a low plan is sent once per endpoint: a top-up neither repeats nor cancels it', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { client } = app
  startReactor(t, app)
  startWorker(t, app)
  const customer = await app.customer({ cents: 100_000 })
  const receiver = await startReceiver(t)
  const hook = await hookTo(app, receiver.url, ['plan.low_traffic'], customer)
  const { planId } = await buyPlan(app, customer)
  await done(client.call('PATCH', `/api/v1/plans/${planId}`, { key: customer.key, json: { label: 'acme' } }))
  await meter(app, planId, 0.95 * gb)
  const delivery = await until(() => receiver.received[0])
  assert.deepEqual(delivery.json.data, {
    planId,
    label: 'acme',
    product: 'Basic residential',
    dataGbTotal: 1,
    dataGbRemaining: 0.05,
    thresholdPct: 10,
    expiresAt: null,
  })

  const low = async (id: string) => {
    await caughtUp(app)
    return (await enqueued(app)).filter(({ endpointId }) => endpointId === id).length
  }
  // Low while it registers; then topped up, so that a later one gets nothing; then low again.
  const second = await hookTo(app, receiver.url, ['plan.low_traffic'], customer)
  assert.equal(await low(second.id), 1)
  await done(client.post(`/api/v1/plans/${planId}/topup`, { quantity: 10 }, { key: customer.key }))
  const lifted = await hookTo(app, receiver.url, ['plan.low_traffic', 'ping'], customer)
  const adding = await hookTo(app, receiver.url, ['ping'], customer)
  assert.equal(await low(lifted.id), 0)
  await meter(app, planId, 9.55 * gb)
  assert.deepEqual(
    [await low(hook.id), await low(second.id), await low(lifted.id), await low(adding.id)],
    [1, 1, 1, 0],
  )
  await done(
    client.call('PATCH', `${path}/${adding.id}`, {
      key: customer.key,
      json: { events: ['plan.low_traffic'] },
    }),
  )
  assert.equal(await low(adding.id), 1)
  const other = await app.customer({ cents: 0 })
  const foreign = await hookTo(app, receiver.url, ['plan.low_traffic'], other)
  assert.equal(await low(foreign.id), 0)
})

test('when the enqueuing process hangs, another one continues, and the first stops when it runs again', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const customer = await app.customer({ cents: 100_000 })
  const hook = await hookTo(app, url, ['order.fulfilled'], customer)
  const { postgresUrl } = app.core
  const stopped: ChildProcess = fork(join(import.meta.dirname, 'reactor-process.ts'), [postgresUrl, '2000'])
  t.after(async () => {
    stopped.kill('SIGKILL')
    await once(stopped, 'exit')
  })
  const said: unknown[] = []
  stopped.on('message', (word) => said.push(word))
  const bought = [await buyPlan(app, customer)]
  await until(() => said.includes('enqueued'), { what: 'the enqueuer of another process' })

  startReactor(t, app)
  stopped.kill('SIGSTOP')
  bought.push(await buyPlan(app, customer))
  await caughtUp(app)
  said.length = 0
  stopped.kill('SIGCONT')
  await until(() => said.includes('failed'), { what: 'that its session is gone' })
  bought.push(await buyPlan(app, customer))
  await caughtUp(app)
  const ofHook = (await enqueued(app)).filter(({ endpointId }) => endpointId === hook.id)
  const resources = ofHook.map(({ resource }) => resource)
  assert.deepEqual(resources.sort(), bought.map(({ orderId }) => orderId).sort())
  assert.ok(!said.includes('enqueued'), 'it enqueued nothing more')
})

test('a delivery to a disabled endpoint whose cancellation failed is canceled a minute later', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { log, pool } = app.core
  const hook = await hookTo(app, 'http://127.0.0.1:9')
  await done(app.client.call('PATCH', `${path}/${hook.id}`, { key: hook.key, json: { status: 'disabled' } }))
  // Enqueued by a process that did not know of it yet.
  await appendEvents(log, [announcementTo(hook)])
  await refuseEvents(t, pool, "new.type = 'DeliveryCanceled'", '22000')
  let behindMs = 61_000
  const lines: string[] = []
  const logger = createLogger('error', { write: (line) => void lines.push(line) })
  startReactor(t, app, { logger, log, clock: () => Date.now() - behindMs })
  await until(() => lines.some((line) => line.includes('cannot be canceled and is tried again later')))
  await acceptEvents(pool)
  behindMs = 0
  await until(async () => (await eventsOf(log, `delivery-${hook.id}`)).at(-1)?.type === 'DeliveryCanceled')
})

test('a reactor that crashes after it enqueued repeats it without effect', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const customer = await app.customer({ cents: 100_000 })
  const hooks = [
    await hookTo(app, url, ['order.fulfilled'], customer),
    await hookTo(app, url, ['order.fulfilled'], customer),
  ]
  const bought: string[] = []
  for (let n = 0; n < 5; n++) bought.push((await buyPlan(app, customer)).orderId)
  const { projecting, core } = app.farebox
  assert.ok(await projecting.caughtUp(30_000))
  // Nothing is folded meanwhile, so that its enqueued deliveries are still due when it restarts.
  await projecting.pause()
  let deaths = 0
  startReactor(t, app, {
    onEnqueued: () => {
      if (deaths >= 2) return
      deaths += 1
      throw new Error('killed between the log and the tables')
    },
  })
  await until(() => deaths === 2, { what: 'two deaths' })
  const eventsBefore = await eventsOf(core.log, 'delivery-')
  projecting.resume()
  await caughtUp(app)
  assert.deepEqual(await eventsOf(core.log, 'delivery-'), eventsBefore)
  const ids = hooks.map(({ id }) => id)
  const ofHooks = (await enqueued(app)).filter(({ endpointId }) => ids.includes(endpointId))
  const pairs = ofHooks.map(({ endpointId, resource }) => `${endpointId} ${resource}`).sort()
  assert.deepEqual(pairs, ids.flatMap((id) => bought.map((orderId) => `${id} ${orderId}`)).sort())
  const { rows } = await app.core.pool.query(
    'select count(*)::int as queued from work.webhook_deliveries where endpoint_id = any ($1::text[])',
    [ids],
  )
  assert.equal(rows[0].queued, pairs.length)
})
