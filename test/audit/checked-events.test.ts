import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CheckedEvents, createCheckedEvents } from '../../src/audit/checked-events.ts'
import { invariantGroup } from '../../src/audit/invariants/invariants.ts'
import { type ViolationRow, violationsTable } from '../../src/audit/invariants/violation.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import { masterKey } from '../../src/platform/vault/keys.ts'
import { freshAccount } from '../support/console.ts'
import { asOperator } from '../support/demo-env.ts'
import { startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { testDatabase } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { allEvents } from './world.ts'

const log = { logId: async () => 'log_1', readStream: async function* () {} }

const found = (position: number): ViolationRow => ({
  position,
  rule: 'wallet-below-zero',
  problem: 'p',
  event_id: `evt_${position}`,
  event_type: 'WalletCredited',
  stream: 'ledger-acc_1',
  account_id: null,
})

const batch = (after: number, through: number, ...rows: ViolationRow[]) => ({
  group: invariantGroup.name,
  after,
  through,
  tables: [{ table: violationsTable, inserted: rows, put: [], removed: [] }] as never,
})

const openOf = async (checked: CheckedEvents): Promise<readonly number[]> =>
  (await checked.open(log)).map(({ position }) => position)

test('what one process checked and found counts in another one, unless somebody changed the record', async (t) => {
  const { pool } = await testDatabase(t)
  const master = masterKey(Buffer.alloc(32, 1))
  const start = () => createCheckedEvents({ pool, log, master })
  const first = start()
  assert.equal(await first.covers({ after: 5, through: 6 }), false, 'nobody checked anything')
  await first.beforeWrite(batch(0, 10, found(7)))
  await first.beforeWrite(batch(10, 20))
  const second = start()
  assert.equal(await second.covers({ after: 5, through: 20 }), true)
  assert.equal(second.count({ after: 5, through: 20 }), 0, 'it did not check them itself')
  assert.deepEqual(await openOf(second), [7])

  await second.beforeWrite(batch(20, 30, found(25)))
  assert.equal(await start().covers({ after: 5, through: 30 }), true, 'it goes on where the first one ended')
  assert.deepEqual(await openOf(first), [7, 25])
  await second.beforeWrite(batch(35, 40))
  for (const checked of [first, second, start()])
    assert.equal(await checked.covers({ after: 28, through: 40 }), false, 'nobody checked events 31 to 35')
  assert.equal(await start().covers({ after: 35, through: 40 }), true)
  assert.deepEqual(await openOf(start()), [7, 25])

  await pool.query(`update work.checked_events set record = replace(record, '"after":35', '"after":0')`)
  assert.equal(await start().covers({ after: 28, through: 40 }), false, 'the signature does not fit')
  await pool.query('delete from work.checked_events')
  assert.equal(await start().covers({ after: 35, through: 40 }), false)
  assert.deepEqual(await openOf(second), [7, 25], 'a process keeps what it knows')

  const third = start()
  await third.beforeWrite(batch(0, 50, found(25)))
  assert.equal(await third.covers({ after: 28, through: 50 }), true, 'everything was checked again')
  assert.deepEqual(await openOf(start()), [25], 'what the check found before counts no more')
})

test('a violation whose rows were deleted is reported, survives a restart, and is sealed once it is acknowledged', async (t) => {
  const service = await startService(t, { FAREBOX_SEAL_SECONDS: '1' })
  const { farebox, env } = service
  const { pool, log } = farebox.core
  const since = new Date().toISOString()
  const lawsAt = async (baseUrl: string): Promise<string> => {
    const answer = await fetch(`${baseUrl}/readyz`, asOperator)
    return ((await answer.json()) as { notes?: { laws?: string } }).notes?.laws ?? 'none'
  }
  await freshAccount(service, 'hidden@example.com', { cents: 2_000 })
  const credit = (await allEvents(log)).findLast(({ type }) => type === 'WalletCredited')
  assert.ok(credit)
  const { stream, type, metadata, revision } = credit
  const id = newEventId()
  const data = JSON.stringify({ ...JSON.parse(credit.data), reference: 'pay_none' })
  await log.append(stream, revision, [{ id, type, data, metadata }])
  await until(async () => (await lawsAt(service.baseUrl)).includes(id), {
    timeoutMs: 20_000,
    what: 'an alarm',
  })

  await pool.query('delete from read.violations')
  assert.match(await lawsAt(service.baseUrl), new RegExp(`${id} breaks .*somebody changed them`))
  const ordinal = (await allEvents(log)).findIndex((event) => event.id === id) + 1
  await farebox.close()
  const doctor = await operate(['doctor', '--json'], env)
  assert.match(doctor.out, new RegExp(id))
  const byHand = await operate(['ledger', 'seal', '--json'], env)
  assert.equal(JSON.parse(byHand.out).code, 'law_broken', byHand.out)

  const restarted = await startFarebox(t, env)
  await until(async () => (await lawsAt(restarted.baseUrl)).includes(id), {
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
