import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { type CheckedEvents, createCheckedEvents, joinRanges } from '../../src/audit/checked-events.ts'
import { type ViolationRow, violationsTable } from '../../src/audit/invariants/invariant.ts'
import { invariantGroup } from '../../src/audit/invariants/invariants.ts'
import { createEventDigest, startDigest } from '../../src/audit/seals/digests.ts'
import { listSeals } from '../../src/audit/seals/seal-queries.ts'
import { signatureWatch } from '../../src/audit/signatures/signature-watch.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import { isSelfSigned } from '../../src/kernel/streams.ts'
import type { EventLog, StoredEvent } from '../../src/platform/eventstore/port.ts'
import { tryLock } from '../../src/platform/postgres/locks.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { inTransaction } from '../../src/platform/postgres/transaction.ts'
import { masterKey } from '../../src/platform/vault/keys.ts'
import { asOperator } from '../support/demo-env.ts'
import { startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { testDatabase } from '../support/postgres.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import { allEvents, tamper } from './world.ts'

const log = {
  logId: async () => 'log_1',
  readStream: async function* () {},
  eventAt: async (position: number) =>
    ({
      position,
      id: `evt_${position}`,
      type: 'WalletCredited',
      stream: 'ledger-acc_1',
      data: '{}',
    }) as unknown as StoredEvent,
}

const found = (position: number): ViolationRow => ({
  position,
  rule: 'wallet-below-zero',
  problem: 'p',
  eventId: `evt_${position}`,
  eventType: 'WalletCredited',
  stream: 'ledger-acc_1',
  accountId: null,
})

const batch = (after: number, through: number, ...rows: ViolationRow[]) => ({
  group: invariantGroup.name,
  after,
  through,
  tables: [{ table: violationsTable, inserted: rows, put: [], removed: [] }] as never,
})

const openOf = async (checked: CheckedEvents): Promise<readonly number[]> => {
  const positions: number[] = []
  for await (const { position } of checked.open(log)) positions.push(position)
  return positions
}

const processes = async (t: TestContext) => {
  const { pool } = await testDatabase(t)
  const master = masterKey(Buffer.alloc(32, 1))
  return { pool, start: () => createCheckedEvents({ pool, log, master }) }
}

test('adjacent and overlapping ranges of positions are merged', () => {
  const range = (after: number, through: number) => ({ after, through })
  assert.deepEqual(joinRanges([range(20, 30), range(0, 10), range(10, 15)]), [range(0, 15), range(20, 30)])
  assert.deepEqual(joinRanges([range(0, 40), range(10, 20), range(30, 50)]), [range(0, 50)])
})

test('what one process checked and found counts in another process', async (t) => {
  const { start } = await processes(t)
  const first = start()
  assert.equal(await first.covers({ after: 5, through: 6 }), false, 'nothing is checked')
  assert.equal(await first.covers({ after: 5, through: 5 }), true, 'there is nothing to check')
  await first.beforeWrite(batch(0, 10, found(7)))
  await first.beforeWrite(batch(10, 20))
  assert.equal(first.count({ after: 5, through: 30 }), 15)
  const second = start()
  assert.equal(await second.covers({ after: 5, through: 20 }), true)
  assert.equal(second.count({ after: 5, through: 20 }), 0, 'it did not check them itself')
  assert.deepEqual(await openOf(second), [7])

  await Promise.all([
    second.beforeWrite(batch(20, 30, found(25))),
    first.beforeWrite(batch(20, 28, found(26))),
  ])
  for (const checked of [first, second, start()]) {
    assert.equal(await checked.covers({ after: 5, through: 30 }), true, 'neither overwrites the other')
    assert.deepEqual(await openOf(checked), [7, 25, 26])
  }
  await second.beforeWrite(batch(35, 40))
  for (const checked of [first, second, start()]) {
    assert.equal(await checked.covers({ after: 28, through: 40 }), false, 'events 31 to 35 are not checked')
    assert.equal(await checked.covers({ after: 35, through: 40 }), true)
    assert.equal(await checked.covers({ after: 0, through: 30 }), true)
  }
})

test('a changed, deleted or set-back record marks no event as checked, and a process keeps its own knowledge', async (t) => {
  const { pool, start } = await processes(t)
  const first = start()
  await first.beforeWrite(batch(0, 10))
  const { rows } = await pool.query('select record, signature from work.checked_events')
  await first.beforeWrite(batch(10, 20, found(15)))
  for (const [change, values] of [
    [`update work.checked_events set record = replace(record, '"after":0', '"after":1')`, []],
    ['update work.checked_events set record = $1, signature = $2', [rows[0].record, rows[0].signature]],
    ['delete from work.checked_events', []],
    [`update work.checked_events set record = 'x', signature = 'y'`, []],
  ] as const) {
    await pool.query(change, [...values])
    const other = start()
    assert.equal(await other.covers({ after: 8, through: 20 }), false, change)
    assert.equal(await first.covers({ after: 8, through: 20 }), true)
    assert.deepEqual(await openOf(first), [15])
    await first.beforeWrite(batch(20, 20))
    assert.equal(await other.covers({ after: 8, through: 20 }), true, `signed again after ${change}`)
    assert.deepEqual(await openOf(other), [15])
  }
  await pool.query('update work.checked_events set record = $1, signature = $2', [
    rows[0].record,
    rows[0].signature,
  ])
  const restarted = start()
  await restarted.beforeWrite(batch(20, 30))
  assert.equal(
    await restarted.covers({ after: 8, through: 30 }),
    false,
    'no process is known to have checked 11 to 20',
  )
})

test('after all events are checked again, earlier violations no longer count in any process', async (t) => {
  const { pool, start } = await processes(t)
  const server = start()
  await server.beforeWrite(batch(10, 20, found(12), found(15)))
  const command = start()
  command.onReplayed(batch(0, 11))
  command.onReplayed(batch(11, 18, found(15)))
  assert.equal(await server.covers({ after: 0, through: 18 }), false, 'the tables are not exchanged')
  await server.beforeWrite(batch(20, 30, found(25)))
  await inTransaction(pool, (client) => command.beforeSwap(invariantGroup.name, client))
  for (const checked of [server, command, start()]) {
    assert.equal(await checked.covers({ after: 0, through: 30 }), true)
    assert.deepEqual(await openOf(checked), [15, 25])
  }
  await server.beforeWrite(batch(30, 31))
  assert.deepEqual(await openOf(start()), [15, 25])
})

const sealing = { FAREBOX_SEAL_SECONDS: '1', FAREBOX_AUDIT_ACTION: 'stop-sealing' }

test('a violation whose rows were deleted is reported, survives a restart, and is sealed once it is acknowledged', async (t) => {
  const app = await testApp(t, { own: true, settings: sealing, audits: true })
  const { farebox, env } = app
  const { pool, log } = farebox.core
  const since = new Date().toISOString()
  const invariantNoteAt = async (baseUrl: string): Promise<string> => {
    const answer = await fetch(`${baseUrl}/readyz`, asOperator)
    return ((await answer.json()) as { notes?: { laws?: string } }).notes?.laws ?? 'none'
  }
  await app.customer({ email: 'hidden@example.com', cents: 2_000 })
  const credit = (await allEvents(log)).findLast(({ type }) => type === 'WalletCredited')
  assert.ok(credit)
  const { stream, type, metadata, revision } = credit
  const id = newEventId()
  const data = JSON.stringify({ ...JSON.parse(credit.data), reference: 'pay_none' })
  await log.append(stream, revision, [{ id, type, data, metadata }])
  await until(async () => (await invariantNoteAt(app.baseUrl)).includes(id), {
    timeoutMs: 20_000,
    what: 'an alarm',
  })

  await pool.query('delete from read.violations')
  assert.match(await invariantNoteAt(app.baseUrl), new RegExp(`${id} breaks .*they were changed`))
  const ordinal = (await allEvents(log)).findIndex((event) => event.id === id) + 1
  await app.close()
  const doctor = await operate(['doctor', '--json'], env)
  assert.match(doctor.out, new RegExp(id))
  const byHand = await operate(['ledger', 'seal', '--json'], env)
  assert.equal(JSON.parse(byHand.out).code, 'law_broken', byHand.out)

  const restarted = await startFarebox(t, { ...env, FAREBOX_AUDITOR: 'on' })
  await until(async () => (await invariantNoteAt(restarted.baseUrl)).includes(id), {
    timeoutMs: 20_000,
    what: 'an alarm',
  })
  const decided = await operate(
    ['ledger', 'decide', '--all', '--since', since, '--reason', 'a test', '--json'],
    env,
  )
  assert.match(decided.out, new RegExp(id), decided.err)
  const sealed = async (): Promise<number> => {
    const listed = JSON.parse((await operate(['ledger', 'seals', 'list', '--json'], env)).out)
    return listed.seals[0]?.throughOrdinal ?? 0
  }
  await until(async () => (await sealed()) >= ordinal, { timeoutMs: 60_000, what: 'a seal' })
})

const sealedThrough = async (log: EventLog): Promise<number> =>
  (await listSeals(log, { limit: 1, offset: 0 })).seals[0]?.throughOrdinal ?? 0

/** The end of the last seal, while no server of this process runs. */
const lastSeal = async (pool: pg.Pool): Promise<number> => {
  const { rows } = await pool.query(
    `select data from log.events where stream = 'seal' order by revision desc limit 1`,
  )
  return JSON.parse(rows[0].data).throughOrdinal
}

const metricsOf = async (baseUrl: string | null): Promise<string> =>
  (await fetch(`${baseUrl}/metrics`, asOperator)).text()

const untilBlocked = (baseUrl: string | null) =>
  until(async () => (await metricsOf(baseUrl)).includes('\nfarebox_seal_problem 1'), {
    timeoutMs: 30_000,
    what: 'an alarm of the sealer',
  })

const untilSealed = async (log: EventLog): Promise<void> => {
  const ordinal = (await allEvents(log)).findLastIndex(({ stream }) => !isSelfSigned(stream)) + 1
  await until(async () => (await sealedThrough(log)) >= ordinal, { timeoutMs: 90_000, what: 'a seal' })
}

test('an unsigned event is not sealed after a restart, whatever tables and locks say that signatures were checked', async (t) => {
  const app = await testApp(t, { own: true, settings: sealing, audits: true })
  const { farebox, env } = app
  const { accountId } = await app.customer({ email: 'unsigned@example.com', cents: 2_000 })
  await untilSealed(farebox.core.log)
  await app.close()

  const insider = createPool({ url: env.DATABASE_URL!, applicationName: 'insider' })
  t.after(() => insider.end())
  const account = `account-${accountId}`
  const eventId = newEventId()
  await tamper(
    insider,
    ['delete from log.signatures where first_position <= $1', [await lastSeal(insider)]],
    [
      `insert into log.events (position, stream, revision, id, type, data, metadata)
       select h.last_position + 1, e.stream, e.revision + 1, $2, 'AccountUnblocked', '{}', e.metadata
         from log.head h, log.events e where e.stream = $1 order by e.revision desc limit 1`,
      [account, eventId],
    ],
    ['update log.head set last_position = last_position + 1'],
    [
      `update work.signatures_checked set signing = false, event_id = $1,
         position = (select last_position from log.head)`,
      [eventId],
    ],
  )
  const holder = await insider.connect()
  assert.ok(await tryLock(holder, signatureWatch.lock))
  const restarted = await startFarebox(t, { ...env, FAREBOX_AUDITOR: 'on' })
  await untilBlocked(restarted.baseUrl)
  holder.release(true)
  await untilBlocked(restarted.baseUrl)
  const { rows } = await insider.query('select position from log.events where id = $1', [eventId])
  assert.ok((await lastSeal(insider)) < rows[0].position)
  assert.match((await operate(['ledger', 'verify', '--json'], env)).out, /no process signed it/)
  const decided = await operate(['ledger', 'decide', eventId, '--reason', 'a test', '--json'], env)
  assert.equal(decided.code, 0, decided.err)
  await until(async () => (await lastSeal(insider)) >= rows[0].position, {
    timeoutMs: 90_000,
    what: 'a seal',
  })
})

/** The digest of all events of a log, as an attacker with the database can compute it. */
const digestOfRows = async (pool: pg.Pool): Promise<string> => {
  const { rows } = await pool.query<StoredEvent>(
    'select stream, revision, id, type, data, metadata from log.events order by position',
  )
  const digestOf = createEventDigest()
  return rows.reduce((digest, event, at) => digestOf(digest, at + 1, event), startDigest()).toString('hex')
}

test('a forged event is not sealed after all process keys and signatures are deleted', async (t) => {
  const app = await testApp(t, { own: true, settings: sealing, audits: true })
  const { farebox, env } = app
  const { accountId } = await app.customer({ email: 'forged@example.com', cents: 2_000 })
  await untilSealed(farebox.core.log)
  await app.close()

  const insider = createPool({ url: env.DATABASE_URL!, applicationName: 'insider' })
  t.after(() => insider.end())
  const sealed = await lastSeal(insider)
  const isKey = `stream like 'process-key-%'`
  const replaceKeys = `update log.events set type = 'NoticeWithdrawn', stream = 'notice-' || position where ${isKey}`
  const append = (stream: string, type: string, data: string) =>
    tamper(
      insider,
      [
        `insert into log.events (position, stream, revision, id, type, data, metadata)
         select h.last_position + 1, e.stream, e.revision + 1, $2, $3, $4, e.metadata
           from log.head h, log.events e where e.stream = $1 order by e.revision desc limit 1`,
        [stream, newEventId(), type, data],
      ],
      ['update log.head set last_position = last_position + 1'],
    )
  const forgeSeal = async (): Promise<void> => {
    const { rows } = await insider.query(
      `select e.data, (select count(*)::int from log.events) as events, h.id as last_id
         from log.events e, log.events h where e.stream = 'seal' and h.position = (select last_position from log.head)
        order by e.revision desc limit 1`,
    )
    const [{ data, events, last_id: throughEventId }] = rows
    const seal = { ...JSON.parse(data), throughOrdinal: events, throughEventId }
    await append('seal', 'LogSealed', JSON.stringify({ ...seal, digest: await digestOfRows(insider) }))
    await tamper(insider, ['delete from work.event_digests'])
  }
  const changes: readonly { what: string; sql: string; forge?: () => Promise<void> }[] = [
    { what: 'keys deleted', sql: `delete from log.events where ${isKey}` },
    { what: 'keys replaced by other events', sql: replaceKeys },
    {
      what: 'an event replaced by a stop that no key signed',
      sql: `update log.events set type = 'BatchSigningStopped', stream = 'signing', revision = 0 where position =
              (select max(position) from log.events where position <= ${sealed} and not ${isKey})`,
    },
    { what: 'keys replaced, and a seal forged', sql: replaceKeys, forge: forgeSeal },
  ]
  const { rows: tables } = await insider.query<{ name: string; copy: string }>(
    `select schemaname || '.' || tablename as name, 'saved.' || schemaname || '_' || tablename as copy
       from pg_tables where schemaname in ('log', 'work', 'read', 'engine')`,
  )
  await insider.query('create schema saved')
  for (const { name, copy } of tables) await insider.query(`create table ${copy} as select * from ${name}`)
  for (const { what, sql, forge } of changes) {
    await tamper(insider, [sql], ['delete from log.signatures'], ['delete from work.signatures_checked'])
    await append(`account-${accountId}`, 'AccountUnblocked', '{}')
    await forge?.()
    const before = await lastSeal(insider)
    const restarted = await startFarebox(t, { ...env, FAREBOX_AUDITOR: 'on' })
    await untilBlocked(restarted.baseUrl)
    const { out } = await operate(['ledger', 'verify', '--json'], env)
    assert.match(out, /DIFFERENT seals/, what)
    await restarted.stop()
    assert.equal(await lastSeal(insider), before, what)
    for (const { name, copy } of tables)
      await tamper(insider, [`delete from ${name}`], [`insert into ${name} select * from ${copy}`])
  }
})

test('events that were not checked are not sealed until all events are checked again', async (t) => {
  const app = await testApp(t, { own: true, settings: sealing, audits: true })
  const { farebox, env } = app
  const { log } = farebox.core
  const insider = createPool({ url: env.DATABASE_URL!, applicationName: 'insider' })
  t.after(() => insider.end())
  const { accountId } = await app.customer({ email: 'passed@example.com', cents: 2_000 })
  await untilSealed(log)
  const credit = (await allEvents(log)).findLast(
    ({ type, stream }) => type === 'WalletCredited' && stream === `ledger-${accountId}`,
  )
  assert.ok(credit)
  const { rows } = await insider.query('select record, signature from work.checked_events')
  // The checks of invariants stop here.
  const holder = await insider.connect()
  await holder.query(
    `update engine.auditor_locks set backend = a.pid, role = a.usesysid, started_at = a.backend_start
       from pg_stat_activity a where a.pid = pg_backend_pid() and auditor_locks.name = 'projection laws'`,
  )
  await holder.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'farebox projection laws' and datname = current_database()`,
  )
  const id = newEventId()
  const { stream, type, metadata, revision } = credit
  const data = JSON.stringify({ ...JSON.parse(credit.data), reference: 'pay_none' })
  await log.append(stream, revision, [{ id, type, data, metadata }])
  const { position } = (await allEvents(log)).find((event) => event.id === id)!
  await app.close()
  holder.release(true)

  await insider.query(`update engine.checkpoints set position = $1, last_event = $2 where name = 'laws'`, [
    position,
    id,
  ])
  await insider.query('update work.checked_events set record = $1, signature = $2', [
    rows[0].record,
    rows[0].signature,
  ])
  const restarted = await startFarebox(t, { ...env, FAREBOX_AUDITOR: 'on' })
  await untilBlocked(restarted.baseUrl)
  assert.ok((await lastSeal(insider)) < position)
  const ready = (await (await fetch(`${restarted.baseUrl}/readyz`, asOperator)).json()) as {
    notes: Readonly<Record<string, string>>
  }
  assert.match(ready.notes.invariants ?? '', /no process of this service is known to have checked/)
  const byHand = await operate(['ledger', 'seal', '--json'], env)
  assert.equal(JSON.parse(byHand.out).code, 'not_checked', byHand.out)

  assert.equal((await operate(['projections', 'rebuild', 'laws'], env)).code, 0)
  const listed = await operate(['ledger', 'breaches', '--json'], env)
  assert.match(listed.out, new RegExp(id))
  assert.ok((await lastSeal(insider)) < position)
  assert.equal((await operate(['ledger', 'decide', id, '--reason', 'a test'], env)).code, 0)
  await until(async () => (await lastSeal(insider)) >= position, { timeoutMs: 90_000, what: 'a seal' })
})
