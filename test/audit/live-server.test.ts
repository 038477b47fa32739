import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { sealerLock } from '../../src/audit/seals/sealing.ts'
import { isLocked } from '../../src/platform/postgres/locks.ts'
import { operate } from '../support/operator.ts'
import { logInPostgres } from '../support/service-env.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import { playBusiness } from './business.ts'

const sealing = { FAREBOX_SEAL_EVENTS: '100', FAREBOX_SEAL_SECONDS: '1' }

describe('while a server runs', () => {
  test('a verification finds nothing wrong while orders are placed, and every request is answered', async (t) => {
    const { core, credit, buyer, demo, verified } = await testApp(t, {
      own: true,
      settings: sealing,
      audits: true,
    })
    const { pool, log } = core
    await credit(demo.buyer.accountId, 100_000_000)
    let going = true
    const answers: number[] = []
    const client = async (): Promise<void> => {
      while (going) {
        const { status } = await buyer.post(
          '/api/v1/orders',
          { product_id: 'residential-premium', quantity: 1 },
          { headers: { 'idempotency-key': randomUUID() } },
        )
        answers.push(status)
      }
    }
    const clients = Array.from({ length: 4 }, client)
    let before = 0
    try {
      for (let n = 0; n < 3; n += 1) {
        const { events, position } = await verified()
        assert.ok(events > before)
        assert.ok(position <= (await log.head()))
        before = events
      }
    } finally {
      going = false
      await Promise.all(clients)
    }
    assert.ok(answers.length > 0)
    assert.ok(answers.every((status) => status === 201))
    const last = await verified()
    assert.ok(last.seals.seals > 0)
    const { rows } = await pool.query(`select nspname from pg_namespace where nspname like 'verify\\_%'`)
    assert.deepEqual(rows, [], 'nothing is left of a verification')
  })

  test('a verification detects a running server whose sealer waits after a failure', {
    skip: !logInPostgres,
  }, async (t) => {
    const { core, credit, demo, env } = await testApp(t, { own: true, settings: sealing, audits: true })
    const { pool } = core
    await pool.query('alter table work.event_digests rename to moved')
    await credit(demo.buyer.accountId, 100)
    await until(async () => !(await isLocked(pool, sealerLock)), { what: 'a sealer that waits' })
    const { out } = await operate(['ledger', 'verify', '--json'], { ...env, FAREBOX_DEMO: 'off' })
    const { running, maxUnsealed } = JSON.parse(out) as { running: boolean; maxUnsealed: number | null }
    assert.deepEqual({ running, maxUnsealed }, { running: true, maxUnsealed: null })
  })

  test('a verification finds nothing wrong with a day of all business', async (t) => {
    const { verified } = await playBusiness(t, sealing)
    const { events, groups } = await verified()
    assert.ok(events > 50)
    assert.ok(groups.every(({ rows }) => rows > 0))
  })
})
