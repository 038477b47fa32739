import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { addCandidates, createRecordStore } from '../../../src/features/free-list/endpoint-store.ts'
import { freeListChecks } from '../../../src/features/free-list/process.ts'
import { planProxies } from '../../../src/sandbox/free-list/plan.ts'
import { machineMs } from '../../support/machine-time.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { startChecker, startProber, startWorld } from './world.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const count = soak ? 1_000_000 : 2_000
const seconds = soak ? 60 : 2
/** Minutes of the schedule pass in seconds. */
const haste = 60
/** Rows of one statement. */
const batch = 50_000
const dayMs = 86_400_000
const startMs = 1_800_000_000_000

const megabytes = (): number => Math.round(process.memoryUsage.rss() / 2 ** 20)

test('a record of many endpoints is checked on time with little memory, and a restart starts at once', async (t) => {
  const { pool } = await testDatabase(t)

  const live = await startWorld(
    t,
    planProxies(40).filter(({ fault }) => fault === 'none'),
  )
  // Endpoints of 127.100.0.0/12 that refuse, each checked once a day, due all over the day.
  for (let from = 1; from <= count; from += batch)
    await pool.query(
      `insert into work.free_proxies (ip, port, state, checks, failures, first_seen, next_due)
       select '127.100.0.0'::inet + at, 9, 'never_answered', 12, 12, $3::timestamptz,
              $3::timestamptz + interval '1 day' * (hashint4(at) & 65535) / 65536.0
         from generate_series($1::int, $2::int) at`,
      [from, Math.min(count, from + batch - 1), new Date(startMs).toISOString()],
    )
  await addCandidates(
    pool,
    live.map(({ planned: { ip }, port }) => ({ ip, port })),
    startMs,
  )
  await pool.query('analyze work.free_proxies')

  // On a loaded machine the schedule takes as much longer as its checks.
  const clock = { fromMs: startMs, sinceMs: machineMs() }
  const now = (): number => Math.round(clock.fromMs + (machineMs() - clock.sinceMs) * haste)
  const { prober, place } = await startProber(t, now)
  const limits = { sockets: 4_000 }
  const run = async (forSeconds: number) => {
    const before = machineMs()
    const checker = startChecker(t, { pool, prober, place, clock: now, limits })
    await checker.round()
    const firstRoundMs = machineMs() - before
    const rounds = testScheduler().start(freeListChecks, checker.round, { everyMs: 50 })
    let [latestMs, mostMb] = [0, 0]
    const untilMs = machineMs() + forSeconds * 1_000
    while (machineMs() < untilMs) {
      await sleep(250)
      latestMs = Math.max(latestMs, ((await createRecordStore(pool).lateMs(now())) ?? 0) / haste)
      mostMb = Math.max(mostMb, megabytes())
    }
    await rounds.stop()
    await checker.stop()
    return { firstRoundMs, latestMs, mostMb }
  }
  const checked = async (): Promise<number> => {
    const { rows } = await pool.query<{ sum: number }>(
      'select sum(checks)::bigint as sum from work.free_proxies',
    )
    return rows[0]!.sum
  }

  const beforeMb = megabytes()
  const checksBefore = await checked()
  clock.sinceMs = machineMs()
  const usual = await run(seconds)
  const usualChecks = (await checked()) - checksBefore
  // A result written half a second later counts as late for that long; the rest is the machine's.
  assert.ok(usual.latestMs < (soak ? 10_000 : 5_000), `${usual.latestMs} ms late`)

  // A day and a half without a checker: everything is due at once, and live ones come first.
  clock.fromMs = startMs + 1.5 * dayMs
  clock.sinceMs = machineMs()
  const flooded = await run(seconds)
  const floodChecks = (await checked()) - checksBefore - usualChecks
  const { rows } = await pool.query<{ answered: number }>(
    "select count(*) as answered from work.free_proxies where state = 'live' and last_checked >= $1::timestamptz",
    [new Date(clock.fromMs).toISOString()],
  )
  assert.equal(rows[0]?.answered, live.length)
  assert.ok(floodChecks > 0)
  for (const { firstRoundMs, mostMb } of [usual, flooded]) {
    assert.ok(firstRoundMs < 5_000, `the first round took ${firstRoundMs} ms`)
    assert.ok(mostMb - beforeMb < 500, `${mostMb - beforeMb} MB more`)
  }
  process.stdout.write(
    `# free proxies: ${count} on record; on schedule ${usualChecks} checks in ${seconds} s, at most ${Math.round(usual.latestMs)} ms late; all due ${floodChecks} checks; restart to first checks ${Math.round(flooded.firstRoundMs)} ms; ${Math.max(usual.mostMb, flooded.mostMb) - beforeMb} MB more than before\n`,
  )
})
