import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startDisputeReactor } from '../../../src/features/deposits/disputes.ts'
import { createWorkers } from '../../../src/platform/work/queue-workers.ts'
import { silent } from '../../platform/projections/engine.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'

test('gateways that do not support disputes delay no others, however many they are, and each is searched again', async (t) => {
  const { pool } = await testDatabase(t)
  const ids = Array.from({ length: 20 }, (_, n) => `gateway-${n}`)
  // The read data of the deposits: the gateways that brought money.
  await pool.query('create table read.deposits (gateway_id text, credited_micros bigint)')
  await pool.query('insert into read.deposits select id, 1 from unnest($1::text[]) id', [ids])
  const workers = createWorkers({
    scheduler: testScheduler(),
    pool,
    clock: Date.now,
    monotonicMs: () => performance.now(),
    logger: silent,
  })
  t.after(() => workers.stop())
  const polled: string[] = []
  const reactor = startDisputeReactor({
    workers,
    pool,
    gateways: {
      byId: async (gatewayId) => {
        polled.push(gatewayId)
        // More than are polled concurrently.
        if (polled.length <= 12) throw new Error('its credentials cannot be read')
        return null
      },
    },
    inbox: { store: () => assert.fail('no dispute is found here') },
    take: () => assert.fail('no dispute is found here'),
    clock: Date.now,
    logger: silent,
    firstPollMs: 60_000,
  })
  await reactor.drain()
  assert.deepEqual(polled.sort(), ids.sort())
  const { rows } = await pool.query(
    `select result, count(*)::integer from work.dispute_looks where due_at > clock_timestamp() + interval '59 minutes'
      group by 1 order by 1`,
  )
  assert.deepEqual(rows, [
    { result: 'its credentials cannot be read', count: 12 },
    { result: 'the gateway is gone', count: 8 },
  ])

  // A changed row ends no search.
  await pool.query("update work.dispute_looks set status = 'done', finished_at = now()")
  polled.length = 0
  await reactor.drain()
  assert.deepEqual(polled.sort(), ids.sort())
})
