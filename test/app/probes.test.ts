import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openSession } from '../../src/platform/postgres/postgres-session.ts'
import { addresses } from '../support/app-actions.ts'
import { testApp } from '../support/test-app.ts'

/** Polls of the public probes, each begun before the former one ends. */
const polls = 25

test('while a queue table is locked, polls of the probes take no connection from orders', async (t) => {
  const app = await testApp(t, { own: true })
  const locking = await openSession(app.core.pool, 'test lock')
  t.after(() => locking.close())
  await locking.client.query('begin')
  await locking.client.query('lock table work.messages in access exclusive mode')
  const waiting = async (): Promise<readonly string[]> => {
    const { rows } = await app.core.pool.query<{ application_name: string }>(
      `select application_name from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and query like '%work.messages%'`,
    )
    return rows.map(({ application_name }) => application_name)
  }
  const statuses: number[] = []
  let [probes, others] = [0, 0]
  for (let poll = 0; poll < polls; poll += 1) {
    for (const path of ['/readyz', '/status.json']) void fetch(`${app.baseUrl}${path}`).catch(() => undefined)
    statuses.push((await app.buyer.post('/api/v1/orders', addresses(1))).status)
    const names = await waiting()
    const ofProbes = names.filter((name) => name === 'farebox-probes').length
    probes = Math.max(probes, ofProbes)
    others = Math.max(others, names.length - ofProbes)
  }
  assert.deepEqual([...new Set(statuses)], [201])
  assert.ok(probes > 0, 'the probes wait')
  // The worker of the queue waits, too.
  assert.ok(others <= 1, `${others} connections of the server wait`)
})
