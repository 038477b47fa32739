import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { pino } from 'pino'
import { createScheduler, type Leadership } from '../../../src/platform/work/scheduler.ts'
import { type Trigger, worker } from '../../../src/platform/work/worker.ts'
import {
  readSilentProcesses,
  readStalledWorkers,
  readWorkerRuns,
} from '../../../src/platform/work/worker-runs.ts'
import { atEnd } from '../../support/cleanup.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

const tidy = worker({
  name: 'tidy',
  about: 'Tidies up',
  trigger: { everyMs: 10 },
  per: 'process',
  process: 'server',
})
const lonely = worker({
  name: 'lonely',
  about: 'Works alone',
  trigger: { everyMs: 10, or: 'it is woken' },
  per: 'cluster',
  lock: 'lonely test',
  session: 'farebox lonely',
  process: 'server',
})

/** The scheduler of a separate process, as far as Postgres knows. */
const openProcess = (t: TestContext, pool: pg.Pool, pid: number, lines: string[] = []) => {
  const scheduler = createScheduler({
    workers: [tidy, lonely],
    pool,
    place: { host: 'here', pid },
    clock: Date.now,
    logger: pino({ level: 'error' }, { write: (line) => void lines.push(line) }),
  })
  atEnd(t, scheduler.stop)
  return scheduler
}

const longMs = 3_600_000

test('rounds of a worker never overlap, whatever starts them', async (t) => {
  const { pool } = await testDatabase(t)
  let [under, most, rounds] = [0, 0, 0]
  const running = openProcess(t, pool, 1).start(tidy, async () => {
    under += 1
    most = Math.max(most, under)
    await pool.query('select pg_sleep(0.002)')
    under -= 1
    rounds += 1
  })
  await Promise.all([running.runNow(), running.runNow(), running.runNow()])
  running.wake()
  await until(() => rounds >= 6, { what: 'rounds by themselves' })
  assert.equal(most, 1)
  await running.stop()
  const after = rounds
  assert.equal(under, 0, 'a stop waits for the round that is under way')
  running.wake()
  let others = 0
  openProcess(t, pool, 2).start(tidy, async () => {
    others += 1
  })
  await until(() => others === 5, { what: 'rounds of another process meanwhile' })
  assert.equal(rounds, after)
})

test('a wake-up ends the pause, and one during a round is not lost', async (t) => {
  const { pool } = await testDatabase(t)
  let rounds = 0
  const gates = [1, 2, 3].map(() => Promise.withResolvers<void>())
  const running = openProcess(t, pool, 1).start(
    tidy,
    async () => {
      rounds += 1
      await gates[rounds - 1]!.promise
    },
    { everyMs: longMs },
  )
  running.wake()
  await until(() => rounds === 1, { what: 'the first round' })
  running.wake()
  gates[0]!.resolve()
  await until(() => rounds === 2, { what: 'the round of the second wake-up' })
  gates[1]!.resolve()
  gates[2]!.resolve()
})

test('a failing worker pauses longer each time, at most ten intervals, and reports it', async (t) => {
  const { pool } = await testDatabase(t)
  const lines: string[] = []
  const startsMs: number[] = []
  const running = openProcess(t, pool, 1, lines).start(tidy, async () => {
    startsMs.push(performance.now())
    throw new Error('the disk is full')
  })
  await until(() => startsMs.length === 13, { what: 'thirteen failures' })
  await running.stop()
  const pauses = startsMs.slice(1).map((ms, at) => ms - startsMs[at]!)
  // A timer is late at times, and early by less than a millisecond.
  for (const [at, ms] of pauses.entries()) assert.ok(ms >= 10 * Math.min(10, at + 2) - 1, `${at}: ${ms}`)
  const { reactor, failures, msg } = JSON.parse(lines[2]!)
  assert.deepEqual([reactor, failures, msg], ['tidy', 3, 'a reactor failed and will try again'])
})

test('a worker can define the meaning of a failure', async (t) => {
  const { pool } = await testDatabase(t)
  const lines: string[] = []
  const failureCounts: number[] = []
  openProcess(t, pool, 1, lines).start(
    tidy,
    async () => {
      throw new Error('as ever')
    },
    {
      onError: (_, failures) => {
        failureCounts.push(failures)
        return 0
      },
    },
  )
  await until(() => failureCounts.length >= 3, { what: 'three failures' })
  assert.deepEqual(failureCounts.slice(0, 3), [1, 2, 3])
  assert.deepEqual(lines, [])
})

test('a failure is stored at once, its recovery too, and the error stays with its time', async (t) => {
  const { pool } = await testDatabase(t)
  let broken = true
  const work = async (): Promise<void> => {
    if (broken) throw new AggregateError([new Error('one\n is\0 bad')], '2 of them failed')
  }
  const scheduler = openProcess(t, pool, 1)
  const running = scheduler.start(tidy, work, { everyMs: longMs })
  await assert.rejects(running.runNow(), AggregateError)
  const stored = async () => (await readWorkerRuns(pool, Date.now())).get('tidy')
  const failed = await until(stored, { timeoutMs: 4_000, what: 'the failure' })
  assert.equal(failed.failures, 1)
  assert.equal(failed.lastError?.message, '2 of them failed: one is bad')
  broken = false
  await running.runNow()
  const recovered = await until(async () => ((await stored())?.failures === 0 ? stored() : null), {
    timeoutMs: 4_000,
    what: 'the recovery',
  })
  assert.deepEqual(recovered.lastError, failed.lastError)
  assert.ok(recovered.startedAt! >= failed.lastError!.at)
  assert.equal(recovered.processes, 1)
  await scheduler.stop()
  assert.equal((await stored())?.processes, 0, 'a process that stopped runs nothing')
})

test('one of all processes reports for all its workers in one statement, and removes long ended ones', async (t) => {
  const { pool } = await testDatabase(t)
  const names: string[] = []
  const counting = {
    options: pool.options,
    query: (query: pg.QueryConfig) => {
      names.push(query.name ?? '')
      return pool.query(query)
    },
  } as unknown as pg.Pool
  await pool.query(`insert into work.worker_runs (name, host, pid, process, failures, ended, reported_at)
    select 'tidy', 'there', n, 'server', 0, false, now() - n * interval '1 hour' from generate_series(20, 30) n`)
  const scheduler = openProcess(t, counting, 1)
  const tidying = scheduler.start(tidy, async () => undefined, { everyMs: longMs })
  const led = Promise.withResolvers<void>()
  scheduler.lead(lonely, async ({ round }) => round(async () => led.resolve()))
  await Promise.all([tidying.runNow(), led.promise])
  await scheduler.stop()
  assert.deepEqual(names, ['report-worker-runs'])
  const { rows } = await pool.query('select name, pid from work.worker_runs order by pid, name')
  assert.deepEqual(
    rows.map(({ name, pid }) => `${name} ${pid}`),
    ['lonely 1', 'tidy 1', 'tidy 20', 'tidy 21', 'tidy 22', 'tidy 23'],
  )
})

test("a database that accepts no report neither stops a worker's rounds nor the shutdown of a process", async (t) => {
  const { pool } = await testDatabase(t)
  const lines: string[] = []
  const scheduler = openProcess(t, { query: () => new Promise(() => undefined) } as never, 1, lines)
  let rounds = 0
  scheduler.start(tidy, async () => {
    rounds += 1
    if (rounds < 3) throw new Error('as ever')
  })
  await until(() => rounds >= 5, { what: 'rounds' })
  await scheduler.stop()
  assert.equal(lines.length, 2, lines.join(''))
  assert.equal((await readWorkerRuns(pool, Date.now())).size, 0)
})

test('one of two processes does the work of a cluster, and the other takes over when it stops', async (t) => {
  const { pool } = await testDatabase(t)
  const rounds = [0, 0]
  const process = (at: 0 | 1) => {
    const scheduler = openProcess(t, pool, at)
    const work = ({ repeat }: Leadership) =>
      repeat(async () => {
        rounds[at]! += 1
        return 10
      })
    scheduler.lead(lonely, work)
    return scheduler
  }
  const first = process(0)
  await until(() => rounds[0]! > 2, { what: 'the first process to work' })
  const second = process(1)
  await until(
    async () => {
      const { rows } = await pool.query(
        `select from pg_stat_activity where application_name = 'farebox lonely' and datname = current_database()
          and query like '%pg_try_advisory_lock%'`,
      )
      return rows.length > 0
    },
    { what: 'the second process to ask for the lock' },
  )
  const before = rounds[0]!
  await until(() => rounds[0]! > before + 5, { what: 'more rounds of the first' })
  assert.equal(rounds[1], 0)
  await first.stop()
  await until(() => rounds[1]! > 0, { what: 'the second process to take over' })
  assert.equal((await readWorkerRuns(pool, Date.now())).get('lonely')?.pid, 0)
  await second.stop()
  assert.equal((await readWorkerRuns(pool, Date.now())).get('lonely')?.pid, 1, 'the newest run is shown')
})

test('a failing worker releases the lock, and takes it again', async (t) => {
  const { pool } = await testDatabase(t)
  const scheduler = openProcess(t, pool, 1)
  let leaderships = 0
  scheduler.lead(lonely, async ({ round, repeat }) => {
    leaderships += 1
    await round(async () => {
      if (leaderships < 3) throw new Error(`leadership ${leaderships} fails`)
    })
    await repeat(async () => longMs)
  })
  await until(() => leaderships === 3, { what: 'the third leadership' })
  await scheduler.stop()
  const runs = (await readWorkerRuns(pool, Date.now())).get('lonely')
  assert.deepEqual([runs?.failures, runs?.lastError?.message], [0, 'leadership 2 fails'])
})

test('a worker that is not on the list of its process is not started', async (t) => {
  const { pool } = await testDatabase(t)
  const scheduler = openProcess(t, pool, 1)
  const unlisted = worker({ ...tidy, name: 'unlisted' })
  const message = /the worker unlisted is not on the list of this process/
  assert.throws(() => scheduler.start(unlisted, async () => undefined), message)
  assert.throws(() => scheduler.lead({ ...lonely, name: 'unlisted' }, async () => undefined), message)
  assert.throws(() => scheduler.record(unlisted), message)
})

test('a worker keeps its quiet interval until there is activity or the clock leaps', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  let monotonicMs = performance.now()
  t.mock.method(performance, 'now', () => monotonicMs)
  let aheadMs = 0
  const resting = worker({
    name: 'resting',
    about: 'Rests',
    trigger: { everyMs: 1_000, quietMs: 60_000 },
    per: 'process',
    process: 'server',
  })
  const scheduler = createScheduler({
    workers: [resting],
    pool: null as unknown as pg.Pool,
    place: null,
    clock: () => monotonicMs + aheadMs,
    logger: pino({ level: 'silent' }),
  })
  t.after(scheduler.stop)
  let activity = (): void => undefined
  scheduler.follow((listener) => {
    activity = listener
    return () => undefined
  })
  let rounds = 0
  scheduler.start(resting, async () => {
    rounds += 1
  })
  const roundsIn = async (seconds: number): Promise<number> => {
    const before = rounds
    for (let second = 0; second < seconds; second += 1) {
      monotonicMs += 1_000
      t.mock.timers.tick(1_000)
      for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    }
    return rounds - before
  }
  assert.equal(await roundsIn(10), 10, 'a start counts as activity')
  assert.ok((await roundsIn(120)) <= 4, 'the quiet interval')
  activity()
  assert.ok((await roundsIn(10)) >= 9, 'the usual interval after activity')
  await roundsIn(61)
  aheadMs = 3_600_000
  assert.ok((await roundsIn(10)) >= 8, 'the usual interval after a leap')
})

test('a worker that runs no more in a process that still reports is stalled', async (t) => {
  const { pool } = await testDatabase(t)
  const declare = (name: string, trigger: Trigger) =>
    ({ name, about: 'Tests', trigger, per: 'cluster', process: 'server' }) as const
  const workers = [
    declare('hangs', { everyMs: 1_000 }),
    declare('runs', { everyMs: 1_000 }),
    declare('is-slow', { everyMs: 600_000 }),
    declare('works-on', { everyMs: 1_000 }),
    declare('is-gone', { everyMs: 1_000 }),
    declare('waits', { when: 'a test says so' }),
    declare('is-idle', { everyMs: 1_000, while: 'a test says so' }),
    declare('hangs-in-a-round', { everyMs: 1_000, while: 'a test says so' }),
  ]
  const nowMs = Date.parse('2026-11-29T12:00:00Z')
  const hourAgo = new Date(nowMs - 3_600_000).toISOString()
  let pid = 0
  const row = (
    name: string,
    finishedAt: string | null,
    startedAt = hourAgo,
    ended = false,
    reportedAt = 'clock_timestamp()',
  ) => {
    pid += 1
    return pool.query(
      `insert into work.worker_runs (name, host, pid, process, started_at, finished_at, failures, ended, reported_at)
       values ($1, 'here', $5, 'server', $2, $3, 0, $4, ${reportedAt})`,
      [name, startedAt, finishedAt, ended, pid],
    )
  }
  await row('hangs', hourAgo)
  await row('runs', new Date(nowMs - 120_000).toISOString())
  await row('is-slow', hourAgo)
  await row('works-on', null)
  await row('is-gone', hourAgo, hourAgo, true)
  await row('waits', hourAgo)
  const future = '2099-01-01T00:00:00.000Z'
  await row('hangs', future, future)
  await row('hangs', future, hourAgo)
  await row('hangs', new Date(nowMs).toISOString(), hourAgo, false, `'${future}'`)
  await row('is-idle', hourAgo)
  await row('hangs-in-a-round', new Date(nowMs - 7_200_000).toISOString())
  assert.deepEqual(await readStalledWorkers(pool, workers, nowMs), [
    { name: 'hangs', since: hourAgo },
    { name: 'hangs-in-a-round', since: hourAgo },
  ])
})

test('a kind of process is silent if its newest report is old and none of them ended regularly', async (t) => {
  const { pool } = await testDatabase(t)
  const row = (process: string, pid: number, minutesAgo: number, ended: boolean) =>
    pool.query(
      `insert into work.worker_runs (name, host, pid, process, failures, ended, reported_at)
       values ('works', 'here', $1, $2, 0, $3, clock_timestamp() - make_interval(mins => $4))`,
      [pid, process, ended, minutesAgo],
    )
  await row('gateway', 1, 60, false)
  await row('gateway', 2, 5, false)
  await row('free-list', 3, 60, false)
  await row('free-list', 4, 5, true)
  await row('auditor', 5, 60, false)
  await row('auditor', 6, 1, false)
  assert.deepEqual(
    (await readSilentProcesses(pool)).map(({ process }) => process),
    ['gateway'],
  )
})
