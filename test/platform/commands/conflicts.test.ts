import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamName } from '../../../src/kernel/streams.ts'
import type { StreamLocks } from '../../../src/platform/commands/command.ts'
import { CommandOverload } from '../../../src/platform/commands/command.ts'
import { WrongExpectedRevision } from '../../../src/platform/eventstore/errors.ts'
import type { Appended, AppendItem, EventLog, ItemOutcome } from '../../../src/platform/eventstore/port.ts'
import { until } from '../../support/until.ts'
import { move, note, pay, purse, purseIn, runnerOver } from './purse.ts'
import { gate, locksOn, postgresWorld } from './world.ts'

const a = purse('a')
const b = purse('b')

/**
 * Writes an item append by append, as a log without transactions over streams does, and stops at the test's
 * point.
 */
const oneByOne = async (
  log: EventLog,
  { appends }: AppendItem,
  stopAt: number,
  stop: (landed: readonly Appended[]) => Promise<ItemOutcome>,
): Promise<ItemOutcome> => {
  const landed: Appended[] = []
  for (const [at, { stream, expected, events }] of appends.entries()) {
    if (at === stopAt) return stop(landed)
    try {
      landed.push(await log.append(stream, expected, events))
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error
      return { status: 'conflict', stream, actual: error.actual, landed }
    }
  }
  return { status: 'landed', appended: landed }
}

const countingLocks = (locks: StreamLocks) => {
  const taken: string[] = []
  const counting: StreamLocks = {
    ...locks,
    acquire: async (streams, waitMs) => {
      const lease = await locks.acquire(streams, waitMs)
      taken.push(`${lease ? 'got' : 'missed'} ${streams}`)
      return lease
    },
  }
  return { taken, locks: counting }
}

test('a conflict reads the missing events, from the position of the fold, and decides again', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const conflicts: StreamName[] = []
  const runner = runnerOver(wire, { metrics: { onConflict: (stream) => conflicts.push(stream) } })
  for (const n of [1, 2, 3]) await runner.run(move(a, `${n}`, 1))
  await runnerOver(elsewhere).run(move(a, 'elsewhere', 10))
  const tails: unknown[] = []
  wire.onReadStreams = (reads) => {
    tails.push(...reads)
    return elsewhere.readStreams(reads)
  }
  assert.deepEqual(await runner.run(move(a, 'spend', -2)), { answer: 'moved', position: 5 })
  assert.deepEqual(conflicts, [a])
  assert.deepEqual(tails, [{ stream: a, from: 3 }])
  assert.equal((await purseIn(wire, a)).balance, 11)
})

test('an item that conflicts does not delay the other items of its batch', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await Promise.all([runner.run(move(a, 'start', 1)), runner.run(move(b, 'start', 1))])
  await runnerOver(elsewhere).run(move(a, 'elsewhere', 1))
  const answered: string[] = []
  await Promise.all([
    runner.run(move(a, 'x', 1)).then(() => answered.push('a')),
    runner.run(move(b, 'x', 1)).then(() => answered.push('b')),
  ])
  assert.deepEqual(answered, ['b', 'a'])
})

test('after a prefix landed, complete commands are answered and incomplete ones continued, without duplicates', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'start', 10))
  // Of six appends three land: order one is whole, order two has paid and has no note yet.
  let first = true
  wire.onAppendAll = (items) =>
    Promise.all(
      items.map((item) => {
        const stopAt = first ? 3 : Number.POSITIVE_INFINITY
        first = false
        return oneByOne(elsewhere, item, stopAt, async (landed) => ({
          status: 'conflict',
          stream: note('two'),
          actual: 'noStream',
          landed,
        }))
      }),
    )
  const outcomes = await Promise.all(['one', 'two', 'three'].map((id) => runner.run(pay(a, id, 2))))
  assert.deepEqual(
    outcomes.map(({ answer }) => answer),
    ['moved', 'moved', 'moved'],
  )
  assert.equal(outcomes[0]!.position, 3)
  const { balance, moves } = await purseIn(wire, a)
  assert.equal(balance, 4)
  assert.equal(moves.size, 4)
  assert.equal((await elsewhere.lastOf(a))!.revision, 3)
  for (const id of ['one', 'two', 'three']) assert.equal((await elsewhere.lastOf(note(id)))!.revision, 0)
})

test('a prefix that an outage left is continued by the retry of the command', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'start', 10))
  wire.onAppendAll = (items) =>
    Promise.all(
      items.map((item) =>
        oneByOne(elsewhere, item, 1, async (landed) => ({
          status: 'unavailable',
          cause: new Error('gone'),
          landed,
        })),
      ),
    )
  await assert.rejects(runner.run(pay(a, 'one', 2)), CommandOverload)
  wire.onAppendAll = (items, send) => send(items)
  assert.equal((await runner.run(pay(a, 'one', 2))).answer, 'moved')
  assert.equal((await runner.run(pay(a, 'one', 2))).answer, 'repeated')
  assert.equal((await purseIn(wire, a)).balance, 8)
})

test('a contended stream is read, decided and written under its lock for a while, then without it', async (t) => {
  const world = await postgresWorld(t)
  const { wire, elsewhere } = world
  const { taken, locks } = countingLocks(locksOn(t, world))
  const runner = runnerOver(wire, { streamLocks: locks, limits: { contendedMs: 300 } })
  await runner.run(move(a, 'start', 1))
  assert.deepEqual(taken, [])
  await runnerOver(elsewhere).run(move(a, 'elsewhere', 1))
  await runner.run(move(a, 'collides', 1))
  assert.deepEqual(taken, [`got ${a}`])
  wire.reads = 0
  await runner.run(move(a, 'again', 1))
  assert.equal(taken.length, 2)
  assert.equal(wire.reads, 1)
  await until(async () => {
    const before = taken.length
    await runner.run(move(a, `${performance.now()}`, 1))
    return taken.length === before
  })
})

test('a process that cannot get the lock continues without it', async (t) => {
  const world = await postgresWorld(t)
  const { wire, elsewhere } = world
  const { taken, locks } = countingLocks(locksOn(t, world))
  const runner = runnerOver(wire, { streamLocks: locks, limits: { lockWaitMs: 50 } })
  const lease = await locksOn(t, world).acquire([a], 1_000)
  assert.ok(lease)
  await runner.run(move(a, 'start', 1))
  await runnerOver(elsewhere).run(move(a, 'elsewhere', 1))
  assert.equal((await runner.run(move(a, 'collides', 1))).answer, 'moved')
  assert.deepEqual(taken, [`missed ${a}`])
  await lease.release()
  const broken = runnerOver(wire, {
    streamLocks: {
      announce: () => undefined,
      onAnnounced: () => undefined,
      acquire: async () => {
        throw new Error('no connection')
      },
    },
  })
  await broken.run(move(b, 'start', 1))
  await runnerOver(elsewhere).run(move(b, 'elsewhere', 1))
  assert.equal((await broken.run(move(b, 'collides', 1))).answer, 'moved')
})

test('a process that wins every race detects the loser, and takes turns', async (t) => {
  const world = await postgresWorld(t)
  const { wire, elsewhere, pool } = world
  const { taken, locks } = countingLocks(locksOn(t, world))
  const heard: StreamName[] = []
  const conflicts: StreamName[] = []
  const winner = runnerOver(elsewhere, {
    metrics: { onConflict: (stream) => conflicts.push(stream) },
    streamLocks: {
      ...locks,
      onAnnounced: (listener) =>
        locks.onAnnounced((stream) => {
          listener(stream)
          heard.push(stream)
        }),
    },
  })
  const loser = runnerOver(wire, { streamLocks: locksOn(t, world) })
  const listening = `select from pg_stat_activity where datname = current_database() and query = 'listen farebox_contended'`
  await until(async () => (await pool.query(listening)).rowCount === 2)
  await loser.run(move(a, 'start', 1))
  await winner.run(move(a, 'wins', 1))
  await loser.run(move(a, 'loses', 1))
  await until(() => heard.includes(a))
  await winner.run(move(a, 'takes its turn', 1))
  assert.deepEqual(taken, [`got ${a}`])
  assert.deepEqual(conflicts, [])
})

test('other streams are not delayed while a contended one waits for its lock', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const door = gate()
  const runner = runnerOver(wire, {
    streamLocks: {
      announce: () => undefined,
      onAnnounced: () => undefined,
      acquire: async () => {
        await door.passed
        return null
      },
    },
  })
  await runner.run(move(a, 'start', 1))
  await runnerOver(elsewhere).run(move(a, 'elsewhere', 1))
  let waits = true
  const contended = runner.run(move(a, 'collides', 1)).finally(() => {
    waits = false
  })
  for (const n of [1, 2, 3]) await runner.run(move(b, `${n}`, 1))
  // A command over both waits for the lock too; the free stream continues.
  const both = runner.run(pay(a, 'both', 1))
  await runner.run(move(b, '4', 1))
  assert.equal(waits, true)
  door.open()
  assert.equal((await contended).answer, 'moved')
  assert.equal((await both).answer, 'moved')
})

test('a command that never lands is abandoned after a limited number of decisions', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { redecisions: 3 } })
  await runner.run(move(a, 'start', 1))
  let sends = 0
  wire.onAppendAll = async (items) => {
    sends++
    return items.map(() => ({ status: 'conflict', stream: a, actual: 0, landed: [] }))
  }
  await assert.rejects(
    runner.run(move(a, 'x', 1)),
    (error) => error instanceof CommandOverload && error.retryAfterS >= 1,
  )
  assert.equal(sends, 4)
})

test('one repeated command makes its whole batch check what was assumed absent, once', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const before = runnerOver(elsewhere)
  await before.run(move(a, 'start', 100))
  const ids = Array.from({ length: 30 }, (_, n) => `${n}`)
  await Promise.all(ids.map((id) => before.run(pay(a, id, 1))))
  // As after a restart: all clients repeat their requests at once, over purses that the process has not
  // cached.
  const runner = runnerOver(wire)
  await runner.run(move(b, 'start', 100))
  wire.sent.length = 0
  const outcomes = await Promise.all(ids.map((id) => runner.run(pay(b, id, 1))))
  assert.ok(outcomes.every(({ answer }) => answer === 'repeated'))
  assert.equal(wire.sent.length, 1)
  assert.equal((await purseIn(wire, b)).balance, 100)
})

test('locks: sessions take turns in order, a lost session releases its lock, a wait is bounded', async (t) => {
  const world = await postgresWorld(t)
  const { pool } = world
  const locks = locksOn(t, world)
  const first = await locks.acquire([a, b], 1_000)
  assert.ok(first)
  assert.equal(await locks.acquire([b], 50), null)
  // A busy machine may need long for a free one.
  const elsewhere = await locks.acquire([purse('c')], 5_000)
  assert.ok(elsewhere)
  const next = locks.acquire([a, b], 5_000)
  await first.release()
  const second = await next
  assert.ok(second)
  await pool.query(`select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objsubid = 1
    and pid <> pg_backend_pid() and (select count(*) from pg_locks own where own.pid = pg_locks.pid and own.locktype = 'advisory') = 2`)
  const third = await until(() => locks.acquire([a, b], 200))
  await assert.rejects(second.release())
  await third.release()
  await elsewhere.release()
})
