import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createVault } from '../../../src/platform/vault/seal.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { buyPlan, enqueued } from './causes.ts'
import { deliveriesOf, eventsOf, hookTo, path, ping, startReactor, startWorker } from './deliveries.ts'
import { startReceiver } from './receiver.ts'

test('a receiver gets what the log enqueued, whatever the queue contains', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { pool } = app.core
  startReactor(t, app)
  const receiver = await startReceiver(t)
  const other = await startReceiver(t)
  const hook = await hookTo(app, receiver.url)
  const others = await hookTo(app, other.url)
  const first = await ping(app, hook)
  const second = await ping(app, hook)
  const moved = await ping(app, hook)
  assert.equal((await deliveriesOf(app, hook)).length, 3)
  const before = await pool.query('select data from work.webhook_deliveries where delivery_id = $1', [first])

  // A row without an event, one with other data, and one that was moved to another account's endpoint.
  await pool.query(
    `insert into work.webhook_deliveries (delivery_id, endpoint_id, account_id, event, resource, data, round, revision,
       position, status, attempts, due_at, queued_at)
     select 'dlv_forged', endpoint_id, account_id, 'order.fulfilled', 'ord_forged', '{"orderId":"ord_forged"}', round, revision,
       position, status, attempts, due_at - interval '1 hour', queued_at - interval '1 hour'
       from work.webhook_deliveries where delivery_id = $1`,
    [first],
  )
  await pool.query(`update work.webhook_deliveries set data = '{"forged":true}' where delivery_id = $1`, [
    first,
  ])
  await pool.query('update work.webhook_deliveries set endpoint_id = $2 where delivery_id = $1', [
    moved,
    others.id,
  ])

  startWorker(t, app)
  await until(async () => {
    const all = await deliveriesOf(app, hook)
    return [first, second].every((id) => all.find((one) => one.id === id)?.status === 'succeeded')
  })
  await until(
    async () =>
      (
        await pool.query(
          `select 1 from work.webhook_deliveries
            where delivery_id in ('dlv_forged', $1) and status = 'pending' and attempts = 0 and due_at > queued_at + interval '30 s'`,
          [moved],
        )
      ).rowCount === 2,
    { what: 'both are put off' },
  )
  assert.equal(other.received.length, 0)
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']).sort(),
    [first, second].sort(),
  )
  for (const { body } of receiver.received) assert.ok(!body.toString().includes('forged'), body.toString())
  const delivered = receiver.received.find(({ headers }) => headers['webhook-id'] === first)!
  assert.ok(delivered.body.toString().endsWith(`"data":${before.rows[0].data}}`), delivered.body.toString())
})

test('a URL and a secret come from the log, whatever the read table and the vault contain', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { pool, keys } = app.core
  startReactor(t, app)
  const receiver = await startReceiver(t)
  const thief = await startReceiver(t)
  const hook = await hookTo(app, receiver.url)
  const own = await hookTo(app, thief.url)
  const sent = [await ping(app, hook), await ping(app, own)]
  assert.ok(await app.farebox.projecting.caughtUp(30_000))
  const idsOf = async (id: string) =>
    (
      await pool.query<{ url_id: string; secret_id: string }>(
        'select url_id, secret_id from read.webhook_endpoints where endpoint_id = $1',
        [id],
      )
    ).rows[0]!
  const [victims, thiefs] = [await idsOf(hook.id), await idsOf(own.id)]
  // A value of a release before 0.2.0 opens for any endpoint.
  await pool.query('update vault.webhook_values set sealed = $2 where value_id = $1', [
    thiefs.url_id,
    createVault(keys.master).seal(Buffer.from(thief.url), `webhook value ${thiefs.url_id}`),
  ])
  await pool.query('update read.webhook_endpoints set url_id = $2, secret_id = $3 where endpoint_id = $1', [
    hook.id,
    thiefs.url_id,
    thiefs.secret_id,
  ])
  await pool.query('update read.webhook_endpoints set url_id = $2 where endpoint_id = $1', [
    own.id,
    victims.secret_id,
  ])
  await pool.query('update vault.webhook_values set endpoint_id = $2 where value_id = $1', [
    victims.secret_id,
    own.id,
  ])
  for (const url of [path, `${path}/${own.id}`]) {
    const shown = await app.client.get(url, { key: own.key })
    assert.equal(shown.status, 200, shown.text)
    assert.ok(!shown.text.includes(hook.secret), shown.text)
    assert.ok(shown.text.includes(thief.url), shown.text)
  }

  await pool.query('update vault.webhook_values set endpoint_id = $2 where value_id = $1', [
    victims.secret_id,
    hook.id,
  ])
  startWorker(t, app)
  await until(() => receiver.received.length === 1 && thief.received.length === 1)
  assert.equal(receiver.received[0]!.headers['webhook-id'], sent[0])
  assert.equal(thief.received[0]!.headers['webhook-id'], sent[1])
})

test('a webhook sends what an event of the log says about its account, whatever the read tables contain', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { pool, log } = app.core
  const victim = await app.customer({ cents: 100_00 })
  const thief = await app.customer({ cents: 0 })
  const events = ['order.fulfilled', 'plan.low_traffic', 'announcement.published', 'subscription.canceled']
  const hook = await hookTo(app, 'http://127.0.0.1:9/hook', events, victim)
  const own = await hookTo(app, 'http://127.0.0.1:9/hook', events, thief)
  const { orderId } = await buyPlan(app, victim)
  assert.ok(await app.farebox.projecting.caughtUp(30_000))
  const due = await pool.query('select * from read.webhooks_due where account_id = $1', [victim.accountId])
  assert.equal(due.rows.length, 1)

  /** Rows like the genuine one, with other columns. */
  const forge = async (columns: Readonly<Record<string, unknown>>): Promise<void> => {
    const row = { ...due.rows[0], ...columns }
    const names = Object.keys(row)
    await pool.query(
      `insert into read.webhooks_due (${names.join()}) values (${names.map((_, at) => `$${at + 1}`).join()})`,
      names.map((name) => row[name]),
    )
  }
  const data = JSON.stringify({ planId: 'pln_1', orderId, forged: true })
  // The victim's order sent to the thief; an order, a subscription, a notice and a low plan that never
  // existed.
  await forge({ endpoint_id: own.id, account_id: thief.accountId })
  await forge({ resource: 'ord_never', data, order_revision: null })
  await forge({ resource: 'ord_other' })
  await forge({ event: 'subscription.canceled', resource: 'sub_never', data, order_revision: null })
  await forge({ event: 'announcement.published', resource: 'ntc_never', data, order_revision: null })
  await forge({ event: 'plan.low_traffic', resource: 'pln_1', data, order_revision: null })
  await forge({ event: 'order.failed' })
  // The data of the order is read from its cause.
  await pool.query(
    `update read.webhooks_due set data = $1, order_revision = null where resource = $2 and endpoint_id = $3 and event = 'order.fulfilled'`,
    [data, orderId, hook.id],
  )
  // A notice in the name of the service, to chosen accounts.
  await pool.query(
    `insert into work.webhook_cancellations (position, endpoint_id, account_id, reason, failing_since, cause_id, correlation_id, caused_at)
     values ($1, 'whs_1, call +1 555 0100,', $2, 'endpoint_disabled', now(), gen_random_uuid(), 'forged', now())`,
    [due.rows[0].position, victim.accountId],
  )

  const deliveriesBefore = (await eventsOf(log, 'delivery-')).length
  startReactor(t, app)
  await until(async () => (await enqueued(app)).some(({ resource }) => resource === orderId))
  await until(async () => (await pool.query('select from work.webhook_cancellations')).rowCount === 0)
  const last = await buyPlan(app, victim)
  await until(async () => (await enqueued(app)).some(({ resource }) => resource === last.orderId))
  const all = (await eventsOf(log, 'delivery-'))
    .slice(deliveriesBefore)
    .map(({ data }) => data as Record<string, unknown>)
  assert.deepEqual(
    all.map(({ endpointId, event, resource }) => [endpointId, event, resource]),
    [orderId, last.orderId].map((resource) => [hook.id, 'order.fulfilled', resource]),
  )
  assert.equal((all[0]!.data as Record<string, unknown>).orderId, orderId)
  assert.ok(!JSON.stringify(all).includes('forged'))
  assert.deepEqual(await eventsOf(log, 'notice-'), [])
})
