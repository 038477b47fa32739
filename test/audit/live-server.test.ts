import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sealerLock } from '../../src/audit/seals/sealing.ts'
import { isLocked } from '../../src/platform/postgres/locks.ts'
import { operate } from '../support/operator.ts'
import { logInPostgres } from '../support/service-env.ts'
import { until } from '../support/until.ts'
import { playBusiness } from './business.ts'

const sealing = { FAREBOX_SEAL_EVENTS: '100', FAREBOX_SEAL_SECONDS: '1' }

test('while a server runs', async (t) => {
  const app = await playBusiness(t, sealing)
  const { core, credit, buyer, demo, env, verified } = app
  const { pool, log } = core
  let before = 0

  await t.test('a verification finds nothing wrong with a day of all business', async () => {
    const { events, groups } = await verified()
    assert.ok(events > 50)
    assert.ok(groups.every(({ rows }) => rows > 0))
    before = events
  })

  await t.test('nor while orders are placed, and every request is answered', async () => {
    await credit(demo.buyer.accountId, 100_000_000)
    let going = true
    const answers: number[] = []
    const client = async (): Promise<void> => {
      for (; going; await sleep(100)) {
        const { status } = await buyer.post(
          '/api/v1/orders',
          { product_id: 'residential-premium', quantity: 1 },
          { headers: { 'idempotency-key': randomUUID() } },
        )
        answers.push(status)
      }
    }
    const clients = [client(), client()]
    try {
      await until(() => answers.length >= 4, { what: 'orders' })
      const { events, position } = await verified()
      assert.ok(events > before)
      assert.ok(position <= (await log.head()))
    } finally {
      going = false
      await Promise.all(clients)
    }
    assert.ok(answers.every((status) => status === 201))
    const last = await verified()
    assert.ok(last.seals.seals > 0)
    const { rows } = await pool.query(`select nspname from pg_namespace where nspname like 'verify\\_%'`)
    assert.deepEqual(rows, [], 'nothing is left of a verification')
  })

  await t.test(
    'a verification detects a running server whose sealer waits after a failure',
    {
      skip: !logInPostgres,
    },
    async () => {
      await pool.query('alter table work.event_digests rename to moved')
      await credit(demo.buyer.accountId, 100)
      await until(async () => !(await isLocked(pool, sealerLock)), { what: 'a sealer that waits' })
      const { out } = await operate(['ledger', 'verify', '--json'], { ...env, FAREBOX_DEMO: 'off' })
      const { running, maxUnsealed } = JSON.parse(out) as { running: boolean; maxUnsealed: number | null }
      assert.deepEqual({ running, maxUnsealed }, { running: true, maxUnsealed: null })
    },
  )
})
