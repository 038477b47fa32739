import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CommandOverload } from '../../../src/platform/commands/command.ts'
import { guardAppends } from '../../../src/platform/eventstore/append-guards.ts'
import { AppendRejected } from '../../../src/platform/eventstore/errors.ts'
import type { AppendItem, ItemOutcome } from '../../../src/platform/eventstore/port.ts'
import { until } from '../../support/until.ts'
import { move, pay, purse, purseIn, runnerOver } from './purse.ts'
import { gate, postgresWorld, unavailableOutcomes, unknownOutcomes } from './world.ts'

const a = purse('a')
const b = purse('b')
const overloaded = (error: unknown): boolean => error instanceof CommandOverload && error.retryAfterS >= 1

test('an append without an answer is sent again byte for byte until its outcome is known: it had landed', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { resendFirstMs: 5 } })
  await runner.run(move(a, 'start', 10))
  wire.sent.length = 0
  let sends = 0
  wire.onAppendAll = async (items, send) => {
    sends++
    if (sends === 1) await send(items)
    return sends <= 3 ? (sends === 2 ? unavailableOutcomes(items) : unknownOutcomes(items)) : send(items)
  }
  const outcome = await runner.run(pay(a, 'order', 4))
  assert.deepEqual(outcome, { answer: 'moved', position: 3 })
  assert.equal(sends, 4)
  for (const item of wire.sent) assert.deepEqual(item, wire.sent[0])
  assert.equal((await purseIn(wire, a)).balance, 6)
  assert.equal((await runner.run(move(a, 'spend', -6))).answer, 'moved')
})

test('an append without an answer that had not landed is decided again, with new ids', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { resendFirstMs: 5 } })
  await runner.run(move(a, 'start', 10))
  wire.sent.length = 0
  let first = true
  wire.onAppendAll = async (items, send) => {
    if (!first) return send(items)
    first = false
    await runnerOver(elsewhere).run(move(a, 'elsewhere', -8))
    return unknownOutcomes(items)
  }
  assert.equal((await runner.run(move(a, 'spend', -2))).answer, 'moved')
  assert.equal(wire.sent.length, 3)
  assert.deepEqual(wire.sent[1], wire.sent[0])
  assert.notEqual(wire.sent[2]!.appends[0]!.events[0]!.id, wire.sent[0]!.appends[0]!.events[0]!.id)
  assert.equal((await purseIn(wire, a)).balance, 0)
})

test('while an outcome is unknown its clients and later ones get 503 after a bounded wait, other streams continue', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, {
    limits: { unknownOutcomeWaitMs: 200, resendFirstMs: 5, resendMaxMs: 20 },
  })
  await Promise.all([runner.run(move(a, 'start', 10)), runner.run(move(b, 'start', 10))])
  const isA = ({ appends }: AppendItem): boolean => appends.some(({ stream }) => stream === a)
  let lost = true
  wire.onAppendAll = async (items, send) => {
    const outcomes = await send(items)
    return items.map((item, at) => (lost && isA(item) ? unknownOutcomes([item])[0]! : outcomes[at]!))
  }
  const [frozen, beside] = await Promise.allSettled([
    runner.run(move(a, 'x', -3)),
    runner.run(move(b, 'x', -3)),
  ])
  assert.equal(beside!.status, 'fulfilled')
  assert.ok(frozen!.status === 'rejected' && overloaded(frozen!.reason))
  assert.equal(runner.unknownOutcomes(), 1)
  await assert.rejects(runner.run(move(a, 'later', -3)), overloaded)
  assert.equal((await runner.run(move(b, 'later', -3))).answer, 'moved')
  const sentForA = wire.sent.filter((item) => isA(item)).slice(1)
  for (const item of sentForA.slice(1)) assert.deepEqual(item, sentForA[0])
  lost = false
  await until(() => runner.unknownOutcomes() === 0)
  // Their retries converge: the first one landed, the second one was never decided.
  assert.equal((await runner.run(move(a, 'x', -3))).answer, 'repeated')
  assert.equal((await runner.run(move(a, 'later', -3))).answer, 'moved')
  assert.equal((await purseIn(wire, a)).balance, 4)
  assert.equal(runner.queueLength(), 0)
})

test('an append that is never answered counts as one with a lost answer', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { appendTimeoutMs: 50, resendFirstMs: 5 } })
  let first = true
  wire.onAppendAll = async (items, send) => {
    if (!first) return send(items)
    first = false
    await send(items)
    return new Promise<never>(() => undefined)
  }
  assert.equal((await runner.run(move(a, 'x', 1))).answer, 'moved')
  assert.equal((await purseIn(wire, a)).balance, 1)
})

test('an exception of an adapter does not prove that nothing was written', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { resendFirstMs: 5 } })
  let first = true
  wire.onAppendAll = async (items, send) => {
    const outcomes = await send(items)
    if (!first) return outcomes
    first = false
    throw new Error('a bug after the commit')
  }
  assert.deepEqual(await runner.run(move(a, 'x', 1)), { answer: 'moved', position: 1 })
})

test('an unreachable log causes 503, for appends and for reads, and recovery needs no action', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const reasons: string[] = []
  const runner = runnerOver(wire, { metrics: { onOverload: (reason) => reasons.push(reason) } })
  await runner.run(move(a, 'start', 10))
  wire.onAppendAll = async (items) => unavailableOutcomes(items)
  wire.onReadStreams = async () => {
    throw new Error('no connection')
  }
  await assert.rejects(runner.run(move(a, 'x', -1)), overloaded)
  await assert.rejects(runner.run(move(a, 'y', -100)), overloaded)
  await assert.rejects(runner.run(move(b, 'y', 1)), overloaded)
  assert.deepEqual(reasons, ['unavailable', 'unavailable', 'unavailable'])
  wire.onAppendAll = (items, send) => send(items)
  wire.onReadStreams = elsewhere.readStreams
  assert.equal((await runner.run(move(a, 'x', -1))).answer, 'moved')
  assert.equal((await runner.run(move(b, 'y', 1))).answer, 'moved')
  assert.equal((await purseIn(wire, a)).balance, 9)
})

test('a batch that the database refuses fails only the faulty command', async (t) => {
  const { wire, pool } = await postgresWorld(t)
  // The refusal is the database's own: a rule that the adapter knows nothing of.
  await pool.query(`alter table log.events add constraint no_poison check (data not like '%poison%')`)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'start', 10))
  const ids = ['one', 'two', 'poison', 'three']
  const outcomes = await Promise.allSettled([
    ...ids.map((id) => runner.run(move(a, id, -1))),
    runner.run(move(b, 'beside', 1)),
    runner.run(move(b, 'poison too', 1)),
  ])
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value.answer : outcome.reason.name)),
    ['moved', 'moved', 'AppendRejected', 'moved', 'moved', 'AppendRejected'],
  )
  assert.ok(outcomes[2]!.status === 'rejected' && outcomes[2]!.reason instanceof AppendRejected)
  assert.equal((await purseIn(wire, a)).balance, 7)
  assert.equal((await runner.run(move(a, 'four', -1))).answer, 'moved')
})

test('a stream that cannot be folded fails its own commands only', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const event = { id: '01890000-0000-7000-8000-000000000000', type: 'Moved', data: 'no json', metadata: '{}' }
  await elsewhere.append(a, 'noStream', [event])
  const runner = runnerOver(wire)
  const [broken, fine] = await Promise.allSettled([runner.run(move(a, 'x', 1)), runner.run(move(b, 'x', 1))])
  assert.ok(broken!.status === 'rejected' && broken!.reason instanceof SyntaxError)
  assert.equal(fine!.status, 'fulfilled')
})

test('an adapter with a wrong answer fails the commands of that item, not the runner', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  wire.onAppendAll = async (items) => items.map((): ItemOutcome => ({ status: 'landed', appended: [] }))
  await assert.rejects(runner.run(move(a, 'x', 1)), /reported 0 appends of an item that has 1/)
  wire.onAppendAll = (items, send) => send(items)
  assert.equal((await runner.run(move(a, 'x', 1))).answer, 'moved')
})

test('the queue is bounded, and so is the wait in it', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { queueLength: 5, queueWaitMs: 150, batchCommands: 1 } })
  await runner.run(move(a, 'start', 0))
  const door = gate()
  wire.onAppendAll = async (items, send) => {
    await door.passed
    return send(items)
  }
  const inFlight = runner.run(move(a, 'in flight', 1))
  await until(() => wire.sent.length === 2)
  const startedMs = performance.now()
  const waiting = Array.from({ length: 5 }, (_, n) => runner.run(move(a, `${n}`, 1)))
  const late = Promise.all(waiting.map((each) => assert.rejects(each, overloaded)))
  await assert.rejects(runner.run(move(a, 'one too many', 1)), overloaded)
  await late
  assert.ok(performance.now() - startedMs < 20_000)
  door.open()
  assert.equal((await inFlight).answer, 'moved')
  assert.equal((await purseIn(wire, a)).balance, 1)
})

test('closing finishes waiting and running commands, then refuses new ones', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { batchCommands: 2 } })
  const all = Array.from({ length: 7 }, (_, n) => runner.run(move(a, `${n}`, 1)))
  const closing = runner.close()
  await assert.rejects(runner.run(move(a, 'late', 1)), overloaded)
  await closing
  assert.ok((await Promise.all(all)).every(({ answer }) => answer === 'moved'))
  assert.equal((await purseIn(wire, a)).balance, 7)
})

test('closing has a time limit for an outcome that stays unknown', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { closeMs: 100, resendFirstMs: 5, resendMaxMs: 10 } })
  wire.onAppendAll = async (items) => unknownOutcomes(items)
  const stuck = assert.rejects(runner.run(move(a, 'x', 1)), overloaded)
  await until(() => runner.unknownOutcomes() === 1)
  const behind = assert.rejects(runner.run(move(a, 'y', 1)), overloaded)
  await runner.close()
  await Promise.all([stuck, behind])
  const sends = wire.sent.length
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal(wire.sent.length, sends)
})

test('crash points are named in the order in which they are passed', async (t) => {
  const { wire } = await postgresWorld(t)
  const points: string[] = []
  const runner = runnerOver(wire, { hooks: { at: (point) => points.push(point) } })
  await runner.run(move(a, 'x', 1))
  assert.deepEqual(points, ['before-append', 'after-append', 'before-answer'])
})

for (const landed of [true, false])
  test(`an append with a lost answer while the clocks were ahead, and that ${landed ? 'had landed' : 'had not'}, is resolved once they are right`, async (t) => {
    const { wire } = await postgresWorld(t)
    let nowMs = 1_000_000_000_000
    const guarded = guardAppends(wire, { clock: () => nowMs, problem: () => null })
    const runner = runnerOver(guarded, { clock: () => nowMs, limits: { resendFirstMs: 5 } })
    await runner.run(move(a, 'start', 10))
    nowMs += 86_400_000
    let first = true
    wire.onAppendAll = async (items, send) => {
      if (!first) return send(items)
      first = false
      if (landed) await send(items)
      nowMs -= 86_400_000
      return unknownOutcomes(items)
    }
    assert.equal((await runner.run(pay(a, 'order', 4))).answer, 'moved')
    assert.equal(runner.unknownOutcomes(), 0)
    assert.equal((await purseIn(wire, a)).balance, 6)
    assert.equal((await runner.run(pay(a, 'order', 4))).answer, 'repeated')
  })
