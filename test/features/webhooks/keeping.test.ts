import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { createWorkMetrics } from '../../../src/app/metrics.ts'
import { createWebhookMetrics } from '../../../src/features/webhooks/metrics.ts'
import {
  deleteOldDeliveries,
  eraseSuperseded,
  retentionMs,
} from '../../../src/features/webhooks/webhook-vault.ts'
import { done } from '../../support/app-actions.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { caughtUp, nowhere } from './causes.ts'
import {
  deliveriesOf,
  eventsOf,
  hookTo,
  path,
  ping,
  startReactor,
  startWorker,
  untilDelivery,
} from './deliveries.ts'
import { startReceiver, status } from './receiver.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

test('an outcome updates no index of the deliveries: its row stays in its page', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { pool } = app.core
  startReactor(t, app)
  startWorker(t, app)
  const receiver = await startReceiver(t)
  const hook = await hookTo(app, receiver.url)
  for (let n = 0; n < 5; n++) await ping(app, hook)
  const changes = async () => {
    const { rows } = await pool.query<{ rows: number; within: number }>(
      `select n_tup_upd as rows, n_tup_hot_upd as within from pg_stat_user_tables
        where schemaname = 'work' and relname = 'webhook_deliveries'`,
    )
    return rows[0]!
  }
  // Postgres counts a little later.
  await until(async () => (await changes()).rows >= 5, { timeoutMs: 20_000, what: 'the outcomes' })
  const { rows, within } = await changes()
  assert.equal(within, rows)
})

// The figures are of the whole service: what the tests below leave would count.
test('metrics show pending and due deliveries, their age, attempts by outcome, and endpoints by status', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { pool } = app.core
  const registry = new Registry()
  const { clock } = app.core
  let elapsedMs = 0
  const metrics = createWebhookMetrics(registry, { pool, monotonicMs: () => elapsedMs })
  const work = createWorkMetrics(registry, { pool, clock })
  const figures = async (): Promise<Map<string, number>> => {
    elapsedMs += 10_000
    const text = await registry.metrics()
    return new Map(
      [...text.matchAll(/^(farebox_(?:webhook|queue)\S+) (\S+)$/gm)].map(([, name, value]) => [
        name!,
        Number(value),
      ]),
    )
  }
  startReactor(t, app)
  const receiver = await startReceiver(t)
  const active = 'farebox_webhook_endpoints{status="active"}'
  const activeBefore = (await figures()).get(active)!
  const [good, bad, gone, off] = [
    await hookTo(app, receiver.url),
    await hookTo(app, receiver.url),
    await hookTo(app, receiver.url),
    await hookTo(app, receiver.url),
  ]
  await done(app.client.call('PATCH', `${path}/${off.id}`, { key: off.key, json: { status: 'disabled' } }))
  const ids = new Map<string, number>()
  receiver.answer((response, { headers }) => {
    response.statusCode = ids.get(headers['webhook-id'] as string) ?? 500
    response.end()
  })
  ids.set(await ping(app, good), 200)
  ids.set(await ping(app, bad), 500)
  ids.set(await ping(app, gone), 410)
  await caughtUp(app)
  app.wait(5_000)
  const before = await figures()
  assert.equal(before.get('farebox_queue_items{queue="webhooks",state="waiting"}'), 3)
  assert.equal(before.get('farebox_queue_items{queue="webhooks",state="due"}'), 3)
  assert.ok(before.get('farebox_queue_oldest_due_seconds{queue="webhooks"}')! >= 5)
  assert.equal(before.get('farebox_webhook_fan_out_targets'), 0)
  assert.equal(before.get('farebox_webhook_attempts_total{outcome="acknowledged"}'), 0)

  startWorker(t, app, { onAttempt: metrics.onAttempt, metrics: work })
  await until(async () => {
    const now = await figures()
    return (
      now.get('farebox_webhook_endpoints{status="gone"}') === 1 &&
      now.get('farebox_queue_items{queue="webhooks",state="waiting"}') === 1
    )
  })
  // Counters are read before the gauges that query the database, so the next scrape has both.
  const after = await figures()
  for (const [name, value] of [
    ['attempts_total{outcome="acknowledged"}', 1],
    ['attempts_total{outcome="retry"}', 1],
    ['attempts_total{outcome="gone"}', 1],
    ['attempts_total{outcome="exhausted"}', 0],
    ['attempt_duration_seconds_count', 3],
    ['endpoints{status="disabled"}', 1],
  ] as const)
    assert.equal(after.get(`farebox_webhook_${name}`), value, name)
  assert.equal(after.get(active), activeBefore + 2)
  for (const [name, value] of [
    ['items{queue="webhooks",state="waiting"}', 1],
    ['items{queue="webhooks",state="due"}', 0],
    ['items{queue="webhooks",state="dead"}', 1],
    ['oldest_due_seconds{queue="webhooks"}', 0],
    ['in_flight{queue="webhooks"}', 0],
    ['attempts_total{queue="webhooks",outcome="done"}', 1],
    ['attempts_total{queue="webhooks",outcome="again"}', 1],
    ['attempts_total{queue="webhooks",outcome="dead"}', 1],
  ] as const)
    assert.equal(after.get(`farebox_queue_${name}`), value, name)
})

test('deliveries and their attempts are stored for 30 days after the outcome; pending ones permanently', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { pool, log } = app.core
  startReactor(t, app)
  startWorker(t, app)
  const receiver = await startReceiver(t)
  const failing = await startReceiver(t)
  failing.answer(status(500))
  const hook = await hookTo(app, receiver.url)
  const stuck = await hookTo(app, failing.url)

  const old = await ping(app, hook)
  const pending = await ping(app, stuck)
  const oldEndMs = Date.parse(
    (await untilDelivery(app, hook, old, (one) => one.status === 'succeeded')).finishedAt!,
  )
  await untilDelivery(app, stuck, pending, (one) => one.attempts.length === 1)
  app.wait(day)
  const young = await ping(app, hook)
  await untilDelivery(app, hook, young, (one) => one.status === 'succeeded')
  // More of the old ones than one statement takes.
  await pool.query(
    `insert into work.webhook_deliveries select 'dlv_bulk' || n, d.endpoint_id, d.account_id, d.event, 'bulk' || n, d.data,
       d.round, d.revision, d.position, d.status, d.attempts, d.due_at, d.queued_at, d.finished_at
       from work.webhook_deliveries d, generate_series(1, 2500) n where d.delivery_id = $1::text`,
    [old],
  )
  const remaining = async () => {
    const { rows } = await pool.query<{ deliveries: number; attempts: number }>(
      `select (select count(*) from work.webhook_deliveries where endpoint_id = any ($1::text[])) as deliveries,
              (select count(distinct delivery_id) from work.webhook_attempts
                where delivery_id = any ($2::text[]) or starts_with(delivery_id, 'dlv_bulk')) as attempts`,
      [
        [hook.id, stuck.id],
        [old, pending, young],
      ],
    )
    return rows[0]
  }

  await deleteOldDeliveries(pool, oldEndMs + retentionMs)
  assert.deepEqual(await remaining(), { deliveries: 2_503, attempts: 3 })
  await deleteOldDeliveries(pool, oldEndMs + retentionMs + 1)
  assert.deepEqual(await remaining(), { deliveries: 2, attempts: 2 })
  assert.deepEqual(
    (await deliveriesOf(app, hook)).map(({ id }) => id),
    [young],
  )
  await deleteOldDeliveries(pool, oldEndMs + 10 * retentionMs)
  const left = await deliveriesOf(app, stuck)
  assert.deepEqual(
    left.map((one) => [one.id, one.status]),
    [[pending, 'pending']],
  )
  assert.ok(left[0]!.attempts.length > 0 && left[0]!.nextAttemptAt !== null)
  assert.deepEqual(await deliveriesOf(app, hook), [])

  // The log keeps their outcome, and a deleted delivery cannot be sent again.
  const types = (await eventsOf(log, `delivery-${hook.id}`)).map(({ type }) => type)
  assert.equal(types.filter((type) => type === 'DeliverySucceeded').length, 2)
  const { key, id } = hook
  const again = await app.client.post(`${path}/${id}/deliveries/${old}/redeliver`, undefined, { key })
  assert.deepEqual([again.status, again.body.code], [404, 'not_found'])
})

const valuesOf = async (app: TestApp, endpointId: string): Promise<number> => {
  const { rows } = await app.core.pool.query<{ stored: number }>(
    'select count(*) as stored from vault.webhook_values where endpoint_id = $1::text',
    [endpointId],
  )
  return rows[0]!.stored
}

test('a replaced URL is erased within the hour, a rotated secret when its overlap ends, and the others still sign', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { pool } = app.core
  startReactor(t, app)
  startWorker(t, app)
  const receiver = await startReceiver(t)
  const { client } = app
  const hook = await hookTo(app, nowhere)
  const { key, id } = hook
  const other = await hookTo(app, nowhere)
  const startMs = app.core.clock()
  const patch = (json: unknown) => done(client.call('PATCH', `${path}/${id}`, { key, json }))
  const rotate = async () => (await done(client.post(`${path}/${id}/rotate-secret`, undefined, { key }))).body

  await patch({ url: receiver.url })
  await patch({ events: ['order.fulfilled'] })
  await rotate()
  const { secret } = await rotate()
  assert.equal(await valuesOf(app, id), 5, 'two URLs and three secrets')
  await caughtUp(app)

  await eraseSuperseded(pool, startMs + 30 * minute)
  assert.equal(await valuesOf(app, id), 5)
  await eraseSuperseded(pool, app.core.clock() + hour)
  assert.equal(await valuesOf(app, id), 4, 'the former URL is gone')
  await eraseSuperseded(pool, startMs + day - minute)
  assert.equal(await valuesOf(app, id), 4)
  await eraseSuperseded(pool, app.core.clock() + day)
  assert.equal(await valuesOf(app, id), 2, 'the URL and the secret that count')
  assert.equal(await valuesOf(app, other.id), 2)

  const listed = (await done(client.get(path, { key }))).body.webhooks
  assert.equal(listed[0].url, receiver.url)
  const delivered = await ping(app, hook)
  await untilDelivery(app, hook, delivered, (one) => one.status === 'succeeded')
  const { headers } = receiver.received[0]!
  assert.equal(headers['x-service-signature-previous'], undefined)
  assert.ok(secret.startsWith('whsec_'))
})
