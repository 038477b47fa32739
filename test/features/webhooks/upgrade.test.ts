import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { webhookQueue } from '../../../projections/webhook-queue.ts'
import { createNotices } from '../../../src/features/notices/notice-service.ts'
import { type DueEvent, enqueue } from '../../../src/features/webhooks/enqueue.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { buyPlan, caughtUp } from './causes.ts'
import { deliveriesOf, hookTo, ping, startReactor } from './deliveries.ts'
import { startReceiver } from './receiver.ts'

/** The migration in place of `0910_webhooks_by_the_engine`. */
const formerTables = `
  drop table work.webhook_cancellations, work.webhook_enqueuing, work.webhook_fan_outs_left,
    read.webhook_accounts, read.webhook_subscriptions, read.webhook_low_plans, read.webhooks_due,
    read.webhook_announcements, read.webhooks_stale;
  delete from engine.checkpoints where name in ('webhooks', 'webhook-queue');
  delete from public.farebox_migration where name = '0910_webhooks_by_the_engine';
  create table work.webhook_reactor (
    name text primary key, log_id text not null, position bigint not null, epoch bigint not null,
    last_event uuid, hold_until bigint, version integer not null default 3
  );
  create table work.webhook_endpoints (
    endpoint_id text primary key, account_id text not null, events text[], active boolean not null
  );
  create table work.webhook_accounts (
    account_id text primary key, reseller boolean not null, active_keys integer not null
  );
  create table work.webhook_low_plans (
    plan_id text primary key, account_id text not null, product_id text not null, total_bytes bigint not null,
    used_bytes bigint not null, expires_at timestamptz
  );
  create table work.webhook_fan_outs (
    cause_id uuid primary key, event text not null, resource text not null, data text not null,
    correlation_id text not null
  );
  create table work.webhook_fan_out_targets (
    cause_id uuid not null references work.webhook_fan_outs, endpoint_id text not null, account_id text not null,
    primary key (cause_id, endpoint_id)
  )`

test('once a newer release fills the queue, a process of an older one skips nothing', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { core, projecting } = app.farebox
  const hook = await hookTo(app, 'http://127.0.0.1:9/hook')
  await ping(app, hook)
  assert.equal((await deliveriesOf(app, hook)).length, 1)
  // As a process of the newer release does at its start.
  const setVersion = (version: number) =>
    core.pool.query(
      `update engine.checkpoints set epoch = epoch + 1,
         definitions = jsonb_build_object('webhook-queue', jsonb_build_object('version', $1::integer))
       where name = 'webhook-queue'`,
      [version],
    )
  const stateOf = () => projecting.health().find(({ group }) => group === 'webhook-queue')?.state
  const queued = async () => {
    const { rows } = await core.pool.query(
      'select (select count(*)::int from work.webhook_deliveries) as rows, position from engine.checkpoints where name = $1::text',
      ['webhook-queue'],
    )
    return rows[0]
  }
  await setVersion(webhookQueue.version + 1)
  await until(() => stateOf() === 'superseded', { what: 'the older process giving way' })
  const before = await queued()
  await ping(app, hook)
  assert.ok(await projecting.progress.reached('hot', await core.log.head(), 30_000))
  assert.deepEqual(await queued(), before)

  // A process that knows the version continues from there.
  await setVersion(webhookQueue.version)
  await until(() => stateOf() === 'owner', { what: 'the queue being filled again' })
  assert.equal((await deliveriesOf(app, hook)).length, 2)
})

// The last one: it closes the service.
test("a database of the previous release continues at its reactor's position: nothing is lost, repeated or late", async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { farebox, env } = app
  const { pool, log, clock } = farebox.core
  const receiver = await startReceiver(t)
  const customer = await app.customer({ cents: 100_000 })
  await hookTo(app, receiver.url, ['order.fulfilled'], customer)
  const notices = await hookTo(app, receiver.url, ['announcement.published'])
  const hook = await hookTo(app, receiver.url, ['announcement.published'])
  const publish = async (title: string) => {
    const noticeId = newId<string>('ntc')
    const words = { title, body: 'On Sunday.', kind: 'MAINTENANCE', audience: 'ALL' } as const
    const draft = { noticeId, ...words, expiresAt: null, linkHref: null, linkLabel: null }
    assert.equal((await createNotices(farebox.core).publish(draft, operator)).outcome, 'done')
    return noticeId
  }

  // Enqueued and queued, and not sent yet.
  const reactor = startReactor(t, app)
  const queued = await buyPlan(app, customer)
  await caughtUp(app)
  await caughtUp(app) // its row
  await reactor.stop()
  // Passed by the former reactor, which did not find it due.
  const passed = await buyPlan(app, customer)
  const oldNotice = await publish('passed')
  const halfSent = await publish('half sent')
  const placeAt = await log.head()
  const place = (await log.eventAt(placeAt))!
  // After its position: enqueued events, and others.
  const enqueued = await buyPlan(app, customer)
  const due = await buyPlan(app, customer)
  const newNotice = await publish('new')
  assert.ok(await farebox.projecting.caughtUp(30_000))
  const { rows } = await pool.query<DueEvent>(
    'select *, null as stale from read.webhooks_due where resource = $1::text',
    [enqueued.orderId],
  )
  assert.equal(rows.length, 1)
  await enqueue(farebox.core, rows, clock())
  const {
    rows: [list],
  } = await pool.query(
    'select cause_id, position from read.webhook_announcements where resource = $1::text',
    [halfSent],
  )
  const logId = await log.logId()
  const already = { ...rows[0]!, ...list, endpoint_id: hook.id, account_id: hook.accountId, data: '{}' }
  await enqueue(farebox.core, [{ ...already, event: 'announcement.published', resource: halfSent }], clock())

  // Its projections would hold locks that the change of the tables needs in another order.
  await farebox.close()
  const client = new pg.Client({ connectionString: farebox.core.postgresUrl })
  await client.connect()
  await client.query(formerTables)
  await client.query(
    `insert into work.webhook_reactor (name, log_id, position, epoch, last_event)
     values ('webhooks', $1::text, $2::bigint, 3, $3::uuid)`,
    [logId, placeAt, place.id],
  )
  await client.query(
    `insert into work.webhook_fan_outs values ($1::uuid, 'announcement.published', $2::text, '{}', 'test')`,
    [list.cause_id, halfSent],
  )
  await client.query('insert into work.webhook_fan_out_targets values ($1::uuid, $2::text, $3::text)', [
    list.cause_id,
    notices.id,
    notices.accountId,
  ])
  await client.end()

  const upgraded = await testApp(t, { own: true, settings: env })
  const expected = [queued.orderId, enqueued.orderId, due.orderId, halfSent, halfSent, newNotice, newNotice]
  await until(() => receiver.received.length >= expected.length, { what: 'all deliveries' })
  // A late delivery would arrive before this one.
  const body = { product_id: 'residential-basic', quantity: 1 }
  const { status, body: last } = await upgraded.client.post('/api/v1/orders', body, {
    key: customer.key,
    headers: { 'Idempotency-Key': newId('key') },
  })
  assert.equal(status, 201)
  await until(() => receiver.received.some(({ json }) => json.resource === last.orderId))
  const resources = receiver.received.map(({ json }) => json.resource)
  assert.deepEqual(resources.sort(), [...expected, last.orderId].sort())
  const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
  assert.equal(new Set(ids).size, ids.length, 'none twice')
  for (const resource of [passed.orderId, oldNotice]) assert.ok(!resources.includes(resource))
})
