import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { LogUnavailable, OutcomeUnknown } from '../../../src/platform/eventstore/errors.ts'
import type { AppendItem, ItemOutcome } from '../../../src/platform/eventstore/port.ts'
import type { PostgresLogOptions } from '../../../src/platform/eventstore/postgres/log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'
import { freshStream, someEvents, streamOf } from './contract/events.ts'
import { openLog } from './open-postgres.ts'

const opened = async (t: TestContext, url: string, options: Partial<PostgresLogOptions> = {}) => {
  const log = await openLog(url, options)
  t.after(() => log.close())
  return log
}

const itemFor = (stream: StreamName = freshStream(), count = 2): AppendItem => ({
  appends: [{ stream, expected: 'noStream', events: someEvents(count) }],
})

const statuses = (outcomes: readonly ItemOutcome[]) => outcomes.map(({ status }) => status)

/** Holds the head row, so that a batch waits in the middle of its transaction. */
const holdHead = async (t: TestContext, pool: pg.Pool) => {
  const client = await pool.connect()
  await client.query('begin')
  await client.query('select from log.head for update')
  let held = true
  const release = async (): Promise<void> => {
    if (!held) return
    held = false
    await client.query('rollback')
    client.release()
  }
  t.after(release)
  return { release }
}

const waitingAppend = (pool: pg.Pool): Promise<number> =>
  until(async () => {
    const { rows } = await pool.query(
      `select pid from pg_stat_activity
       where datname = current_database() and application_name = 'farebox-append' and wait_event_type = 'Lock'`,
    )
    return rows[0]?.pid as number | undefined
  })

const gapless = async (pool: pg.Pool): Promise<void> => {
  const { rows } = await pool.query(
    `select count(*) events, coalesce(max(position), 0) last, (select last_position from log.head) head from log.events`,
  )
  assert.deepEqual([rows[0].last, rows[0].head], [rows[0].events, rows[0].events])
}

test('a backend that is killed during a batch makes its outcome unknown; the same items again converge', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await opened(t, url)
  const items = [itemFor(), itemFor(), itemFor()]
  await log.appendAll([itemFor()])
  const head = await holdHead(t, pool)
  const sent = log.appendAll(items)
  await pool.query('select pg_terminate_backend($1)', [await waitingAppend(pool)])
  assert.deepEqual(statuses(await sent), ['unknown', 'unknown', 'unknown'])
  await head.release()
  const again = await log.appendAll(items)
  assert.deepEqual(statuses(again), ['landed', 'landed', 'landed'])
  assert.deepEqual(await log.appendAll(items), again)
  await gapless(pool)
})

test('a written batch with a lost answer is unknown; the same items again return its result', async (t) => {
  const { url, pool } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const troubles: string[] = []
  const log = await opened(t, proxy.url, { onTrouble: (what) => troubles.push(what) })
  const direct = await opened(t, url)
  await log.appendAll([itemFor()])
  const items = [itemFor(), itemFor(freshStream(), 5)]
  const stream = items[1]!.appends[0]!.stream
  proxy.mute()
  const sent = log.appendAll(items)
  const single = assert.rejects(log.append(freshStream(), 'noStream', someEvents(1)), OutcomeUnknown)
  await until(() => direct.lastOf(stream))
  proxy.cut()
  assert.deepEqual(statuses(await sent), ['unknown', 'unknown'])
  await proxy.accept()
  await single
  const written = await streamOf(direct, stream)
  const again = await log.appendAll(items)
  assert.deepEqual(again[1], {
    status: 'landed',
    appended: [{ revision: 4, position: written.at(-1)!.position }],
  })
  assert.deepEqual(await streamOf(direct, stream), written)
  // The notification of other processes may be lost with the answer, and then that is reported as well.
  const ofAppends = troubles.filter((what) => what !== 'the log could not be announced')
  assert.deepEqual(ofAppends, ['the connection of the appends broke'])
  await gapless(pool)
})

test('a silent server makes the outcome unknown after a bounded time', async (t) => {
  const { url } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const log = await opened(t, proxy.url, { answerTimeoutMs: 300 })
  await log.appendAll([itemFor()])
  proxy.mute()
  const item = itemFor()
  const [outcome] = await log.appendAll([item])
  assert.equal(outcome!.status, 'unknown')
  proxy.cut()
  await proxy.accept()
  assert.deepEqual(statuses(await log.appendAll([item])), ['landed'])
})

test('a silent server delays reads and subscriptions for a bounded time', async (t) => {
  const { url } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const log = await opened(t, proxy.url, { answerTimeoutMs: 300, pollMs: 20 })
  const direct = await opened(t, url)
  const received: number[] = []
  const abort = new AbortController()
  const following = (async () => {
    for await (const batch of log.subscribeAll({ after: 0, signal: abort.signal }))
      received.push(...batch.map(({ position }) => position))
  })()
  await direct.appendAll([itemFor()])
  await until(() => received.length === 2)
  proxy.mute()
  await assert.rejects(log.readAll(0, 10), LogUnavailable)
  await direct.appendAll([itemFor()])
  await proxy.accept()
  assert.equal((await log.readAll(0, 10)).length, 4)
  await until(() => received.length === 4)
  abort.abort()
  await following
})

test('a log closes even if the server is silent', async (t) => {
  const { url } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const log = await openLog(proxy.url, { answerTimeoutMs: 300 })
  await log.appendAll([itemFor()])
  proxy.hang()
  await log.close()
})

test('while Postgres is unreachable appends and reads report it, and they recover', async (t) => {
  const { url, pool } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const log = await opened(t, proxy.url)
  const item = itemFor()
  await proxy.refuse()
  assert.deepEqual(statuses(await log.appendAll([item, itemFor()])), ['unavailable', 'unavailable'])
  await assert.rejects(log.append(freshStream(), 'noStream', someEvents(1)), LogUnavailable)
  await assert.rejects(log.readAll(0, 1), LogUnavailable)
  await assert.rejects(streamOf(log, freshStream()), LogUnavailable)
  await proxy.accept()
  assert.deepEqual(statuses(await log.appendAll([item])), ['landed'])
  assert.equal((await log.readAll(0, 10)).length, 2)
  await gapless(pool)
})

test('Postgres aborts a batch that waits too long for its turn, and it is reported as unavailable', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await opened(t, url, { statementTimeoutMs: 200 })
  const head = await holdHead(t, pool)
  const item = itemFor()
  assert.deepEqual(statuses(await log.appendAll([item])), ['unavailable'])
  await head.release()
  assert.deepEqual(statuses(await log.appendAll([item])), ['landed'])
})

test('an item that the database refuses for its data is rejected alone, and its neighbours land', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await opened(t, url)
  // More than a B-tree entry holds, and not to be compressed.
  const tooLong = `order-${Array.from({ length: 200 }, freshStream).join('')}` as StreamName
  const items = [itemFor(), itemFor(tooLong), itemFor(), itemFor()]
  const outcomes = await log.appendAll(items)
  assert.deepEqual(statuses(outcomes), ['landed', 'rejected', 'landed', 'landed'])
  assert.equal((outcomes[1] as { cause: { code?: string } }).cause.code, '54000')
  assert.deepEqual(statuses(await log.appendAll(items)), ['landed', 'rejected', 'landed', 'landed'])
  await gapless(pool)
})

test('a batch is aborted when another writer takes a position in its middle', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await opened(t, url)
  await log.appendAll([itemFor()])
  await pool.query(`
    create function public.take_position() returns trigger language plpgsql as
      $$ begin perform nextval('log.positions'); return null; end $$;
    create trigger take_position before insert on log.events for each statement execute function public.take_position()`)
  const items = [itemFor(), itemFor()]
  assert.deepEqual(statuses(await log.appendAll(items)), ['unavailable', 'unavailable'])
  await gapless(pool)
  await pool.query('drop trigger take_position on log.events')
  assert.deepEqual(statuses(await log.appendAll(items)), ['landed', 'landed'])
  await gapless(pool)
})

test('the poll delivers unannounced writes of another process to a subscription', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await opened(t, url, { pollMs: 20 })
  const received: number[] = []
  const abort = new AbortController()
  const following = (async () => {
    for await (const batch of log.subscribeAll({ after: 0, signal: abort.signal }))
      received.push(...batch.map(({ position }) => position))
  })()
  await log.appendAll([itemFor(freshStream(), 1)])
  await until(() => received.length === 1)
  await pool.query(`
    with event as (
      insert into log.events values (2, 'order-silent', 0, gen_random_uuid(), 'Silent', '{}', '{}')
    ) update log.head set last_position = 2`)
  await until(() => received.length === 2)
  abort.abort()
  await following
  assert.deepEqual(received, [1, 2])
})

test('a subscription survives an outage of Postgres', async (t) => {
  const { url } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const troubles = new Set<string>()
  const log = await opened(t, proxy.url, { pollMs: 20, onTrouble: (what) => troubles.add(what) })
  const direct = await opened(t, url)
  const received: number[] = []
  const abort = new AbortController()
  const following = (async () => {
    for await (const batch of log.subscribeAll({ after: 0, maxBatch: 2, signal: abort.signal }))
      received.push(...batch.map(({ position }) => position))
  })()
  await direct.appendAll([itemFor()])
  await until(() => received.length === 2)
  await proxy.refuse()
  await direct.appendAll([itemFor(), itemFor()])
  await until(() => troubles.has('listening to farebox_log failed'))
  await proxy.accept()
  await until(() => received.length === 6)
  abort.abort()
  await following
  assert.deepEqual(received, [1, 2, 3, 4, 5, 6])
})

for (const [what, setting] of [
  ['was read-only when its connection was opened', 'default_transaction_read_only = on'],
  ['gave its connection a limit that no batch keeps', "lock_timeout = '1ms'"],
] as const)
  test(`appends continue over another connection after a database that ${what} recovers`, async (t) => {
    const { url, pool } = await testDatabase(t)
    const database = new URL(url).pathname.slice(1)
    const log = await opened(t, url)
    await pool.query(`alter database ${database} set ${setting}`)
    const head = await holdHead(t, pool)
    assert.deepEqual(statuses(await log.appendAll([itemFor()])), ['unavailable'])
    await head.release()
    await pool.query(`alter database ${database} reset all`)
    assert.deepEqual(statuses(await log.appendAll([itemFor()])), ['landed'])
    await gapless(pool)
  })
