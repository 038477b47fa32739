import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../../support/until.ts'
import { startReceiver } from './receiver.ts'
import { deliveriesOf, hookTo, openHooks, ping, startReactor, startWorker } from './world.ts'

test('a receiver gets what the log enqueued, whatever somebody writes into the queue', async (t) => {
  const stage = await openHooks(t)
  const { pool } = stage.farebox.core
  startReactor(t, stage)
  const receiver = await startReceiver(t)
  const other = await startReceiver(t)
  const hook = await hookTo(stage, receiver.url)
  const others = await hookTo(stage, other.url)
  const first = await ping(stage, hook)
  const second = await ping(stage, hook)
  const moved = await ping(stage, hook)
  assert.equal((await deliveriesOf(stage, hook)).length, 3)
  const before = await pool.query('select data from work.webhook_deliveries where delivery_id = $1', [first])

  // A row that no event made, one with other data, and one that was moved to the endpoint of somebody else.
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

  startWorker(t, stage)
  await until(async () => {
    const all = await deliveriesOf(stage, hook)
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
  const told = receiver.received.find(({ headers }) => headers['webhook-id'] === first)!
  assert.ok(told.body.toString().endsWith(`"data":${before.rows[0].data}}`), told.body.toString())
})
