import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allMigrations } from '../../../src/app/migrations.ts'
import { queues } from '../../../src/app/queues.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { depthOf, listDead } from '../../../src/platform/work/queue-operations.ts'
import { emptyDatabase } from '../../support/postgres.ts'

const before = (name: string) =>
  Object.fromEntries(Object.entries(allMigrations).filter(([each]) => each < name))

test('waiting work of the former tables waits in the queues, and finished work is finished', async (t) => {
  const { url } = await emptyDatabase(t)
  const pool = createPool({ url, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  await migrate(pool, before('0812'))
  await pool.query(`insert into work.deposit_looks (deposit_id, looks, next_at)
    values ('dep_before', 3, '2026-11-20T00:00:00Z')`)
  await migrate(pool, before('1410'))
  const dueAt = '2026-11-21T12:00:00.000Z'
  await pool.query(`
    insert into work.messages (order_id, account_id, customer_id, outcome, attempts, next_at, done_at, result) values
      ('ord_1', 'acc_1', 'cus_1', 'placed', 2, '${dueAt}', null, 'error 429'),
      ('ord_2', 'acc_1', 'cus_1', 'placed', 1, '${dueAt}', '${dueAt}', 'sent'),
      ('ord_3', 'acc_1', 'cus_1', 'placed', 32, '${dueAt}', '${dueAt}', 'given up: error 500');
    insert into work.gateway_inbox (gateway_id, event_id, reference, attempts, next_at, done_at, outcome) values
      ('gw_1', 'evt_1', 'in_1', 1, '${dueAt}', null, 'no answer'), ('gw_1', 'evt_2', 'in_2', 1, '${dueAt}', '${dueAt}', 'paid');
    insert into work.deposit_looks (deposit_id, gateway_id, looks, next_at, ended_at) values
      ('dep_1', 'gw_1', 4, '${dueAt}', null), ('dep_2', 'gw_1', 4, '${dueAt}', '${dueAt}'), ('dep_3', null, 0, '${dueAt}', null);
    insert into work.dispute_looks (gateway_id, next_at) values ('gw_1', '${dueAt}');
    insert into work.webhook_deliveries (delivery_id, endpoint_id, account_id, event, resource, data, round, revision,
      position, status, attempts, due_at, queued_at, finished_at)
    select 'dlv_' || status, 'whs_1', 'acc_1', 'ping', status, '{}', 1, 0, 7, status, 1, '${dueAt}', '${dueAt}',
           case when status <> 'pending' then '${dueAt}'::timestamptz end
      from unnest(array['pending', 'succeeded', 'abandoned', 'canceled']) status;
    insert into work.webhook_queues (endpoint_id, next_due_at, failures, lease_owner, lease_until, proven_url_id, hold_until,
      failing_since) values ('whs_1', '${dueAt}', 3, 5, '${dueAt}', 'url_1', '2026-11-21T12:05:00Z', '2026-11-19T01:02:03.004Z')`)
  await migrate(pool, allMigrations)

  const nowMs = Date.parse(dueAt) + 1_000
  const depths = await Promise.all(queues.map((queue) => depthOf(pool, queue, nowMs)))
  const standing = (queue: string, waiting: number, dead: number) => ({
    queue,
    waiting,
    due: waiting,
    oldestDueAt: waiting === 0 ? null : dueAt,
    owners: 0,
    dead,
  })
  assert.deepEqual(depths, [
    standing('webhooks', 1, 1),
    standing('payment-callbacks', 1, 0),
    standing('messages', 1, 1),
    standing('deposit-looks', 2, 0),
    standing('dispute-looks', 1, 0),
    standing('scrape-batches', 0, 0),
    standing('webhook-enqueue-retries', 0, 0),
    standing('low-balance-mails', 0, 0),
    standing('topup-mails', 0, 0),
    standing('dispute-mails', 0, 0),
    standing('traffic-budget-mails', 0, 0),
  ])
  const { rows } = await pool.query(
    "select owner, next_due_at, hold_until, memory from work.queue_owners where queue = 'webhooks'",
  )
  assert.deepEqual(rows, [
    {
      owner: 'whs_1',
      next_due_at: dueAt,
      hold_until: '2026-11-21T12:05:00.000Z',
      memory: { failures: 3, provenUrlId: 'url_1', failingSince: '2026-11-19T01:02:03.004Z' },
    },
  ])
  const looks = await pool.query(
    "select deposit_id, gateway_id, attempts, status, nullif(finished_at, '-infinity') as finished_at from work.deposit_looks order by 1",
  )
  assert.deepEqual(looks.rows, [
    { deposit_id: 'dep_1', gateway_id: 'gw_1', attempts: 4, status: 'pending', finished_at: null },
    { deposit_id: 'dep_2', gateway_id: 'gw_1', attempts: 4, status: 'done', finished_at: dueAt },
    { deposit_id: 'dep_3', gateway_id: '', attempts: 0, status: 'pending', finished_at: null },
    // Of a version that did not note the end: taken up again where the deposit is still watched.
    { deposit_id: 'dep_before', gateway_id: '', attempts: 3, status: 'done', finished_at: null },
  ])
  const [webhooks, , messages] = queues
  assert.deepEqual(
    [...(await listDead(pool, messages!, 10)), ...(await listDead(pool, webhooks!, 10))].map(
      ({ item, owner, result }) => ({ item, owner, result }),
    ),
    [
      { item: 'ord_3 placed', owner: 'acc_1', result: 'given up: error 500' },
      { item: 'dlv_abandoned', owner: 'whs_1', result: 'abandoned after 1 attempts' },
    ],
  )
})
