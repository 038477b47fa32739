import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { isoTime } from '../../../src/kernel/clock.ts'
import { CommandOverload } from '../../../src/platform/commands/command.ts'
import { DecidedInFuture, LogUnavailable, OutcomeUnknown } from '../../../src/platform/eventstore/errors.ts'
import type { ProcessGuard } from '../../../src/platform/work/queue.ts'
import {
  countTooLate,
  deadText,
  delayOf,
  delayText,
  depthOf,
  listDead,
  retryDead,
} from '../../../src/platform/work/queue-operations.ts'
import type { QueueTable } from '../../../src/platform/work/queue-table.ts'
import { createWorkers } from '../../../src/platform/work/queue-workers.ts'
import { exponentialBackoff, type Outcome } from '../../../src/platform/work/standard-queue.ts'
import { worker } from '../../../src/platform/work/worker.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { until } from '../../support/until.ts'
import { silent } from '../projections/engine.ts'

const nowMs = Date.parse('2026-11-21T12:00:00.000Z')
const jobs: QueueTable = {
  name: 'jobs',
  table: 'work.jobs',
  key: ['job_id'],
  owner: 'site',
  longestWaitMs: 600_000,
  columns: [],
}
const jobWorker = worker({
  name: jobs.name,
  about: 'Does jobs',
  trigger: { everyMs: 3_600_000 },
  per: 'process',
  process: 'server',
})
type Job = { readonly job_id: string; readonly site: string; readonly attempts: number }

const openJobs = async (t: TestContext) => {
  const { pool } = await testDatabase(t)
  await pool.query(`create table work.jobs (
      job_id text primary key, site text not null,
      status text not null default 'pending', due_at timestamptz not null, attempts integer not null default 0,
      finished_at timestamptz, result text
    );
    select work.add_queue('jobs', 'work.jobs', 'site')`)
  return pool
}

const put = async (pool: pg.Pool, site: string, count: number, from = 0, atMs = nowMs): Promise<void> => {
  await pool.query(
    `insert into work.jobs (job_id, site, due_at)
     select $1::text || n, $1::text, $4::timestamptz from generate_series($2::integer, $3::integer) n`,
    [site, from, from + count - 1, isoTime(atMs)],
  )
}

/** A process that processes the queue; it polls only on command. */
const openProcess = (
  t: TestContext,
  pool: pg.Pool,
  work: (job: Job) => Promise<Outcome>,
  clock: { nowMs: number } = { nowMs },
  clockGuard?: ProcessGuard,
) => {
  const workers = createWorkers({
    scheduler: testScheduler(),
    pool,
    clock: () => clock.nowMs,
    ...(clockGuard && { clockGuard }),
    monotonicMs: () => performance.now(),
    logger: silent,
  })
  t.after(() => workers.stop())
  return workers.start<Job>({
    worker: jobWorker,
    queue: jobs,
    atOnce: { total: 8, each: 2 },
    longestMs: 5_000,
    schedule: exponentialBackoff(1_000, 60_000),
    maxAttempts: 3,
    work,
  })
}

const statuses = async (pool: pg.Pool): Promise<Readonly<Record<string, number>>> => {
  const { rows } = await pool.query<{ status: string; count: number }>(
    'select status, count(*)::integer from work.jobs group by 1',
  )
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
}

const done = async (): Promise<Outcome> => ({ kind: 'done', result: 'done' })

test('several processes share a queue: each item is processed once, with a limit per owner over all processes', async (t) => {
  const pool = await openJobs(t)
  for (const site of ['a', 'b', 'c', 'd', 'e']) await put(pool, site, 20)
  const worked: string[] = []
  const open = new Map<string, number>()
  let most = 0
  const work = async ({ job_id, site }: Job): Promise<Outcome> => {
    worked.push(job_id)
    open.set(site, (open.get(site) ?? 0) + 1)
    most = Math.max(most, open.get(site)!)
    await pool.query('select pg_sleep(0.002)')
    open.set(site, open.get(site)! - 1)
    return done()
  }
  const processes = [1, 2, 3].map(() => openProcess(t, pool, work))
  await Promise.all(processes.map((process) => process.drain()))
  await until(async () => (await statuses(pool)).done === 100, { what: 'the end of all' })
  assert.equal(worked.length, 100)
  assert.equal(new Set(worked).size, 100)
  assert.equal(most, 2)
})

test('an item that arrives while its owner is leased is not missed', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 1)
  const first = Promise.withResolvers<void>()
  t.after(() => first.resolve())
  const process = openProcess(t, pool, async ({ job_id }) => {
    if (job_id === 'a0') await first.promise
    return done()
  })
  await process.runNow()
  await until(() => process.inFlight() === 1)
  await put(pool, 'a', 5, 1, nowMs - 60_000)
  first.resolve()
  await process.drain()
  assert.deepEqual(await statuses(pool), { done: 6 })
})

test('items of a crashed process go to another one within seconds', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 3)
  const process = openProcess(t, pool, done)
  // A worker whose advisory lock went with its connection; its lease has an hour to go.
  await pool.query(
    "update work.queue_owners set lease_worker = 2000000000, lease_until = clock_timestamp() + interval '1 hour'",
  )
  await process.drain()
  await until(async () => (await statuses(pool)).done === 3, {
    timeoutMs: 10_000,
    what: 'the lease to be swept',
  })
})

test('a process that loses its connection, or gets none at first, continues as soon as it has one', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 1)
  // No process can join: there are no numbers for workers.
  await pool.query('alter sequence work.queue_workers rename to away')
  const process = openProcess(t, pool, done)
  const first = process.runNow()
  assert.deepEqual(await statuses(pool), { pending: 1 })
  await pool.query('alter sequence work.away rename to queue_workers')
  await first
  await until(async () => (await statuses(pool)).done === 1, { what: 'the first one' })
  await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'farebox queue worker' and datname = current_database()`)
  await put(pool, 'a', 1, 1)
  await until(
    async () => {
      await process.runNow().catch(() => undefined)
      return (await statuses(pool)).done === 2
    },
    { what: 'the second one' },
  )
})

test('a queue stops even if it never got a connection', async (t) => {
  const pool = await openJobs(t)
  await pool.query('alter sequence work.queue_workers rename to away')
  const process = openProcess(t, pool, done)
  const look = process.runNow().catch(() => undefined)
  await process.stop()
  await look
})

test('a failing item is retried with growing pauses, then abandoned; an operator sees it and retries it', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 1)
  await put(pool, 'b', 1)
  const clock = { nowMs }
  let fails = true
  let attempts = 0
  const process = openProcess(
    t,
    pool,
    async ({ site }) => {
      if (site === 'b') return done()
      attempts += 1
      if (fails) throw new Error('the site is down')
      return done()
    },
    clock,
  )
  const due = async () =>
    (await pool.query<{ due_at: string }>("select due_at from work.jobs where site = 'a'")).rows[0]?.due_at
  await process.drain()
  assert.equal(await due(), isoTime(nowMs + 1_000))
  await process.drain()
  assert.equal(attempts, 1, 'not before its time')
  clock.nowMs += 1_000
  await process.drain()
  assert.equal(await due(), isoTime(nowMs + 3_000))
  assert.deepEqual(await depthOf(pool, jobs, clock.nowMs), {
    queue: 'jobs',
    waiting: 1,
    due: 0,
    oldestDueAt: null,
    owners: 0,
    dead: 0,
  })
  clock.nowMs += 2_000
  assert.equal((await depthOf(pool, jobs, clock.nowMs)).oldestDueAt, isoTime(nowMs + 3_000))
  await process.drain()
  assert.equal(attempts, 3)
  const given = [
    {
      item: 'a0',
      owner: 'a',
      attempts: 3,
      finishedAt: isoTime(clock.nowMs),
      result: 'given up: the site is down',
    },
  ]
  assert.deepEqual(await listDead(pool, jobs, 10), given)
  assert.equal((await depthOf(pool, jobs, clock.nowMs)).dead, 1)
  assert.equal(await retryDead(pool, jobs, ['b0'], clock.nowMs), 0, 'what is done is not done again')
  assert.equal(await retryDead(pool, jobs, ['a0'], clock.nowMs), 1)
  fails = false
  await process.drain()
  assert.deepEqual(await statuses(pool), { done: 2 })
})

test('an expired lease frees its owner, even if the process still runs', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 1)
  const over = Promise.withResolvers<void>()
  t.after(() => over.resolve())
  const hangs = openProcess(t, pool, async () => {
    await over.promise
    return done()
  })
  await hangs.runNow()
  await until(() => hangs.inFlight() === 1)
  await pool.query("update work.queue_owners set lease_until = clock_timestamp() - interval '1 second'")
  const other = openProcess(t, pool, done)
  await other.runNow()
  await until(async () => (await statuses(pool)).done === 1, { what: 'the other process' })
  over.resolve()
  await hangs.drain()
  const { rows } = await pool.query('select attempts, status from work.jobs')
  assert.deepEqual(rows, [{ attempts: 1, status: 'done' }], 'the late one changes nothing')
})

test('a command that could not be decided is not an attempt, and its item is retried at the time that the log gave', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 1)
  const clock = { nowMs }
  let wrong = true
  const process = openProcess(
    t,
    pool,
    async () => {
      if (wrong) throw new CommandOverload('the clock is wrong', 5)
      return done()
    },
    clock,
  )
  // More often than the queue would try at all.
  for (let round = 1; round <= 5; round += 1) {
    await process.drain()
    const { rows } = await pool.query('select status, attempts, due_at, result from work.jobs')
    assert.deepEqual(rows, [
      { status: 'pending', attempts: 0, due_at: isoTime(clock.nowMs + 5_000), result: 'the clock is wrong' },
    ])
    clock.nowMs += 5_000
  }
  wrong = false
  await process.drain()
  assert.deepEqual(await statuses(pool), { done: 1 })
})

for (const [what, error] of Object.entries({
  'the log refuses an append': new LogUnavailable('nothing is appended: the clock is wrong'),
  'the log refuses an event of the future': new DecidedInFuture('an event is of the future'),
  'the answer of an append is lost': new OutcomeUnknown('the answer of an append was lost'),
  'Postgres ends the connection': Object.assign(new Error('terminating connection'), { code: '57P01' }),
  'Postgres is read-only': Object.assign(new Error('read-only'), { code: '25006' }),
}))
  test(`an item is retried without limit while ${what}`, async (t) => {
    const pool = await openJobs(t)
    await put(pool, 'a', 1)
    const clock = { nowMs }
    const process = openProcess(t, pool, () => Promise.reject(error), clock)
    // More often than the queue would try at all.
    for (let round = 1; round <= 4; round += 1) {
      await process.drain()
      const { rows } = await pool.query('select status, attempts, due_at, result from work.jobs')
      assert.deepEqual(rows, [
        { status: 'pending', attempts: 0, due_at: isoTime(clock.nowMs + 5_000), result: error.message },
      ])
      clock.nowMs += 5_000
    }
  })

test('a process that may not decide starts no work', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 3)
  let problem: string | null = 'the clock is wrong'
  const process = openProcess(t, pool, done, { nowMs }, { problem: () => problem })
  await process.drain()
  assert.deepEqual(await statuses(pool), { pending: 3 })
  problem = null
  await process.drain()
  assert.deepEqual(await statuses(pool), { done: 3 })
})

test('items due later than the longest possible wait are counted, and rescheduled earlier', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 1, 0, nowMs + 60_000)
  await put(pool, 'a', 2, 1, nowMs + 30 * 86_400_000)
  assert.equal(await countTooLate(pool, jobs, nowMs), 2)
  const process = openProcess(t, pool, done)
  await process.runNow()
  await until(async () => (await countTooLate(pool, jobs, nowMs)) === 0)
  await process.drain()
  await until(async () => {
    await process.drain()
    return (await statuses(pool)).done === 2
  })
  assert.deepEqual(await statuses(pool), { done: 2, pending: 1 })
})

for (const change of [
  `update work.queue_owners set next_due_at = '2100-01-01'`,
  'update work.queue_owners set next_due_at = null',
  'delete from work.queue_owners',
])
  test(`due items are found again after: ${change}`, async (t) => {
    const pool = await openJobs(t)
    await put(pool, 'a', 2, 0, nowMs - 120_000)
    await pool.query(change)
    assert.equal(await countTooLate(pool, jobs, nowMs), 2)
    const process = openProcess(t, pool, done)
    await process.runNow()
    await until(async () => (await statuses(pool)).done === 2)
    assert.equal(await countTooLate(pool, jobs, nowMs), 0)
  })

test('an owner is not paused for longer than its queue pauses owners', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 2)
  await pool.query('update work.queue_owners set hold_until = $1::timestamptz', [isoTime(nowMs + 120_000)])
  const process = openProcess(t, pool, done)
  await process.runNow()
  await until(async () => (await statuses(pool)).done === 2)
})

/** Has Postgres refuse to write down the result of jobs. */
const refuseResults = (pool: pg.Pool, condition: string, errcode: string) =>
  pool.query(`
    create function work.refuse_result() returns trigger language plpgsql as
      $$ begin raise exception using errcode = '${errcode}', message = 'refused'; end $$;
    create trigger refuse_result before update on work.jobs for each row
      when (new.status <> 'pending' and ${condition}) execute function work.refuse_result()`)

test('an item whose result waits for the database is not processed again, even if its process lost the claiming connection', async (t) => {
  const pool = await openJobs(t)
  await put(pool, 'a', 3)
  await refuseResults(pool, 'true', '53100')
  const worked: string[] = []
  const process = openProcess(t, pool, async ({ job_id }) => {
    worked.push(job_id)
    return done()
  })
  await process.runNow()
  await until(() => worked.length === 2, { what: 'as many as one owner may have at once' })
  await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'farebox queue worker' and datname = current_database()`)
  await put(pool, 'b', 1)
  await until(
    async () => {
      await process.runNow().catch(() => undefined)
      return worked.includes('b0')
    },
    { what: 'another owner, over a new connection' },
  )
  await pool.query('drop trigger refuse_result on work.jobs')
  await until(
    async () => {
      await process.runNow()
      return (await statuses(pool)).done === 4
    },
    { what: 'the end of all' },
  )
  assert.deepEqual(worked.toSorted(), ['a0', 'a1', 'a2', 'b0'])
})

test('an item whose result Postgres refuses is delayed longer each time, and delays no other', async (t) => {
  const pool = await openJobs(t)
  for (const site of ['a', 'b', 'c']) await put(pool, site, 3)
  await refuseResults(pool, "new.job_id in ('a1', 'c0')", '22000')
  const worked: string[] = []
  const process = openProcess(t, pool, async ({ job_id }) => {
    worked.push(job_id)
    return done()
  })
  await process.drain()
  assert.deepEqual(await statuses(pool), { done: 7, pending: 2 })
  assert.equal(worked.length, 9)
  const { rows } = await pool.query(
    "select job_id, attempts, due_at from work.jobs where status = 'pending' order by 1",
  )
  assert.deepEqual(rows, [
    { job_id: 'a1', attempts: 1, due_at: isoTime(nowMs + 60_000) },
    { job_id: 'c0', attempts: 1, due_at: isoTime(nowMs + 60_000) },
  ])
  await process.drain()
  assert.equal(worked.length, 9)
})

test('a queue reports by the clock of Postgres what is overdue, whether it is stuck and what fails repeatedly', async (t) => {
  const pool = await openJobs(t)
  const at = async (minutes: number): Promise<number> => {
    const { rows } = await pool.query<{ ms: string }>(
      'select (extract(epoch from now()) * 1000)::bigint::text as ms',
    )
    return Number(rows[0]!.ms) + minutes * 60_000
  }
  await put(pool, 'a', 3, 0, await at(-4))
  await put(pool, 'b', 1, 0, await at(600))
  assert.deepEqual(await delayOf(pool, jobs), {
    queue: 'jobs',
    overdue: 0,
    overdueSince: null,
    stuck: false,
    failing: 0,
    dead: 0,
  })
  const late = await at(-20)
  await put(pool, 'c', 2, 0, late)
  // The queue does not see them: the time of their owner is wrong.
  await pool.query(`update work.queue_owners set next_due_at = now() + interval '1 year' where owner = 'c'`)
  const stuck = await delayOf(pool, jobs)
  assert.deepEqual([stuck.overdue, stuck.stuck, stuck.overdueSince], [2, true, isoTime(late)])
  assert.match(delayText(stuck) ?? '', /^jobs: 2 overdue, the oldest due at .*: it is stuck$/)
  await pool.query(`update work.jobs set status = 'done', finished_at = now() where job_id = 'c0'`)
  await pool.query(`update work.jobs set attempts = 3 where job_id = 'a0'`)
  const slow = await delayOf(pool, jobs)
  assert.deepEqual([slow.overdue, slow.stuck, slow.failing], [1, false, 1])
  assert.equal(deadText(slow), null)
  await pool.query(`update work.jobs set status = 'dead', finished_at = now() where job_id = 'a0'`)
  assert.equal(deadText(await delayOf(pool, jobs)), 'jobs: 1 failed item')
  const pausing = { ...jobs, longestPauseMs: 60_000 }
  const overdueWithPause = async (pause: string): Promise<readonly number[]> => {
    await pool.query(`update work.queue_owners set hold_until = now() + $1::interval where owner = 'c'`, [
      pause,
    ])
    return Promise.all([pausing, jobs].map(async (queue) => (await delayOf(pool, queue)).overdue))
  }
  // A pause is on purpose only in a queue that pauses owners, and not longer than it does.
  assert.deepEqual(await overdueWithPause('1 minute'), [0, 1])
  assert.deepEqual(await overdueWithPause('1 hour'), [1, 1])
})
