import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serviceParts } from '../../../src/features/console/status-page.ts'
import type { Probe } from '../../../src/platform/http/health.ts'
import { testDatabase } from '../../support/postgres.ts'

test('the status page names the part that does not work: orders, or only the gateway', async (t) => {
  const { pool } = await testDatabase(t)
  const statesWith = async (...probes: readonly Probe[]) => {
    const parts = serviceParts({
      pool,
      clock: Date.now,
      probes,
      locations: () => new Map([['DE', new Map()]]) as never,
      list: {} as never,
      liveScrapers: () => 1,
    })
    const states = parts.slice(0, 2).map(async ({ name, state }) => [name, await state()])
    return Object.fromEntries(await Promise.all(states))
  }
  const log: Probe = { name: 'log', check: async () => 'the log does not answer' }
  const gateway: Probe = {
    name: 'gateway',
    part: 'gateway',
    check: async () => 'a gateway worker does not answer',
  }
  const auditor: Probe = { name: 'auditor', note: true, check: async () => 'the auditor does not answer' }
  assert.deepEqual(await statesWith(auditor), { Orders: 'up', Gateway: 'up' })
  assert.deepEqual(await statesWith(log), { Orders: 'down', Gateway: 'up' })
  assert.deepEqual(await statesWith(gateway), { Orders: 'up', Gateway: 'down' })
  await pool.query(
    `insert into work.worker_runs (name, host, pid, process, failures, ended, reported_at)
     values ('exits', 'here', 1, 'gateway', 0, false, clock_timestamp() - interval '1 hour')`,
  )
  assert.deepEqual(await statesWith(), { Orders: 'up', Gateway: 'down' })
})
