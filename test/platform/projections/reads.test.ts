import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { createLogFeed } from '../../../src/platform/projections/feed.ts'
import { createReads, ReadsBehind } from '../../../src/platform/projections/read-your-writes.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { caughtUp, decode, owns, startEngine, stateOf } from './engine.ts'
import { appendFacts, appendToLedger, both } from './tally.ts'

const account = 'acc_reader' as AccountId

test("a read waits for the account's own events, and sees them", async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  const reads = createReads({ progress: engine.progress, log, group: 'both' })
  for (let round = 1; round <= 20; round += 1) {
    await appendToLedger(log, account)
    await reads.settled(account)
    const { rows } = await pool.query(`select sum from read.tallies where name = 'wallet'`)
    assert.deepEqual(rows, [{ sum: round }])
  }
})

test('a read also waits for appends of this process outside the ledger', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  const reads = createReads({ progress: engine.progress, log, group: 'both', timeoutMs: 100 })
  await caughtUp(engine, log)
  await engine.pause()
  await reads.settled(account)
  const position = await appendFacts(log, [{ kind: 'add', name: 'a', amount: 1 }])
  await reads.settled(account)
  reads.known(account, position)
  await assert.rejects(reads.settled(account), ReadsBehind)
  reads.known(account, position - 1)
  await assert.rejects(reads.settled(account), ReadsBehind)
  engine.resume()
  await reads.settled(account)
})

test('at the time limit a read is refused with a retry time, never answered from old data', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  const boundsMs: number[] = []
  const progress: typeof engine.progress = {
    ...engine.progress,
    reached: (group, position, waitMs) => {
      boundsMs.push(waitMs)
      return engine.progress.reached(group, position, waitMs)
    },
  }
  const reads = createReads({ progress, log, group: 'both', timeoutMs: 150 })
  await caughtUp(engine, log)
  await engine.pause()
  await appendToLedger(log, account)
  const startedMs = performance.now()
  await assert.rejects(reads.settled(account), (error: ReadsBehind) => {
    assert.ok(error instanceof ReadsBehind)
    assert.equal(error.retryAfterS, 1)
    return true
  })
  const tookMs = performance.now() - startedMs
  assert.ok(tookMs > 140, `it took ${tookMs} ms`)
  assert.equal(boundsMs.length, 1)
  assert.ok(boundsMs.every((waitMs) => waitMs <= 150))
  engine.resume()
  await reads.settled(account)
})

test('a read waits for a position of the client, but not for one that no log ever had', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  const reads = createReads({ progress: engine.progress, log, group: 'both', timeoutMs: 100 })
  await caughtUp(engine, log)
  await engine.pause()
  const position = await appendFacts(log, [{ kind: 'add', name: 'a', amount: 1 }])
  await assert.rejects(reads.settled(account, position), ReadsBehind)
  engine.resume()
  await reads.settled(account, position)
  await reads.settled(account, Number.MAX_SAFE_INTEGER)
})

test('a process that does not own the group waits for its owner', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engines = [await startEngine(t, pool, log, [both]), await startEngine(t, pool, log, [both])]
  const other = await until(() => engines.find((engine) => stateOf(engine, 'both') === 'standby'))
  const reads = createReads({ progress: other.progress, log, group: 'both', timeoutMs: 20_000 })
  let quickestMs = Number.POSITIVE_INFINITY
  for (let round = 1; round <= 10; round += 1) {
    await appendToLedger(log, account)
    const startedMs = performance.now()
    await reads.settled(account)
    const { rows } = await pool.query(`select sum from read.tallies where name = 'wallet'`)
    assert.deepEqual(rows, [{ sum: round }])
    quickestMs = Math.min(quickestMs, performance.now() - startedMs)
  }
  assert.ok(quickestMs < 1000, 'the notification of the other process ends the wait, not a poll')
})

test('tables under construction are not read', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, [both])
  assert.equal(engine.progress.position('both'), -1)
  await createReads({ progress: engine.progress, log, group: 'both' }).settled(account)
  assert.notEqual(engine.progress.position('both'), -1)
})

test('a waiting read ends the batch window', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  let batches = 0
  const feed = createLogFeed({ log, decode, onError: assert.ifError })
  t.after(() => feed.close())
  const engine = await startEngine(t, pool, log, [both], {
    feed,
    batchWindowMs: 60_000,
    onBatch: () => {
      batches += 1
    },
  })
  const reads = createReads({ progress: engine.progress, log, group: 'both' })
  // Otherwise the first event may be folded while the tables are created, which is not a batch.
  await owns(engine, 'both')
  await appendToLedger(log, account)
  await reads.settled(account)
  // A batch is reported after its position, for which a read waits.
  await until(() => batches > 0, { what: 'the report of the first batch' })
  const before = batches
  for (let n = 0; n < 10; n += 1) await appendToLedger(log, account)
  // There is no reader, so the ten wait for each other; the read below must not wait for the minute.
  assert.equal(batches, before)
  // The log may deliver them in several pieces; events that arrive after a read begins to wait form a
  // separate batch.
  await feed.next((await log.head()) - 1, 1, AbortSignal.timeout(10_000))
  await reads.settled(account)
  const { rows } = await pool.query(`select sum from read.tallies where name = 'wallet'`)
  assert.deepEqual(rows, [{ sum: 11 }])
  await until(() => batches > before, { what: 'the report of the batch' })
  assert.equal(batches, before + 1)
})
