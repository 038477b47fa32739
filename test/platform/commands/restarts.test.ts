import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { CommandOverload } from '../../../src/platform/commands/command.ts'
import { busyStreams } from '../../../src/platform/commands/snapshots.ts'
import { LogUnavailable } from '../../../src/platform/eventstore/errors.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { until } from '../../support/until.ts'
import { move, purse, purseFold, runnerOver } from './purse.ts'
import { postgresWorld, snapshotFrom, snapshotsIn, type WiredLog, wired } from './world.ts'

const a = purse('a')
const silent = { warn: () => undefined, error: () => undefined }
/** Every command leaves one more entry, as every order does in its wallet. */
const limits = { snapshotMinEvents: 10, snapshotTailEvents: 20, snapshotEveryMs: 0, snapshotCloseEvents: 5 }

const restartWorld = async (t: TestContext) => {
  const world = await postgresWorld(t)
  const options = { snapshots: snapshotsIn(world.pool), limits, logger: silent }
  return { ...world, options }
}

/** Counts the events of every read from here on. */
const countEvents = (wire: WiredLog): { events: number; readonly begun: number[] } => {
  const counted = { events: 0, begun: [] as number[] }
  const readStreams = wire.onReadStreams
  wire.onReadStreams = async (tails, limitEach) => {
    counted.begun.push(...tails.map(({ from }) => from))
    const found = await readStreams(tails, limitEach)
    for (const events of found.values()) counted.events += events.length
    return found
  }
  return counted
}

/** One after another, so that a snapshot that is due is written before the next ones. */
const moveMany = async (runner: ReturnType<typeof runnerOver>, count: number): Promise<void> => {
  for (let n = 0; n < count; n += 1) await runner.run(move(a, `${n}`, 1))
}

test('a stream whose every event adds an entry gets its first snapshot at the minimum number of events', async (t) => {
  const { wire, options, pool } = await restartWorld(t)
  await moveMany(runnerOver(wire, options), 12)
  await snapshotFrom(pool, 10)
})

test('after a kill the first command of a stream reads a bounded tail, however large its state is', async (t) => {
  const { wire, options, pool } = await restartWorld(t)
  // Never closed: the state of a killed process.
  await moveMany(runnerOver(wire, options), 340)
  // With 300 entries a snapshot is due after 37 new events; with half the state it would be after 150.
  await snapshotFrom(pool, 290)
  const counted = countEvents(wire)
  assert.equal((await runnerOver(wire, options).run(move(a, '7', 1))).answer, 'repeated')
  assert.ok(counted.events <= 50, `${counted.events} events were read`)
})

test('orders that are faster than the allowed snapshots still have a bounded tail', async (t) => {
  const { wire, options, pool } = await restartWorld(t)
  // The first snapshot is taken after 11 events, the next one 41 later though its interval is far from over.
  await moveMany(runnerOver(wire, { ...options, limits: { ...limits, snapshotEveryMs: 600_000 } }), 70)
  await snapshotFrom(pool, 51)
})

test('a store that refuses a snapshot is not called again for every command', async () => {
  const wire = wired(createMemoryLog())
  let saves = 0
  const snapshots = {
    load: async () => [],
    save: async () => {
      saves += 1
      throw new Error('no table')
    },
  }
  const runner = runnerOver(wire, {
    snapshots,
    logger: silent,
    limits: { ...limits, snapshotEveryMs: 600_000, snapshotCloseEvents: 1_000 },
  })
  await moveMany(runner, 140)
  await runner.close()
  // After 11 events, and then after each 41 more.
  assert.equal(saves, 4)
})

test('after a clean stop the first command of a stream reads only the event of its snapshot', async (t) => {
  const { wire, options } = await restartWorld(t)
  const runner = runnerOver(wire, { ...options, limits: { ...limits, snapshotMinEvents: 1_000 } })
  await moveMany(runner, 60)
  await runner.close()
  const counted = countEvents(wire)
  assert.equal((await runnerOver(wire, options).run(move(a, '7', 1))).answer, 'repeated')
  assert.equal(counted.events, 1)
})

test('a long stream is read page by page, and a failed read continues at its page', async (t) => {
  const { wire, options } = await restartWorld(t)
  const first = runnerOver(wire, { ...options, limits: { ...limits, snapshotMinEvents: 1_000 } })
  await moveMany(first, 100)
  const counted = countEvents(wire)
  const readStreams = wire.onReadStreams
  let pages = 0
  wire.onReadStreams = async (tails, limitEach) => {
    assert.equal(limitEach, 20)
    pages += 1
    if (pages === 3) throw new LogUnavailable('no leader')
    return await readStreams(tails, limitEach)
  }
  const runner = runnerOver(wire, { logger: silent, limits: { ...limits, readEvents: 20 } })
  await assert.rejects(runner.run(move(a, 'once', 1)), CommandOverload)
  assert.equal((await runner.run(move(a, 'once', -100))).answer, 'moved')
  assert.deepEqual(counted.begun, [0, 20, 40, 60, 80, 100])
  assert.equal(counted.events, 100)
})

test('a partially read stream is never used for a decision', async (t) => {
  const { wire, options } = await restartWorld(t)
  await moveMany(runnerOver(wire, { ...options, limits: { ...limits, snapshotMinEvents: 1_000 } }), 60)
  const readStreams = wire.onReadStreams
  const blocked = Promise.withResolvers<void>()
  let pages = 0
  wire.onReadStreams = async (tails, limitEach) => {
    pages += 1
    if (pages === 2) await blocked.promise
    return await readStreams(tails, limitEach)
  }
  const runner = runnerOver(wire, { logger: silent, limits: { ...limits, readEvents: 20 } })
  const early = runner.run(move(a, 'more than was read', -60))
  await until(() => pages === 2, { what: 'the second page' })
  const late = runner.run(move(a, '59', 1))
  const sent = wire.sent.length
  blocked.resolve()
  assert.equal((await early).answer, 'moved')
  assert.equal((await late).answer, 'repeated')
  assert.equal(wire.sent.length, sent + 1)
})

test('recently used streams are read ahead, and their first commands read nothing', async (t) => {
  const { wire, options, pool } = await restartWorld(t)
  const former = runnerOver(wire, options)
  await moveMany(former, 60)
  await former.close()
  const busy = await busyStreams(pool, await wire.logId(), [purseFold.name], 10)
  assert.deepEqual(busy, [{ stream: a, fold: purseFold.name }])
  assert.deepEqual(await busyStreams(pool, 'another log', [purseFold.name], 10), [])
  const runner = runnerOver(wire, options)
  const other = { stream: purse('b'), fold: purseFold }
  assert.equal(await runner.warm([{ stream: a, fold: purseFold }, other], 10_000), 2)
  assert.equal(await runner.warm([{ stream: purse('c'), fold: purseFold }], 0), 0)
  const counted = countEvents(wire)
  assert.equal((await runner.run(move(a, '7', 1))).answer, 'repeated')
  assert.equal((await runner.run(move(a, 'all', -60))).answer, 'moved')
  // A refusal is looked up, from the position of the state.
  assert.ok(counted.begun.every((from) => from >= 60))
})
