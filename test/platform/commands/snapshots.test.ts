import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamName } from '../../../src/kernel/streams.ts'
import type { RunnerLogger } from '../../../src/platform/commands/command.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { until } from '../../support/until.ts'
import { move as moveByPurse, purse, purseFold, purseIn, runnerOver } from './purse.ts'
import { postgresWorld, signAgain, snapshotsIn, wired } from './world.ts'

const a = purse('a')

/** Counts entries like a state that drops old ones: up to 28. */
const fold: typeof purseFold = {
  ...purseFold,
  snapshot: { ...purseFold.snapshot!, entries: ({ moves }) => 2 * Math.min(moves.size, 14) },
}
const move = (stream: StreamName, id: string, amount: number) => ({
  ...moveByPurse(stream, id, amount),
  streams: { purse: { stream, fold } },
})

const snapshotWorld = async (t: Parameters<typeof postgresWorld>[0]) => {
  const world = await postgresWorld(t)
  const forged: string[] = []
  const snapshots = snapshotsIn(world.pool, (message) => forged.push(message))
  const limits = { snapshotMinEvents: 10, snapshotEveryMs: 0 }
  const storedRows = async () =>
    (await world.pool.query('select * from engine.snapshots order by stream, fold')).rows as Record<
      string,
      unknown
    >[]
  const warnings: string[] = []
  const logger: RunnerLogger = { warn: (_fields, message) => warnings.push(message), error: () => undefined }
  return { ...world, snapshots, limits, storedRows, warnings, forged, options: { snapshots, limits, logger } }
}

const moveMany = async (runner: ReturnType<typeof runnerOver>, from: number, to: number): Promise<void> => {
  for (let n = from; n < to; n++) await runner.run(move(a, `${n}`, 1))
}

test('a snapshot is taken after max(limit, half the entries) new events, and a state is loaded from it and its tail', async (t) => {
  const { wire, elsewhere, options, storedRows } = await snapshotWorld(t)
  const points: string[] = []
  const runner = runnerOver(wire, { ...options, hooks: { at: (point) => points.push(point) } })
  await moveMany(runner, 0, 14)
  assert.deepEqual(await storedRows(), [])
  await moveMany(runner, 14, 15)
  const [first] = await until(async () => ((await storedRows()).length > 0 ? storedRows() : null))
  // 11 events would do for the limit; the state holds 28 entries, so it takes 15.
  assert.equal(first!.revision, 14)
  assert.ok(points.includes('before-snapshot') && points.includes('after-snapshot'))
  await moveMany(runner, 15, 20)
  await runner.close()

  const tails: unknown[] = []
  wire.onReadStreams = (reads) => {
    tails.push(...reads)
    return elsewhere.readStreams(reads)
  }
  const restarted = runnerOver(wire, options)
  assert.equal((await restarted.run(move(a, '3', 1))).answer, 'repeated')
  assert.equal((await restarted.run(move(a, 'all', -20))).answer, 'moved')
  assert.deepEqual(tails[0], { stream: a, from: 14 })
  assert.equal((await purseIn(wire, a)).balance, 0)
})

test('a stream has at most one snapshot per interval', async (t) => {
  const { wire, options, storedRows } = await snapshotWorld(t)
  const runner = runnerOver(wire, { ...options, limits: { snapshotMinEvents: 10, snapshotEveryMs: 60_000 } })
  await moveMany(runner, 0, 60)
  await runner.close()
  const rows = await storedRows()
  assert.equal(rows.length, 1)
  assert.ok((rows[0]!.revision as number) < 20)
})

test('snapshots may be deleted at any time', async (t) => {
  const { wire, pool, options } = await snapshotWorld(t)
  const runner = runnerOver(wire, options)
  await moveMany(runner, 0, 30)
  await pool.query('truncate engine.snapshots')
  await moveMany(runner, 30, 35)
  await runner.close()
  await pool.query('truncate engine.snapshots')
  assert.equal((await runnerOver(wire, options).run(move(a, 'all', -35))).answer, 'moved')
})

const spoil = {
  'of another version': `version = 7, state = '{"balance":1000,"moves":{}}'`,
  'of another log': `log_id = 'another', state = '{"balance":1000,"moves":{}}'`,
  'that is no JSON': `state = '{"balance":1000,'`,
  'that does not read as a state': `state = 'null'`,
  'of a history that the log does not have': `event_id = 'unknown', state = '{"balance":1000,"moves":{}}'`,
  'from beyond the end of the stream': `revision = 5000, state = '{"balance":1000,"moves":{}}'`,
}
for (const [what, change] of Object.entries(spoil))
  test(`a snapshot ${what} is ignored`, async (t) => {
    const { wire, pool, options, storedRows, warnings } = await snapshotWorld(t)
    const runner = runnerOver(wire, options)
    await moveMany(runner, 0, 30)
    await runner.close()
    assert.equal((await storedRows()).length, 1)
    await pool.query(`update engine.snapshots set ${change}`)
    await signAgain(pool)
    const restarted = runnerOver(wire, options)
    assert.equal((await restarted.run(move(a, 'too much', -31))).answer, 'short')
    assert.equal((await restarted.run(move(a, 'all', -30))).answer, 'moved')
    assert.equal(warnings.length, /version|log$/.test(what) ? 0 : 1, String(warnings))
    // An ignored one is replaced in time.
    await moveMany(restarted, 100, 130)
    await restarted.close()
    assert.ok((await storedRows())[0]!.revision !== 29)
  })

const forgeries = {
  'with more money': `state = replace(state, '"balance":30', '"balance":1000')`,
  'at a later event': 'revision = 5000',
  'by no key': String.raw`signature = '\x00'`,
  'moved from another stream': `stream = '${a}'`,
}
for (const [what, change] of Object.entries(forgeries))
  test(`a snapshot that was inserted ${what} is logged and removed, and the stream is read from its beginning`, async (t) => {
    const { wire, pool, options, storedRows, forged } = await snapshotWorld(t)
    const runner = runnerOver(wire, options)
    const from = what.startsWith('moved') ? purse('b') : a
    for (let n = 0; n < 30; n++) await runner.run(move(from, `${n}`, 1))
    if (from !== a) await runner.run(move(a, '0', 1))
    await runner.close()
    assert.equal((await storedRows()).length, 1)
    await pool.query(`update engine.snapshots set ${change}`)
    const restarted = runnerOver(wire, options)
    const balance = from === a ? 30 : 1
    assert.equal((await restarted.run(move(a, 'too much', -balance - 1))).answer, 'short')
    assert.match(forged.join(), /^a snapshot has a wrong signature[^,]+, and[^,]+$/)
    assert.equal((await restarted.run(move(a, 'all', -balance))).answer, 'moved')
    await restarted.close()
    const after = runnerOver(wire, options)
    assert.equal((await after.run(move(a, 'more', -1))).answer, 'short')
    await after.close()
    assert.equal(forged.length, 1)
  })

test('an append never waits for a snapshot, and a failing store only causes a warning', async () => {
  const wire = wired(createMemoryLog())
  const warnings: string[] = []
  const runner = runnerOver(wire, {
    limits: { snapshotMinEvents: 1, snapshotEveryMs: 0, closeMs: 50 },
    logger: { warn: (_fields, message) => warnings.push(message), error: () => undefined },
    snapshots: {
      load: async () => {
        throw new Error('no table')
      },
      save: () => new Promise(() => undefined),
    },
  })
  await moveMany(runner, 0, 30)
  assert.equal((await purseIn(wire, a)).balance, 30)
  assert.ok(warnings.length > 0)
  await runner.close()
})

test('an older state does not replace a newer one of the same log and version', async (t) => {
  const { snapshots, storedRows } = await snapshotWorld(t)
  const snapshot = {
    stream: a,
    logId: 'log',
    fold: purseFold.name,
    version: 1,
    eventId: 'e',
    recordedAtMs: 1,
    state: '{}',
  }
  await snapshots.save({ ...snapshot, revision: 20 })
  await snapshots.save({ ...snapshot, revision: 10 })
  assert.equal((await storedRows())[0]!.revision, 20)
  await snapshots.save({ ...snapshot, revision: 5, version: 2 })
  assert.equal((await storedRows())[0]!.revision, 5)
})
