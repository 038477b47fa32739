import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { deliveryIdOf } from '../../../src/features/webhooks/enqueue.ts'
import { appendEvents, type EventAppend } from '../../../src/features/webhooks/settle.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { deliveryStream } from '../../../src/kernel/streams.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { done } from '../../support/app-actions.ts'
import { skipWithoutPostgresLog } from '../../support/service-env.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { eventsOf, type Hook, hookTo, path, ping, publish, startReactor } from './deliveries.ts'
import { startReceiver } from './receiver.ts'

const acceptEvents = (pool: pg.Pool) => pool.query('drop trigger if exists refuse on log.events')

/** Has the log refuse events until `acceptEvents`, or the end of the test. */
const refuseEvents = (t: TestContext, pool: pg.Pool, condition: string, errcode: string) => {
  t.after(() => acceptEvents(pool))
  return pool.query(`
    create or replace function log.refuse() returns trigger language plpgsql as
      $$ begin raise exception using errcode = '${errcode}', message = 'refused'; end $$;
    create trigger refuse before insert on log.events for each row when (${condition}) execute function log.refuse()`)
}

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
  await until(async () => (await eventsOf(log, 'delivery-')).at(-1)?.type === 'DeliveryCanceled')
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
