import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import type pg from 'pg'
import { createLiveRows } from '../../../src/platform/projections/live.ts'
import { createChanges, createProgress, type Watch } from '../../../src/platform/projections/progress.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { caughtUp, owns, silent, startEngine, stateOf } from './engine.ts'
import { appendFacts, both } from './tally.ts'

/** A table of one number that a test changes, and its notifications. */
const world = () => {
  const changes = createChanges()
  const at = { value: 1, loads: 0, failures: 0, nowMs: 0, clockMs: 0 }
  const watch: Watch = {
    version: () => changes.version(['numbers']),
    onChange: (listener) => changes.onChange(['numbers'], listener),
  }
  const load = async (): Promise<number> => {
    at.loads += 1
    if (at.failures > 0) {
      at.failures -= 1
      throw new Error('no database')
    }
    return at.value
  }
  const change = (value: number): void => {
    at.value = value
    changes.changed(['numbers'])
  }
  const live = createLiveRows({ name: 'number', watch, load, logger: silent })
  return { at, changes, watch, load, change, live }
}

test('cached data is read again when its table changes, and not when others do', async () => {
  const { at, changes, change, live } = world()
  assert.throws(() => live.current(), { name: 'ReadsBehind' })
  await live.start()
  assert.equal(live.current(), 1)
  changes.changed(['others'])
  assert.equal(await live.fresh(), 1)
  assert.equal(at.loads, 1)
  change(2)
  await until(() => live.current() === 2)
  assert.equal(at.loads, 2)
  await live.stop()
  change(3)
  assert.equal(at.loads, 2)
  assert.equal(live.current(), 2)
})

test('a fresh read contains all earlier changes, without a query when there were none', async () => {
  const { at, change, live } = world()
  assert.deepEqual(await Promise.all([live.fresh(), live.fresh()]), [1, 1])
  assert.equal(at.loads, 1)
  change(2)
  assert.equal(await live.fresh(), 2)
  assert.equal(await live.fresh(), 2)
  assert.equal(at.loads, 2)
})

test('a load that began before a change is not fresh after it', async () => {
  const { change, live, at } = world()
  const early = live.fresh()
  await new Promise((resolve) => setImmediate(resolve))
  change(2)
  await early
  assert.equal(await live.fresh(), 2)
  assert.equal(at.loads, 2)
})

test('while changes may be missed, every fresh read queries', async () => {
  const { at, watch, load } = world()
  const live = createLiveRows({ name: 'n', watch: { ...watch, version: () => null }, load, logger: silent })
  await live.fresh()
  at.value = 2
  assert.equal(await live.fresh(), 2)
})

test('data that depends on the clock is fresh for a bounded time, by either clock', async () => {
  const { at, watch, load } = world()
  const maxAge = { ms: 100, clock: () => at.clockMs, monotonicMs: () => at.nowMs }
  const live = createLiveRows({ name: 'n', watch, load, logger: silent, maxAge })
  await live.fresh()
  at.value = 2
  at.nowMs = 99
  assert.equal(await live.fresh(), 1)
  at.nowMs = 100
  assert.equal(await live.fresh(), 2)
  at.value = 3
  at.clockMs += 100
  assert.equal(await live.fresh(), 3)
})

test('a load that fails after a change is repeated automatically', async () => {
  const { at, change, live } = world()
  await live.start()
  at.failures = 2
  change(2)
  await until(() => live.current() === 2)
  assert.equal(at.loads, 4)
  await live.stop()
})

/** Progress without a database, with a stopped clock. */
const progressOf = () => {
  const at = { nowMs: 1_000 }
  const pool = new EventEmitter() as unknown as pg.Pool
  const progress = createProgress({ pool, groups: ['both'], monotonicMs: () => at.nowMs })
  const count = { changes: 0 }
  const watch = progress.watch('both', ['tallies'])
  watch.onChange(() => {
    count.changes += 1
  })
  progress.observeCheckpoint('both', { position: 5, epoch: 1 })
  progress.setUsable('both', true)
  count.changes = 0
  return { at, progress, watch, count }
}

test('a checkpoint step without a notification counts as any change; an unmoved one counts as none', () => {
  const { progress, watch, count } = progressOf()
  const before = watch.version()!
  progress.observeCheckpoint('both', { position: 5, epoch: 1 })
  assert.equal(watch.version(), before)
  progress.observeCheckpoint('both', { position: 6, epoch: 1 })
  assert.equal(count.changes, 1)
  assert.ok(watch.version()! > before)
})

test('rebuilt tables, and another owner, count as any change', () => {
  const { progress, count } = progressOf()
  progress.advance('both', { position: 5, epoch: 2 })
  assert.equal(count.changes, 1)
  progress.setUsable('both', false)
  progress.setUsable('both', true)
  assert.equal(count.changes, 2)
})

test('the owner reports the tables that it wrote, and no others', () => {
  const { progress, count } = progressOf()
  progress.setOwned('both', true)
  progress.changed('both', ['entries'])
  progress.advanceAsOwner('both', 6)
  assert.equal(count.changes, 0)
  progress.changed('both', ['tallies'])
  assert.equal(count.changes, 1)
  progress.advanceAsOwner('both', 7)
  progress.observeCheckpoint('both', { position: 7, epoch: 1 })
  assert.equal(count.changes, 1)
})

test('a process that has not read the checkpoint for a second has no version until it reads again', () => {
  const { at, progress, watch } = progressOf()
  at.nowMs += 1_000
  assert.notEqual(watch.version(), null)
  at.nowMs += 1
  assert.equal(watch.version(), null)
  // Readers that wait learn the position this way, and no change with it.
  progress.advance('both', { position: 6, epoch: 1 })
  assert.equal(watch.version(), null)
  progress.observeCheckpoint('both', { position: 6, epoch: 1 })
  assert.notEqual(watch.version(), null)
})

test('an exact watch counts each step of another owner, so that an awaited change is in the next read', () => {
  const { progress, watch } = progressOf()
  const exact = progress.watch('both', ['tallies'], { exact: true })
  const [coarse, before] = [watch.version(), exact.version()!]
  progress.advance('both', { position: 6, epoch: 1 })
  assert.equal(watch.version(), coarse)
  assert.ok(exact.version()! > before)
})

test('a standby process is notified at once of the tables that the owner wrote, if it caches them', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const group = { ...both, held: ['tallies'] }
  const owner = await startEngine(t, pool, log, [group])
  await owns(owner, 'both')
  const beside = await startEngine(t, pool, log, [group])
  await until(() => stateOf(beside, 'both') === 'standby')
  // The polls, twice a second, report any table; a notification names one.
  let named = 0
  const { changed } = beside.progress
  const watch = beside.progress.watch('both', ['tallies'])
  const before = watch.version()
  assert.notEqual(before, null)
  t.mock.method(beside.progress, 'changed', (name: string, tables: Iterable<string> | 'any') => {
    if (tables !== 'any' && [...tables].join() === 'tallies') named += 1
    changed(name, tables)
  })
  await appendFacts(log, [{ kind: 'add', name: 'a', amount: 1 }])
  await caughtUp(owner, log)
  await until(() => named > 0, { what: 'a hint' })
  assert.ok(watch.version()! > before!)
})
