import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamRef } from '../../../src/kernel/decider.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import type { Command } from '../../../src/platform/commands/command.ts'
import { until } from '../../support/until.ts'
import { move, note, type Purse, pay, purse, purseFold, purseIn, runnerOver, type Verdict } from './purse.ts'
import { gate, postgresWorld, unknownOutcomes } from './world.ts'

const a = purse('a')

test('a wallet that an operator just credited elsewhere is not refused by an old fold', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const server = runnerOver(wire)
  assert.equal((await server.run(move(a, 'spend', -5))).answer, 'short')
  const operator = runnerOver(elsewhere)
  await operator.run(move(a, 'credit', 5))
  assert.equal((await server.run(move(a, 'spend', -5))).answer, 'moved')
})

test('a refusal is answered only after a log read that began after the command arrived', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'start', 1))
  wire.reads = 0
  assert.equal((await runner.run(move(a, 'one', -5))).answer, 'short')
  assert.equal(wire.reads, 1)
  assert.equal((await runner.run(move(a, 'start', 1))).answer, 'repeated')
  assert.equal(wire.reads, 2)
})

test('a read that began before the command arrived is too old for its refusal', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'start', 1))
  const door = gate()
  let held = 0
  wire.onReadStreams = async (tails) => {
    const events = await elsewhere.readStreams(tails)
    if (held++ === 0) await door.passed
    return events
  }
  const early = runner.run(move(a, 'early', -5))
  await until(() => held === 1)
  await runnerOver(elsewhere).run(move(a, 'credit', 10))
  const late = runner.run(move(a, 'late', -5))
  door.open()
  assert.equal((await late).answer, 'moved')
  assert.ok(['short', 'moved'].includes((await early).answer))
})

test('the tails of all refused commands are read at once', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const purses = Array.from({ length: 20 }, (_, n) => purse(`${n}`))
  await Promise.all(purses.map((stream) => runner.run(move(stream, 'start', 1))))
  wire.reads = 0
  const outcomes = await Promise.all(purses.map((stream) => runner.run(move(stream, 'spend', -5))))
  assert.ok(outcomes.every(({ answer }) => answer === 'short'))
  assert.equal(wire.reads, 1)
})

test('a refusal waits for the decisions that it depends on, and is decided again if they fail', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'start', 5))
  // The debit that leaves the second command short never lands: another process takes its place.
  const operator = runnerOver(elsewhere)
  let first = true
  wire.onAppendAll = async (items, send) => {
    if (first) {
      first = false
      await operator.run(move(a, 'taken', -3))
    }
    return send(items)
  }
  const order: string[] = []
  const [debit, dependent] = await Promise.all([
    runner.run(move(a, 'debit', -5)).finally(() => order.push('debit')),
    runner.run(move(a, 'small', -2)).finally(() => order.push('small')),
  ])
  assert.equal(debit.answer, 'short')
  assert.equal(dependent.answer, 'moved')
  assert.equal((await purseIn(wire, a)).balance, 0)
})

test('a refusal that depends on an append with a lost answer waits for its outcome', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire, { limits: { unknownOutcomeWaitMs: 5_000, resendFirstMs: 10 } })
  await runner.run(move(a, 'start', 5))
  const door = gate()
  let lost = 0
  wire.onAppendAll = async (items, send) => {
    if (lost++ === 0) return unknownOutcomes(items)
    await door.passed
    return send(items)
  }
  let answered = false
  const debit = runner.run(move(a, 'debit', -5))
  const short = runner.run(move(a, 'short', -1)).finally(() => {
    answered = true
  })
  await until(() => lost === 2)
  assert.equal(answered, false)
  door.open()
  assert.equal((await debit).answer, 'moved')
  assert.equal((await short).answer, 'short')
})

test('a landed append counts as a read of the log: a repeat of a command in the same batch is answered without a read', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  await runner.run(move(a, 'start', 5))
  wire.reads = 0
  const outcomes = await Promise.all([runner.run(pay(a, 'order', 2)), runner.run(pay(a, 'order', 2))])
  assert.deepEqual(
    outcomes.map(({ answer }) => answer),
    ['moved', 'repeated'],
  )
  assert.equal(wire.reads, 0)
})

test('an append proves nothing about other streams that a refusal read', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const b = purse('b')
  await Promise.all([runner.run(move(a, 'start', 10)), runner.run(move(b, 'start', 1))])
  await runnerOver(elsewhere).run(move(b, 'credit', 5))
  const both: Command<Record<'a' | 'b', StreamRef<Purse>>, Verdict> = {
    ...move(a, 'both', -5),
    streams: { a: { stream: a, fold: purseFold }, b: { stream: b, fold: purseFold } },
    decide: (states) =>
      states.b.balance < 5
        ? { appends: [], answer: 'short' }
        : {
            appends: [{ stream: b, events: [{ type: 'Moved', data: { id: 'both', amount: -5 } }] }],
            answer: 'moved',
          },
  }
  const [, outcome] = await Promise.all([runner.run(move(a, 'beside', -1)), runner.run(both)])
  assert.equal(outcome.answer, 'moved')
})

test('a stream assumed absent is read before anything is refused', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const operator = runnerOver(elsewhere)
  await operator.run(move(a, 'start', 5))
  await operator.run(pay(a, 'order', 5))
  // The purse is empty: without a read of the order the answer would be `short`.
  const runner = runnerOver(wire)
  assert.equal((await runner.run(pay(a, 'order', 5))).answer, 'repeated')
})

/** Moves `a` by one as long as `b` has at least 5; `b` is only read. */
const whileRich = (b: StreamName, id: string): Command<Record<'a' | 'b', StreamRef<Purse>>, Verdict> => ({
  ...move(a, id, 1),
  streams: { a: { stream: a, fold: purseFold }, b: { stream: b, fold: purseFold } },
  decide: (states) =>
    states.b.balance < 5
      ? { appends: [], answer: 'short' }
      : { appends: [{ stream: a, events: [{ type: 'Moved', data: { id, amount: 1 } }] }], answer: 'moved' },
})

test('a stream that a command only reads is read before anything is written', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const b = purse('b')
  await runner.run(move(b, 'start', 5))
  assert.equal((await runner.run(whileRich(b, 'one'))).answer, 'moved')
  await runnerOver(elsewhere).run(move(b, 'spend', -1))
  assert.equal((await runner.run(whileRich(b, 'two'))).answer, 'short')
  assert.equal((await purseIn(elsewhere, a)).balance, 1)
})

test('writes of the same batch cause no reads for commands that only read the stream', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const b = purse('b')
  await Promise.all([runner.run(move(a, 'start', 5)), runner.run(move(b, 'start', 4))])
  wire.reads = 0
  const [, looked] = await Promise.all([runner.run(move(b, 'credit', 1)), runner.run(whileRich(b, 'x'))])
  assert.equal(looked.answer, 'moved')
  assert.equal(wire.reads, 0)
})

test('an absence that no append checks is verified before anything is written', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  await runnerOver(elsewhere).run(move(a, 'start', 5))
  await runnerOver(elsewhere).run(pay(a, 'order', 5))
  const runner = runnerOver(wire)
  const unless = {
    ...pay(a, 'order', 5),
    decide: ({ order }: { order: { written: boolean } }) =>
      order.written
        ? { appends: [], answer: 'repeated' as const }
        : {
            appends: [{ stream: a, events: [{ type: 'Moved', data: { id: 'x', amount: 1 } }] }],
            answer: 'moved' as const,
          },
  }
  assert.equal((await runner.run(unless)).answer, 'repeated')
  const fresh = {
    ...unless,
    streams: { ...unless.streams, order: { ...unless.streams.order, stream: note('new') } },
  }
  assert.equal((await runner.run(fresh)).answer, 'moved')
  assert.equal(purseFold.initial.balance, 0)
})
