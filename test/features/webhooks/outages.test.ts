import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { done, openStage } from '../../contract/stage.ts'
import { skipWithoutPostgresLog } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { startReceiver } from './receiver.ts'
import { eventsOf, hookTo, ping } from './world.ts'

/** Has the log refuse events until the trigger `refuse` is dropped. */
const refuseEvents = (pool: pg.Pool, condition: string, errcode: string) =>
  pool.query(`
    create function log.refuse() returns trigger language plpgsql as
      $$ begin raise exception using errcode = '${errcode}', message = 'refused'; end $$;
    create trigger refuse before insert on log.events for each row when (${condition}) execute function log.refuse()`)

const pending = async (pool: pg.Pool): Promise<number> => {
  const { rows } = await pool.query(
    "select count(*)::integer as left from work.webhook_deliveries where status = 'pending'",
  )
  return rows[0].left
}

test('a backlog is delivered, each with one outcome, though its results wait while all connections to Postgres end', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const stage = await openStage(t)
  const { log, pool } = stage.farebox.core
  const receiver = await startReceiver(t)
  const customer = await stage.customer({ cents: 1_000_000 })
  for (let n = 0; n < 5; n += 1) await hookTo(stage, receiver.url, ['order.fulfilled'], customer)
  const order = { product_id: 'residential-basic', quantity: 1 }
  const buy = () => done(stage.client.post('/api/v1/orders', order, { key: customer.key }))
  // An endpoint that answered once gets several at once.
  await buy()
  await until(async () => receiver.received.length === 5 && (await pending(pool)) === 0)
  const held = Promise.withResolvers<void>()
  receiver.answer((response) => void held.promise.then(() => response.end('ok')))
  for (let n = 0; n < 39; n += 1) await buy()
  await until(() => receiver.received.length > 20)
  await refuseEvents(pool, "new.type = 'DeliverySucceeded'", '53100')
  held.resolve()
  for (let n = 0; n < 3; n += 1) {
    await pool.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    // The connection that claims is back, and has looked for what is due.
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
  await pool.query('drop trigger refuse on log.events')
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

test('a delivery whose result the log refuses keeps back no other, of its endpoint or of another account', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const stage = await openStage(t)
  const { pool } = stage.farebox.core
  const receiver = await startReceiver(t)
  const [bad, good] = await Promise.all([hookTo(stage, receiver.url), hookTo(stage, receiver.url)])
  await refuseEvents(
    pool,
    `new.type = 'DeliverySucceeded' and new.stream like 'delivery-${bad.id}%'`,
    '22000',
  )
  await ping(stage, bad)
  const ids = [await ping(stage, good), await ping(stage, good)]
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
