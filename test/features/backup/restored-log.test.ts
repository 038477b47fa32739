import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { atEnd } from '../../support/cleanup.ts'
import { call, runToEnd, startFarebox } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { skipWithoutPostgresLog } from '../../support/service-env.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const body = { product_id: 'residential-premium', quantity: 5 }

const place = async (baseUrl: string, key: string): Promise<void> => {
  const headers = { 'Idempotency-Key': randomUUID() }
  const { status, body: placed } = await call(`${baseUrl}/api/v1/orders`, key, { body, headers })
  assert.equal(status, 201, JSON.stringify(placed))
}

type Rows = readonly Record<string, unknown>[]

/** The present log of a database, and a function that puts it back later. */
const dumpLog = async (t: TestContext, url: string) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  atEnd(t, () => client.end())
  await client.query(
    'create schema dump; create table dump.events as table log.events; create table dump.signatures as table log.signatures',
  )
  const head = (await client.query<{ last_position: string }>('select last_position from log.head')).rows[0]!
  return {
    restore: async () => {
      await client.query('begin')
      // As pg_restore does it; the log's own rules refuse any change.
      await client.query("set local session_replication_role = 'replica'")
      for (const table of ['events', 'signatures'])
        await client.query(`delete from log.${table}; insert into log.${table} select * from dump.${table}`)
      await client.query('update log.head set last_position = $1', [head.last_position])
      await client.query('commit')
    },
    query: async (sql: string): Promise<Rows> => (await client.query(sql)).rows,
  }
}

test('a start detects a log restored to an earlier point that has grown past its projections again', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const { env, farebox: running, auditor, baseUrl, demo } = await testApp(t, { own: true, audits: true })
  const { key } = demo.buyer
  await place(baseUrl, key)
  await operate(['ledger', 'seal'], env)
  const { restore, query } = await dumpLog(t, env.DATABASE_URL!)
  const passed = `select min(position) > (select max(position) from dump.events) as passed from engine.checkpoints`
  await until(
    async () => {
      await place(baseUrl, key)
      return (await query(passed))[0]?.passed
    },
    { everyMs: 100 },
  )
  assert.equal((await operate(['ledger', 'seal'], env)).code, 0)
  await Promise.all([running.close(), auditor?.close()])
  const former = await query('select name, position::int, last_event from engine.checkpoints order by name')
  for (const { last_event } of former) assert.match(String(last_event), /^[0-9a-f-]{36}$/)

  await restore()
  const tooShort = await runToEnd(t, env)
  assert.notEqual(tooShort.code, 0)
  assert.match(tooShort.err, /the log ends at \d+: it was restored from an older backup/)

  // Other events take the places of those that are gone: by positions alone nothing is odd any more.
  const addresses = Array.from({ length: 250 }, (_, n) => `203.0.113.${n}`).join(',')
  const stocking = ['stock', 'add', '--product', 'isp-static', '--country', 'USA', '--addresses', addresses]
  const stocked = await operate(stocking, env)
  assert.equal(stocked.code, 0, stocked.err)
  const [grown] = await query('select last_position::int as last from log.head')
  assert.ok(Number(grown!.last) > Math.max(...former.map(({ position }) => Number(position))))
  for (const roles of [[], ['http'], ['reactors']]) {
    const refused = await runToEnd(t, env, roles)
    assert.notEqual(refused.code, 0, `roles ${roles}`)
    assert.match(refused.err, /end with event \S+ at position \d+, but the log has event \S+ there/)
    assert.match(refused.err, /projections rebuild all/)
  }

  const sealing = await operate(['ledger', 'seal'], env)
  assert.equal(sealing.code, 1, sealing.out)
  assert.match(sealing.err, /the log lacks the last of them/)

  const rebuilt = await operate(['projections', 'rebuild', 'all', '--json'], env)
  assert.equal(rebuilt.code, 0, rebuilt.err)
  for (const { compared } of JSON.parse(rebuilt.out).results) assert.deepEqual(compared, [])
  const [emptied] =
    await query(`select c.position::int, (select count(*)::int from work.webhook_deliveries) as rows
    from engine.checkpoints c where c.name = 'webhook-queue'`)
  assert.deepEqual(emptied, { position: 0, rows: 0 })
  assert.equal((await operate(['ledger', 'seal', '--remake-digests'], env)).code, 0)
  const again = await startFarebox(t, { ...env, LOG_LEVEL: 'warn' })
  await place(again.baseUrl, key)
  assert.equal((await operate(['ledger', 'seal'], env)).code, 0)
  const verified = await operate(['ledger', 'verify', '--json'], env)
  assert.equal(verified.code, 0, verified.out + verified.err)
  await until(
    async () => {
      const [queue] = await query(`select e.id = c.last_event and c.position >= ${grown!.last} as filled
        from engine.checkpoints c left join log.events e using (position) where c.name = 'webhook-queue'`)
      return queue?.filled
    },
    { what: 'the queue of webhooks, filled from the start' },
  )
  assert.equal((await again.stop()).code, 0)
})
