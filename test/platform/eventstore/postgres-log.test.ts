import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import type { StreamName } from '../../../src/kernel/streams.ts'
import type { AppendItem } from '../../../src/platform/eventstore/port.ts'
import {
  classifyFailure,
  maxBatchBytes,
  maxBatchItems,
  takeBatch,
} from '../../../src/platform/eventstore/postgres/append-batch.ts'
import type { BatchReport } from '../../../src/platform/eventstore/postgres/log.ts'
import fc from '../../support/fast-check.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { allAfter, freshStream, someEvents } from './contract/events.ts'
import { openLog } from './open-postgres.ts'

const itemFor = (stream: StreamName = freshStream(), count = 1): AppendItem => ({
  appends: [{ stream, expected: 'noStream', events: someEvents(count) }],
})

test('an event can be neither changed nor removed, and the log keeps its head and id', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  await log.appendAll([itemFor()])
  const refused = { code: '23001', message: /the log is append-only/ }
  for (const statement of [
    "update log.events set data = '{}'",
    'update log.events set position = 2 where false',
    'delete from log.events',
    'truncate log.events',
    'delete from log.head',
    'truncate log.head',
    'update log.head set log_id = gen_random_uuid()',
  ])
    await assert.rejects(pool.query(statement), refused, statement)
  assert.equal((await log.readAll(0, 10)).length, 1)
})

test('positions are 1, 2, 3 … over several processes, conflicts, resends and rejected items', async (t) => {
  const { url } = await testDatabase(t)
  const logs = await Promise.all(Array.from({ length: 3 }, () => openLog(url)))
  for (const log of logs) t.after(() => log.close())
  const tooLong = `order-${Array.from({ length: 200 }, freshStream).join('')}` as StreamName
  const contested = Array.from({ length: 40 }, () => freshStream())
  const resent = Array.from({ length: 40 }, () => itemFor(freshStream(), 3))
  const outcomes = await Promise.all(
    logs.flatMap((log) =>
      contested.map((stream, index) =>
        log.appendAll([itemFor(stream, 1 + (index % 3)), resent[index]!, itemFor(tooLong)]),
      ),
    ),
  )
  const events = await allAfter(logs[0]!, 0, 50)
  const winners = outcomes.filter(([first]) => first!.status === 'landed')
  assert.equal(winners.length, contested.length)
  for (const [index] of contested.entries())
    assert.equal(new Set([0, 1, 2].map((n) => JSON.stringify(outcomes[n * 40 + index]![1]))).size, 1)
  assert.deepEqual(
    events.map(({ position }) => position),
    events.map((_, index) => index + 1),
  )
  assert.equal(new Set(events.map(({ id }) => id)).size, events.length)
  assert.equal(await logs[0]!.head(), events.length)
})

test('the functions of older versions for appending are gone, so those processes append nothing', async (t) => {
  const { pool } = await testDatabase(t)
  for (const call of [
    `log.open_batch('{}'::text[], '{}'::bigint[], '{}'::boolean[], 1)`,
    `log.append('{}'::int[], '{}'::text[], '{}'::bigint[], '{}'::boolean[], '{}'::int[], '{}'::int[],
       '{}'::text[], '{}'::bigint[], '{}'::uuid[], '{}'::text[], '{}'::text[], '{}'::text[])`,
    `log.append_judged('{}'::int[], '{}'::text[], '{}'::bigint[], '{}'::boolean[], '{}'::int[], '{}'::int[],
       '{}'::text[], '{}'::bigint[], '{}'::uuid[], '{}'::text[], '{}'::text[], '{}'::text[])`,
  ])
    await assert.rejects(pool.query(`select ${call}`), { code: '42883' })
})

test('appends that wait for a commit share the next one', async (t) => {
  const { url, pool } = await testDatabase(t)
  const batches: BatchReport[] = []
  const log = await openLog(url, { onBatch: (report) => batches.push(report) })
  t.after(() => log.close())
  await Promise.all(Array.from({ length: 500 }, () => log.append(freshStream(), 'noStream', someEvents(1))))
  const { rows } = await pool.query('select count(distinct xmin::text)::int commits from log.events')
  assert.equal(rows[0].commits, 3)
  assert.deepEqual(
    batches.map(({ items }) => items),
    [200, 200, 100],
  )
  assert(batches.every(({ bytes, durationMs }) => bytes > 10_000 && durationMs > 0))
})

test('a batch respects its limits, has each stream once, and every stream keeps its order', () => {
  const names = Array.from({ length: 6 }, freshStream)
  const waiting = fc.record({
    item: fc
      .uniqueArray(fc.nat({ max: names.length - 1 }), { minLength: 1, maxLength: 3 })
      .map((streams): AppendItem => ({ appends: streams.map((n) => itemFor(names[n]!).appends[0]!) })),
    bytes: fc.oneof(fc.nat({ max: 1_000 }), fc.nat({ max: 3 * maxBatchBytes })),
  })
  const streamsOf = ({ item }: { readonly item: AppendItem }) => item.appends.map(({ stream }) => stream)
  fc.assert(
    fc.property(fc.array(waiting, { minLength: 1, maxLength: 60 }), (arrived) => {
      const batches: (typeof arrived)[] = []
      for (let queue = arrived; queue.length > 0; ) {
        const { batch, rest } = takeBatch(queue)
        assert(batch.length > 0 && batch.length + rest.length === queue.length)
        batches.push(batch)
        queue = rest
      }
      for (const batch of batches) {
        assert(batch.length <= maxBatchItems)
        assert(batch.length === 1 || batch.reduce((sum, { bytes }) => sum + bytes, 0) <= maxBatchBytes)
        const streams = batch.flatMap(streamsOf)
        assert.equal(new Set(streams).size, streams.length)
      }
      const ofStream = (items: typeof arrived, name: StreamName) =>
        items.filter((each) => streamsOf(each).includes(name))
      for (const name of names) assert.deepEqual(ofStream(batches.flat(), name), ofStream(arrived, name))
    }),
  )
})

test('more than 200 items are cut into several batches', () => {
  const queue = Array.from({ length: 450 }, () => ({ item: itemFor(), bytes: 100 }))
  const { batch, rest } = takeBatch(queue)
  assert.deepEqual([batch, rest], [queue.slice(0, 200), queue.slice(200)])
})

test('appends are durable and read committed data, whatever the defaults of the database are', async (t) => {
  const { url, pool } = await testDatabase(t)
  await pool.query(`
    do $$ begin
      execute format('alter database %I set synchronous_commit = off', current_database());
      execute format('alter database %I set default_transaction_isolation = ''repeatable read''', current_database());
    end $$;
    create table public.seen (durability text, isolation text);
    create function public.look() returns trigger language plpgsql as $$ begin
      insert into public.seen values (current_setting('synchronous_commit'), current_setting('transaction_isolation'));
      return null;
    end $$;
    create trigger look after insert on log.events for each statement execute function public.look();`)
  const log = await openLog(url)
  t.after(() => log.close())
  await log.append(freshStream(), 'noStream', someEvents(1))
  assert.deepEqual((await pool.query('select * from public.seen')).rows, [
    { durability: 'on', isolation: 'read committed' },
  ])
})

test('all subscriptions of a process share one listening connection, which ends with the log', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  const listening = async () => {
    const { rows } = await pool.query(
      "select count(*) n from pg_stat_activity where datname = current_database() and application_name = 'farebox-listen'",
    )
    return rows[0].n as number
  }
  let received = 0
  const follow = async () => {
    for await (const batch of log.subscribeAll({ after: 0, signal: new AbortController().signal }))
      received += batch.length
  }
  const followers = [follow(), follow(), follow(), follow()]
  await log.append(freshStream(), 'noStream', someEvents(2))
  await until(() => received === 8)
  await until(async () => (await listening()) === 1)
  await log.close()
  await Promise.all(followers)
  await until(async () => (await listening()) === 0)
})

/** Another process that waits for events, and how many it has by now. */
const follower = async (t: TestContext, url: string, pollMs: number) => {
  const log = await openLog(url, { pollMs })
  t.after(() => log.close())
  const seen = { events: 0 }
  const follow = async () => {
    for await (const batch of log.subscribeAll({ after: 0, signal: new AbortController().signal }))
      seen.events += batch.length
  }
  void follow()
  return seen
}

test('other processes receive an append after its commit without a poll', async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  const seen = await follower(t, url, 600_000)
  // Before it listens, its first read of the log is all that it has.
  await until(async () => {
    await log.append(freshStream(), 'noStream', someEvents(1))
    return seen.events > 1
  })
  for (let n = 0; n < 3; n += 1) {
    await log.append(freshStream(), 'noStream', someEvents(1))
    await until(async () => seen.events === (await log.head()), { timeoutMs: 5_000 })
  }
  const { rows } = await pool.query(
    "select proname from pg_proc where pronamespace = 'log'::regnamespace and prosrc like '%notify%'",
  )
  assert.deepEqual(rows, [], 'nothing notifies inside the transaction of an append')
})

test('the poll finds an unannounced append', async (t) => {
  const { url, pool } = await testDatabase(t)
  const seen = await follower(t, url, 20)
  for (const position of [1, 2]) {
    await pool.query('update log.head set last_position = last_position + 1')
    await pool.query(
      `insert into log.events (position, stream, revision, id, type, data, metadata)
       values ($1::bigint, $2::text, 0, gen_random_uuid(), 'Tested', '{}', '{}')`,
      [position, freshStream()],
    )
    await until(() => seen.events === position)
  }
})

test('closing writes waiting appends, then accepts no more', async (t) => {
  const { url } = await testDatabase(t)
  const log = await openLog(url)
  const other = await openLog(url)
  t.after(() => other.close())
  const waiting = log.appendAll(Array.from({ length: 450 }, () => itemFor()))
  const closing = log.close()
  const late = await log.appendAll([itemFor()])
  assert.equal(late[0]!.status, 'unavailable')
  await closing
  assert((await waiting).every(({ status }) => status === 'landed'))
  assert.equal(await other.head(), 450)
  await log.close()
})

test('only what Postgres certainly aborted counts as not written', () => {
  const failures: Readonly<Record<string, ReturnType<typeof classifyFailure>>> = {
    '22021': 'data',
    '23514': 'data',
    '54000': 'data',
    P0001: 'data',
    '25006': 'unavailable',
    '40001': 'unavailable',
    '42883': 'unavailable',
    '53100': 'unavailable',
    '55P03': 'unavailable',
    '57014': 'unavailable',
    '40003': 'unknown',
    '08006': 'unknown',
    '57P01': 'unknown',
    '57P02': 'unknown',
    '58030': 'unknown',
    XX000: 'unknown',
  }
  for (const [code, failure] of Object.entries(failures)) {
    const error = Object.assign(new pg.DatabaseError('refused', 0, 'error'), { code })
    assert.equal(classifyFailure(error), failure, code)
  }
  assert.equal(classifyFailure(new Error('Connection terminated unexpectedly')), 'unknown')
})
