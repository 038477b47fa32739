import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { type Endpoint, socketAddressText } from '../../../src/domain/free-list/endpoint.ts'
import {
  type EndpointRow,
  endpointColumns,
  endpointOf,
} from '../../../src/features/free-list/endpoint-reads.ts'
import { nextCheckDelayMs } from '../../../src/features/free-list/endpoint-status.ts'
import { addCandidates } from '../../../src/features/free-list/endpoint-store.ts'
import { faults, type PlannedProxy, planProxies } from '../../../src/sandbox/free-list/plan.ts'
import { testDatabase } from '../../support/postgres.ts'
import { readLive, startChecker, startProber, startWorld } from './world.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const minuteMs = 60_000
/** The beginning of an hour and of a period in which those that flap are there. */
const startMs = 14 * 60 * minuteMs * 35_000

const readAll = async (pool: pg.Pool, nowMs: number): Promise<ReadonlyMap<string, Endpoint>> => {
  const { rows } = await pool.query<EndpointRow>(`select ${endpointColumns} from work.free_proxies`)
  return new Map(rows.map((row) => [socketAddressText(row), endpointOf(row, nowMs)]))
}

/** Checks and successes of one that flaps, by its plan and the schedule alone. */
const flapped = ({ periodMs }: PlannedProxy, untilMs: number, stepMs: number) => {
  let [checks, successes, failures, dueMs] = [0, 0, 0, startMs]
  for (let nowMs = startMs; nowMs <= untilMs; nowMs += stepMs)
    if (dueMs <= nowMs) {
      const isThere = Math.floor(nowMs / periodMs) % 2 === 0
      checks += 1
      successes += isThere ? 1 : 0
      failures = isThere ? 0 : failures + 1
      dueMs = nowMs + nextCheckDelayMs({ state: isThere ? 'live' : 'not_answering', failures }, 0.5)
    }
  return { checks, successes }
}

const startCycle = async (t: TestContext, count: number) => {
  const clock = { nowMs: startMs }
  const { pool } = await testDatabase(t)
  const planned = planProxies(count)
  const running = await startWorld(t, planned, () => clock.nowMs)
  const { prober, place } = await startProber(t, () => clock.nowMs)
  const checker = startChecker(t, { pool, prober, place, clock: () => clock.nowMs })
  const places = running.map(({ planned: { ip }, port }) => ({ ip, port }))
  return { clock, pool, running, checker, places }
}

test('after one cycle every field of the list is true, and no lying proxy is listed', async (t) => {
  const count = soak ? 2_000 : 154
  const { clock, pool, running, checker, places } = await startCycle(t, count)
  assert.equal(await addCandidates(pool, [...places, ...places.slice(0, 9)], clock.nowMs), count)
  assert.equal(await addCandidates(pool, places, clock.nowMs), 0)
  await checker.settle()
  const all = await readAll(pool, clock.nowMs)
  assert.equal(all.size, count)
  for (const { planned, port } of running) {
    const { ip, truth, fault } = planned
    const found = all.get(socketAddressText({ ip, port }))!
    assert.deepEqual(
      {
        alive: found.state === 'live',
        protocols: found.protocols,
        anonymity: found.anonymity,
        exitIp: found.exitIp,
        interceptsTls: truth.alive ? found.interceptsTls : truth.interceptsTls,
        error: found.error,
      },
      truth,
      `${planned.id} ${fault}`,
    )
    assert.equal(found.uptime24h, truth.alive ? 100 : 0)
    assert.equal(found.latencyMs !== null, truth.alive)
    assert.equal(found.checks, 1)
    if (!truth.alive) assert.equal(found.state, 'never_answered')
  }
  const listed = new Set((await readLive(pool, clock.nowMs)).map(socketAddressText))
  const liars = running.filter(({ planned }) => !planned.truth.alive)
  assert.ok(liars.length > count / 3)
  assert.ok(liars.every(({ planned: { ip }, port }) => !listed.has(socketAddressText({ ip, port }))))
  assert.deepEqual(new Set(running.map(({ planned }) => planned.fault)), new Set(faults))
})

test('after an hour every uptime is exact', async (t) => {
  const { clock, pool, running, checker, places } = await startCycle(t, soak ? 2_000 : 44)
  await addCandidates(pool, places, clock.nowMs)
  await checker.settle()
  const stepMs = minuteMs / 2
  const untilMs = startMs + 60 * minuteMs
  while (clock.nowMs < untilMs) {
    clock.nowMs += stepMs
    await checker.settle()
  }
  const later = await readAll(pool, clock.nowMs)
  for (const { planned, port } of running) {
    const { checks, successes, uptime24h, failures } = later.get(socketAddressText({ ip: planned.ip, port }))!
    if (planned.fault === 'flapping') {
      const expected = flapped(planned, untilMs, stepMs)
      assert.deepEqual({ checks, successes }, expected, planned.id)
      assert.ok(successes > 0 && successes < checks)
      assert.equal(uptime24h, Math.round((1_000 * successes) / checks) / 10)
    } else {
      // Every 3.5 minutes while it answers; after 10 and 20 more minutes while it never did.
      assert.equal(checks, planned.truth.alive ? 1 + Math.floor(60 / 3.5) : 3, planned.id)
      assert.equal(uptime24h, planned.truth.alive ? 100 : 0)
      assert.equal(failures, planned.truth.alive ? 0 : checks)
    }
  }
})
