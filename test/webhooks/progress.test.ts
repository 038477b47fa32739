import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { tryLock } from '../../projections/engine/locks.ts'
import { createQueueProgress } from '../../src/outbound/webhooks/reactor/progress.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { testDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { openHooks, startReactor } from './world.ts'

const endSessions = (client: pg.ClientBase | pg.Pool, applicationName: string) =>
  client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = $1::text and datname = current_database() and pid <> pg_backend_pid()`,
    [applicationName],
  )

const takeBack = (client: pg.ClientBase | pg.Pool, by: number) =>
  client.query('update work.webhook_reactor set position = position - $1::bigint', [by])

test('deliveries whose commit a crash of Postgres took back are waited for by who reads them', async (t) => {
  const { pool, url } = await testDatabase(t)
  const reading = createPool({ url, applicationName: 'farebox-reading' })
  t.after(() => reading.end())
  await pool.query(
    `insert into work.webhook_reactor (name, log_id, position, epoch) values ('webhooks', 'log', 10, 1)`,
  )
  const progress = createQueueProgress(reading)
  assert.equal(await progress.reached(10, 5_000), true)
  await takeBack(pool, 5)
  assert.equal(await progress.reached(10, 0), true, 'what is known is not asked for again')
  const ended = new Promise((resolve) => reading.once('remove', resolve))
  await endSessions(pool, 'farebox-reading')
  await ended
  assert.equal(await progress.reached(10, 50), false)
  assert.equal(await progress.reached(5, 5_000), true)
})

test('a reactor whose connection ended says nothing of how far it came', async (t) => {
  const stage = await openHooks(t)
  const { core } = stage.farebox
  const progress = createQueueProgress(core.pool)
  startReactor(t, stage, { progress })
  const head = await core.log.head()
  await until(async () => progress.reached(head, 0), { what: 'the reactor at the head' })
  const other = await core.pool.connect()
  try {
    // It is kept from going on, so that it is seen what is known of it meanwhile.
    const kept = until(async () => tryLock(other, 'webhook reactor'), {
      everyMs: 5,
      what: 'the lock of the reactor',
    })
    await takeBack(core.pool, 1)
    await endSessions(core.pool, 'farebox webhooks')
    await kept
    await until(async () => !(await progress.reached(head, 0)), { what: 'that nothing is known of it' })
  } finally {
    other.release(true)
  }
  await until(async () => progress.reached(head, 0), { what: 'the reactor at the head again' })
})
