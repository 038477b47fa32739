import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { readStats } from '../../../src/features/free-list/endpoint-reads.ts'
import { addCandidates } from '../../../src/features/free-list/endpoint-store.ts'
import { CheckUnavailable } from '../../../src/features/free-list/probe-port.ts'
import { planProxies } from '../../../src/sandbox/free-list/plan.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { readLive, startChecker, startProber, startWorld } from './world.ts'

const minuteMs = 60_000
const startMs = 1_800_000_000_000
const dayMs = 24 * 60 * minuteMs

const working = planProxies(40).filter(({ fault }) => fault === 'none')

const totals = async (pool: pg.Pool, nowMs: number) => {
  const { endpoints, checks, successes, states } = await readStats(pool, nowMs)
  return { endpoints, checks, successes, live: states.live ?? 0 }
}

test('while the judge is down no check counts, and the missing checks are made up afterwards', async (t) => {
  const { pool } = await testDatabase(t)
  const running = await startWorld(t, working)
  const { prober, place } = await startProber(t)
  const judge = { answers: false }
  const checker = startChecker(t, {
    pool,
    prober,
    place,
    clock: () => startMs,
    judgeAnswers: async () => judge.answers,
  })
  const places = running.map(({ planned: { ip }, port }) => ({ ip, port }))
  await addCandidates(pool, places, startMs)
  await assert.rejects(checker.settle(), CheckUnavailable)
  assert.equal(checker.counts().pausedForJudge, true)
  assert.deepEqual(await totals(pool, startMs), { endpoints: 20, checks: 0, successes: 0, live: 0 })
  judge.answers = true
  await until(async () => {
    await checker.settle()
    return true
  })
  assert.deepEqual(await totals(pool, startMs), { endpoints: 20, checks: 20, successes: 20, live: 20 })
})

test('two checkers count each check once, and a third continues where they were stopped', async (t) => {
  const { pool } = await testDatabase(t)
  const running = await startWorld(t, working)
  const clock = { nowMs: startMs }
  const { prober, place } = await startProber(t, () => clock.nowMs)
  const start = () => startChecker(t, { pool, prober, place, clock: () => clock.nowMs })
  const places = running.map(({ planned: { ip }, port }) => ({ ip, port }))
  await addCandidates(pool, places, startMs)
  await Promise.all([start().settle(), start().settle()])
  assert.deepEqual(await totals(pool, startMs), { endpoints: 20, checks: 20, successes: 20, live: 20 })
  clock.nowMs += 5 * minuteMs
  const stopped = start()
  await stopped.round()
  await stopped.stop()
  await start().settle()
  assert.deepEqual(await totals(pool, clock.nowMs), { endpoints: 20, checks: 40, successes: 40, live: 20 })
})

test('checks that a clock ahead by a month delayed run as soon as the clock is right', async (t) => {
  const { pool } = await testDatabase(t)
  const running = await startWorld(t, working)
  const { prober, place } = await startProber(t, () => startMs)
  const places = running.map(({ planned: { ip }, port }) => ({ ip, port }))
  await addCandidates(pool, places, startMs + 30 * dayMs)
  const [first] = places
  const { rowCount } = await pool.query(
    'update work.free_proxies set next_due = to_timestamp($1::float8) where ip = $2::inet and port = $3::int',
    [(startMs + dayMs) / 1_000, first?.ip, first?.port],
  )
  assert.equal(rowCount, 1)
  await startChecker(t, { pool, prober, place, clock: () => startMs }).settle()
  assert.equal((await totals(pool, startMs)).checks, places.length - 1, 'a day is the longest pause')
})

test('no endpoint is dropped in a year without an answer, and one that answers again is listed again', async (t) => {
  const { pool } = await testDatabase(t)
  const [planned] = working
  const clock = { nowMs: startMs }
  // It is there in even periods of a year and away in odd ones.
  const flapping = { ...planned!, fault: 'flapping' as const, periodMs: 366 * dayMs }
  const there = Math.floor(startMs / flapping.periodMs) % 2 === 0
  const firstMs = there ? startMs : (Math.floor(startMs / flapping.periodMs) + 1) * flapping.periodMs
  clock.nowMs = firstMs
  const running = await startWorld(t, [flapping], () => clock.nowMs)
  const { prober, place } = await startProber(t, () => clock.nowMs)
  const checker = startChecker(t, { pool, prober, place, clock: () => clock.nowMs })
  await addCandidates(
    pool,
    running.map(({ port }) => ({ ip: flapping.ip, port })),
    clock.nowMs,
  )
  await checker.settle()
  assert.equal((await readLive(pool, clock.nowMs)).length, 1)
  const awayMs = (Math.floor(firstMs / flapping.periodMs) + 1) * flapping.periodMs
  for (clock.nowMs = awayMs; clock.nowMs < awayMs + 365 * dayMs; clock.nowMs += 3 * dayMs)
    await checker.settle()
  const { rows } = await pool.query<{
    state: string
    checks: number
    successes: number
    failures: number
    protocols: number
  }>('select state, checks, successes, failures, protocols from work.free_proxies')
  assert.equal(rows.length, 1)
  const [{ state, checks, successes, failures, protocols }] = rows as [(typeof rows)[0]]
  assert.deepEqual({ state, successes }, { state: 'not_answering', successes: 1 })
  assert.ok(failures >= 120 && checks === failures + 1, `${failures} failures of ${checks} checks`)
  assert.ok(protocols > 0)
  assert.deepEqual(await readLive(pool, clock.nowMs), [])
  clock.nowMs = awayMs + flapping.periodMs + dayMs
  await checker.settle()
  const [again] = await readLive(pool, clock.nowMs)
  assert.deepEqual([again?.uptime24h, again?.successes, again?.failures], [100, 2, 0])
})
