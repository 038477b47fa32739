import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { startService } from '../support/service.ts'
import { assertVerified } from '../support/verify.ts'

describe('beside a live server', () => {
  test('a verification finds nothing wrong while orders are placed, and every answer comes', async (t) => {
    const { farebox, buyer } = await startService(t, {
      FAREBOX_SEAL_EVENTS: '100',
      FAREBOX_SEAL_SECONDS: '1',
    })
    const { pool, log, keys } = farebox.core
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
    try {
      let before = 0
      for (let n = 0; n < 3; n += 1) {
        const { events, position } = await assertVerified({ pool, log, sealKey: keys.seal })
        assert.ok(events > before)
        assert.ok(position <= (await log.head()))
        before = events
      }
    } finally {
      going = false
      await Promise.all(clients)
    }
    assert.ok(answers.length > 0)
    assert.ok(answers.every((status) => status === 201 || status === 402))
    const last = await assertVerified({ pool, log, sealKey: keys.seal })
    assert.ok(last.seals.seals > 0)
    const { rows } = await pool.query(`select nspname from pg_namespace where nspname like 'verify\\_%'`)
    assert.deepEqual(rows, [], 'nothing is left of a verification')
  })
})
