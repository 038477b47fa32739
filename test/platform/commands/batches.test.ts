import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppendRejected } from '../../../src/platform/eventstore/errors.ts'
import { until } from '../../support/until.ts'
import { codec, move, note, noteFold, pay, purse, purseFold, purseIn, runnerOver } from './purse.ts'
import { gate, postgresWorld } from './world.ts'

const a = purse('a')
const b = purse('b')
const c = purse('c')

test('waiting commands are decided in arrival order on the results of earlier ones, in one append', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'first', 10))
  wire.sent.length = 0
  const outcomes = await Promise.all([
    runner.run(move(a, 'one', -6)),
    runner.run(move(a, 'two', -6)),
    runner.run(move(a, 'three', 5)),
    runner.run(move(a, 'four', -6)),
  ])
  assert.deepEqual(
    outcomes.map(({ answer }) => answer),
    ['moved', 'short', 'moved', 'moved'],
  )
  assert.equal(wire.sent.length, 1)
  assert.deepEqual(
    wire.sent[0]!.appends.map(({ expected }) => expected),
    [0, 1, 2],
  )
  assert.deepEqual(
    outcomes.map(({ position }) => position),
    [2, null, 3, 4],
  )
  assert.equal((await purseIn(wire, a)).balance, 3)
})

test('commands that share a stream, also indirectly, form one item; others are separate items', async (t) => {
  const { wire } = await postgresWorld(t)
  const batches: { commands: number; items: number; events: number }[] = []
  const runner = runnerOver(wire, { metrics: { onBatch: ({ ms: _, ...batch }) => batches.push(batch) } })
  await Promise.all([
    runner.run(move(a, 'a', 9)),
    runner.run(move(b, 'b', 9)),
    runner.run(move(purse('c'), 'c', 9)),
  ])
  assert.deepEqual(batches, [{ commands: 3, items: 3, events: 3 }])
  wire.sent.length = 0
  const both = {
    ...move(a, 'ab', 1),
    streams: { a: { stream: a, fold: purseFold }, b: { stream: b, fold: purseFold } },
    decide: () => ({
      appends: [a, b].map((stream) => ({
        stream,
        events: [{ type: 'Moved', data: { id: 'ab', amount: 1 } }],
      })),
      answer: 'moved' as const,
    }),
  }
  await Promise.all([
    runner.run(move(a, 'a2', 1)),
    runner.run(move(purse('c'), 'c2', 1)),
    runner.run(move(b, 'b2', 1)),
    runner.run(both),
  ])
  assert.deepEqual(
    wire.sent.map(({ appends }) => appends.map(({ stream, expected }) => [stream, expected])),
    [
      [
        [a, 0],
        [b, 0],
        [a, 1],
        [b, 1],
      ],
      [[purse('c'), 0]],
    ],
  )
  assert.equal((await purseIn(wire, b)).balance, 11)
})

test('one batch is in flight at a time; waiting commands form the next one, cut at its limit', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { batchCommands: 3 } })
  const door = gate()
  const calls: number[] = []
  wire.onAppendAll = async (items, send) => {
    calls.push(items.length)
    await door.passed
    return send(items)
  }
  const all = Array.from({ length: 8 }, (_, n) =>
    runner.run({
      ...move(purse(`${n}`), 'x', 1),
      streams: { purse: { stream: purse(`${n}`), fold: purseFold, assume: 'absent' } },
    } as never),
  )
  await until(() => calls.length > 0 && runner.queueLength() === 5, { what: 'a batch under way' })
  assert.deepEqual(calls, [3])
  door.open()
  await Promise.all(all)
  assert.deepEqual(calls, [3, 3, 2])
})

test('a batch is cut before its events exceed the byte limit, and the order stays', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { batchBytes: 5_000 } })
  const text = 'x'.repeat(2_000)
  await runner.run(move(a, 'start', 0))
  wire.sent.length = 0
  await Promise.all([1, 2, 3, 4, 5].map((n) => runner.run(move(a, `${n}`, 1, text))))
  assert.deepEqual(
    wire.sent.map(({ appends }) => appends.length),
    [2, 2, 1],
  )
  assert.deepEqual([...(await purseIn(wire, a)).moves.keySeq()].sort(), ['1', '2', '3', '4', '5', 'start'])
})

test('an exception in decide fails its own command only', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const broken = {
    ...move(a, 'broken', 1),
    decide: () => {
      throw new TypeError('a bug')
    },
  }
  const half = {
    ...pay(a, 'half', 1),
    decide: () => ({
      appends: [
        { stream: a, events: [{ type: 'Moved', data: { id: 'half', amount: 100 } }] },
        { stream: b, events: [{ type: 'Moved', data: { id: 'half', amount: 100 } }] },
      ],
      answer: 'moved' as const,
    }),
  }
  const [one, two, three, four] = await Promise.allSettled([
    runner.run(move(a, 'one', 1)),
    runner.run(broken),
    runner.run(half),
    runner.run(move(a, 'two', 1)),
  ])
  assert.equal(one!.status, 'fulfilled')
  assert.equal(four!.status, 'fulfilled')
  assert.ok(two!.status === 'rejected' && two.reason instanceof TypeError)
  assert.ok(three!.status === 'rejected' && /did not name/.test(three.reason.message))
  assert.equal((await purseIn(wire, a)).balance, 2)
})

test('an append above 1 MiB fails its own command only', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const [big, small] = await Promise.allSettled([
    runner.run(move(a, 'big', 1, 'x'.repeat(1_100_000))),
    runner.run(move(a, 'small', 1)),
  ])
  assert.ok(big!.status === 'rejected' && big.reason instanceof AppendRejected)
  assert.equal(small!.status, 'fulfilled')
  assert.equal(wire.sent.length, 1)
})

test('events carry actor and cause, and a time that never goes back within the streams of a command', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const times = [5_000_000, 4_996_000, 4_996_000]
  let now = 0
  const runner = runnerOver(wire, { clock: () => now })
  const actor = { kind: 'operator', name: 'ann' } as const
  for (const [n, time] of times.entries()) {
    now = time
    await runner.run({
      ...move(a, `${n}`, 1),
      correlationId: `request-${n}`,
      causationId: n === 0 ? 'cause' : null,
      actor,
    })
  }
  now = 4_997_000
  await runner.run(pay(a, 'late', 1))
  const later = runnerOver(elsewhere, { clock: () => 4_998_000 })
  await later.run(move(a, 'elsewhere', 1))
  const metadata = (await elsewhere.readAll(0, 100)).map((stored) => codec.decode(stored).metadata)
  assert.deepEqual(metadata[0], {
    correlationId: 'request-0',
    causationId: 'cause',
    actor,
    recordedAt: '1970-01-01T01:23:20.000Z',
  })
  assert.ok(metadata.every(({ recordedAt }) => recordedAt === '1970-01-01T01:23:20.000Z'))
  assert.equal(metadata[1]!.causationId, null)
})

test('after an event of the future a stream continues at its time, and decisions have the present time', async (t) => {
  const { wire } = await postgresWorld(t)
  let now = 5_000_000
  const runner = runnerOver(wire, { clock: () => now })
  await runner.run(move(a, 'ahead', 1))
  now -= 5_001
  const seen: number[] = []
  const noted = (command: ReturnType<typeof move>): typeof command => ({
    ...command,
    decide: (states, context) => {
      seen.push(context.nowMs)
      return command.decide(states, context)
    },
  })
  await runner.run(noted(move(a, 'behind', 1)))
  await runner.run(move(b, 'beside', 1))
  // Another process reads the stream from the log.
  await runnerOver(wire, { clock: () => now }).run(noted(move(a, 'behind too', 1)))
  now += 2
  await runner.run(noted(move(a, 'within the bound of clocks', 1)))
  // The last one is decided twice: the first process has not read the events of the second.
  assert.deepEqual(seen, [4_994_999, 4_994_999, 5_000_000, 5_000_000])
  const times = (await wire.readAll(0, 100)).map(({ stream, metadata }) => {
    const { recordedAt, decidedAt } = JSON.parse(metadata)
    return [stream === a ? 'a' : 'b', recordedAt, decidedAt]
  })
  assert.deepEqual(times, [
    ['a', '1970-01-01T01:23:20.000Z', undefined],
    ['a', '1970-01-01T01:23:20.000Z', '1970-01-01T01:23:14.999Z'],
    ['b', '1970-01-01T01:23:14.999Z', undefined],
    ['a', '1970-01-01T01:23:20.000Z', '1970-01-01T01:23:14.999Z'],
    ['a', '1970-01-01T01:23:20.000Z', undefined],
  ])
})

test('an event that reports a past fact with a future time fails only its command', async (t) => {
  const { wire } = await postgresWorld(t)
  const laterThan = ({ type }: { readonly type: string }, latest: string) =>
    type === 'Tomorrow' ? { field: 'at', at: latest } : null
  const runner = runnerOver(wire, { laterThan })
  const [says, beside] = await Promise.allSettled([
    runner.run({
      ...move(c, 'says', 1),
      decide: () => ({ appends: [{ stream: c, events: [{ type: 'Tomorrow', data: {} }] }], answer: null }),
    }),
    runner.run(move(b, 'beside', 1)),
  ])
  assert.ok(says!.status === 'rejected' && says.reason instanceof AppendRejected)
  assert.equal(beside!.status, 'fulfilled')
  assert.equal((await wire.readAll(0, 100)).length, 1)
})

test('a stream has one fold and one name in a command', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'one', 1))
  const other = { ...move(a, 'two', 1), streams: { purse: { stream: a, fold: noteFold } } }
  await assert.rejects(runner.run(other as never), /two folds/)
  const twice = {
    ...move(a, 'two', 1),
    streams: { one: { stream: a, fold: purseFold }, two: { stream: a, fold: purseFold } },
  }
  await assert.rejects(runner.run(twice as never), /twice/)
  assert.equal((await runner.run(move(a, 'two', 1))).answer, 'moved')
})

test('unused folds are cached up to the limits, and read again later', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { cacheStreams: 3 } })
  for (let n = 0; n < 10; n++) await runner.run(move(purse(`${n}`), 'x', n))
  assert.equal(runner.cachedStreams(), 3)
  const byEntries = runnerOver(wire, { limits: { cacheEntries: 4 } })
  for (let n = 0; n < 10; n++) await byEntries.run(move(purse(`${n}`), 'y', 1))
  assert.equal(byEntries.cachedStreams(), 1)
  assert.equal((await byEntries.run(move(purse('3'), 'z', -4))).answer, 'moved')
})

test('streams that are used once do not evict frequently used ones', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { cacheStreams: 50, cacheShortStreams: 2 } })
  for (const name of ['a', 'b', 'c']) await runner.run(move(purse(name), 'start', 100))
  for (let n = 0; n < 10; n++) await runner.run(pay(purse('a'), `order-${n}`, 1))
  assert.equal(runner.cachedStreams(), 3 + 2)
})

test('a record that exists makes its command a repeat, even if it was assumed absent', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  await runnerOver(elsewhere).run(move(a, 'start', 10))
  const paid = await runnerOver(elsewhere).run(pay(a, 'order', 4))
  const runner = runnerOver(wire)
  assert.deepEqual(await runner.run(pay(a, 'order', 4)), { answer: 'repeated', position: null })
  assert.equal(paid.answer, 'moved')
  assert.equal((await purseIn(wire, a)).balance, 6)
  assert.equal((await wire.lastOf(note('order')))!.revision, 0)
})
