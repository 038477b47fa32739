import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { done } from '../../support/app-actions.ts'
import { skipWithoutPostgresLog } from '../../support/service-env.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { eventsOf, hookTo, ping, publish } from './deliveries.ts'
import { startReceiver } from './receiver.ts'
import { acceptEvents, refuseEvents } from './refused-events.ts'

const pending = async (pool: pg.Pool): Promise<number> => {
  const { rows } = await pool.query(
    "select count(*)::integer as left from work.webhook_deliveries where status = 'pending'",
  )
  return rows[0].left
}

test('a backlog is delivered, each with one outcome, even if all connections to Postgres end meanwhile', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { log, pool } = app.core
  const receiver = await startReceiver(t)
  const customer = await app.customer({ cents: 1_000_000 })
  for (let n = 0; n < 5; n += 1) await hookTo(app, receiver.url, ['order.fulfilled'], customer)
  const order = { product_id: 'residential-basic', quantity: 1 }
  const buy = () => done(app.client.post('/api/v1/orders', order, { key: customer.key }))
  // An endpoint that answered once gets several at once.
  await buy()
  await until(async () => receiver.received.length === 5 && (await pending(pool)) === 0)
  const held = Promise.withResolvers<void>()
  receiver.answer((response) => void held.promise.then(() => response.end('ok')))
  for (let n = 0; n < 39; n += 1) await buy()
  await until(() => receiver.received.length > 20)
  await refuseEvents(t, pool, "new.type = 'DeliverySucceeded'", '53100')
  held.resolve()
  for (let n = 0; n < 3; n += 1) {
    await pool.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    // The claiming connection is back, and has polled for due items.
    await until(async () => {
      const { rows } = await pool
        .query(
          `select query from pg_stat_activity
            where application_name = 'farebox queue worker' and datname = current_database()
              and backend_start < now() - interval '1 second'`,
        )
        .catch(() => ({ rows: [] }))
      return rows.length === 1
    })
  }
  await acceptEvents(pool)
  const ended = ['DeliverySucceeded', 'DeliveryAbandoned', 'DeliveryCanceled']
  const outcomes = await until(
    async () => {
      const events = (await eventsOf(log, 'delivery-')).filter(({ type }) => ended.includes(type))
      return events.length >= 200 ? events : null
    },
    { timeoutMs: 60_000, what: 'the outcome of every delivery' },
  )
  assert.equal(new Set(outcomes.map(({ stream }) => stream)).size, 200)
  assert.ok(outcomes.every(({ type }) => type === 'DeliverySucceeded'))
  await until(async () => (await pending(pool)) === 0)
  assert.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 200)
})

test('a delivery that cannot be enqueued for one endpoint is enqueued for the others at once, and for that one later', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { core } = app
  const { pool } = core
  const receiver = await startReceiver(t)
  const customers = await Promise.all([1, 2, 3].map(() => app.customer({ cents: 100_000 })))
  const events = ['announcement.published', 'order.fulfilled']
  const hooks = await Promise.all(customers.map((customer) => hookTo(app, receiver.url, events, customer)))
  const [bad] = hooks
  await refuseEvents(
    t,
    pool,
    `new.type = 'WebhookEnqueued' and new.stream like 'delivery-${bad!.id}%'`,
    '22000',
  )
  await publish(app, 'ALL')
  for (const { key } of customers)
    await done(app.client.post('/api/v1/orders', { product_id: 'residential-basic', quantity: 1 }, { key }))
  await until(() => receiver.received.length === 4)
  const retries = await until(async () => {
    const { rows } = await pool.query(
      `select endpoint_id, event, attempts from work.webhook_enqueue_retries
        where status = 'pending' and endpoint_id = $1 order by event`,
      [bad!.id],
    )
    return rows.length === 2 ? rows : null
  })
  assert.deepEqual(
    retries,
    events.map((event) => ({ endpoint_id: bad!.id, event, attempts: 0 })),
  )
  const tryAgain = () => pool.query('update work.webhook_enqueue_retries set due_at = clock_timestamp()')
  await tryAgain()
  await until(async () => {
    const { rows } = await pool.query('select from work.webhook_enqueue_retries where attempts > 0')
    return rows.length === 2
  })
  await acceptEvents(pool)
  await tryAgain()
  await until(() => receiver.received.length === 6)
  const ids = new Set(receiver.received.map(({ headers }) => headers['webhook-id']))
  assert.equal(ids.size, 6)
  await until(async () => {
    const { rows } = await pool.query("select from work.webhook_enqueue_retries where result <> 'enqueued'")
    return rows.length === 0
  })
})

test('a delivery whose result the log refuses delays no other, of its endpoint or of another account', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { pool } = app.core
  const receiver = await startReceiver(t)
  const [bad, good] = await Promise.all([hookTo(app, receiver.url), hookTo(app, receiver.url)])
  await refuseEvents(
    t,
    pool,
    `new.type = 'DeliverySucceeded' and new.stream like 'delivery-${bad.id}%'`,
    '22000',
  )
  await ping(app, bad)
  const ids = [await ping(app, good), await ping(app, good)]
  await until(
    async () => {
      const { rows } = await pool.query(
        "select count(*)::integer as done from work.webhook_deliveries where delivery_id = any ($1::text[]) and status = 'succeeded'",
        [ids],
      )
      return rows[0].done === 2
    },
    { what: 'the deliveries of another account' },
  )
  const left = await until(async () => {
    const { rows } = await pool.query(
      `select attempts, due_at > now() + interval '30 seconds' as later from work.webhook_deliveries
        where endpoint_id = $1::text and status = 'pending'`,
      [bad.id],
    )
    return rows[0]?.attempts === 1 ? rows : null
  })
  assert.deepEqual(left, [{ attempts: 1, later: true }])
  assert.equal(receiver.received.filter(({ json }) => json.event === 'ping').length, 3)
})
