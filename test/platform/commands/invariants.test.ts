import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newEventId } from '../../../src/kernel/ids.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { CommandOverload } from '../../../src/platform/commands/command.ts'
import { WrongExpectedRevision } from '../../../src/platform/eventstore/errors.ts'
import type {
  Appended,
  AppendItem,
  EventLog,
  ItemOutcome,
  StoredEvent,
} from '../../../src/platform/eventstore/port.ts'
import fc from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { codec, move, note, pay, purse, purseIn, runnerOver, type Verdict } from './purse.ts'
import { type WiredLog, wired } from './world.ts'

/** What may befall an item on its way. */
const faults = [
  'none',
  'none',
  'none',
  'lost before',
  'lost after',
  'unavailable',
  'foreign write',
  'prefix unknown',
  'prefix unavailable',
  'prefix and foreign write',
] as const
type Fault = (typeof faults)[number]

const purses = ['a', 'b', 'c'].map(purse)

type Wish = {
  readonly kind: 'move' | 'pay'
  readonly at: number
  readonly id: number
  readonly amount: number
  readonly afterTurns: number
}

const wishes = fc.array(
  fc.record({
    kind: fc.constantFrom('move', 'pay'),
    at: fc.nat(purses.length - 1),
    id: fc.nat(12),
    amount: fc.integer({ min: -6, max: 6 }),
    afterTurns: fc.nat(6),
  }),
  { minLength: 1, maxLength: 60 },
)
const script = fc.array(fc.record({ fault: fc.constantFrom(...faults), cut: fc.nat(4) }), { maxLength: 30 })

const cause = new Error('a fault of the test')

/** Another process credits the last purse of the item, so that a decision on it conflicts. */
const writeElsewhere = async (log: EventLog, { appends }: AppendItem): Promise<void> => {
  const stream = appends.findLast((append) => purses.includes(append.stream))?.stream
  if (stream === undefined) return
  const last = await log.lastOf(stream)
  const metadata = {
    correlationId: 'elsewhere',
    causationId: null,
    actor: { kind: 'system', name: 'x' },
    recordedAt: new Date().toISOString(),
  } as const
  const id = newEventId()
  const event = codec.encode({ type: 'Moved', data: { id, amount: 1 } }, metadata)
  await log.append(stream, last?.revision ?? 'noStream', [{ ...event, id }])
}

/** Appends one by one, at most `cut` of them: a log without transactions over streams. */
const writePrefix = async (
  log: EventLog,
  { appends }: AppendItem,
  cut: number,
): Promise<{ readonly landed: Appended[]; readonly conflict?: ItemOutcome }> => {
  const landed: Appended[] = []
  for (const { stream, expected, events } of appends.slice(0, cut)) {
    try {
      landed.push(await log.append(stream, expected, events))
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error
      return { landed, conflict: { status: 'conflict', stream, actual: error.actual, landed } }
    }
  }
  return { landed }
}

const befall = async (log: EventLog, item: AppendItem, fault: Fault, cut: number): Promise<ItemOutcome> => {
  const whole = async (): Promise<ItemOutcome> => {
    const { landed, conflict } = await writePrefix(log, item, item.appends.length)
    return conflict ?? { status: 'landed', appended: landed }
  }
  switch (fault) {
    case 'none':
      return whole()
    case 'lost before':
      return { status: 'unknown', cause, landed: [] }
    case 'lost after':
      await whole()
      return { status: 'unknown', cause, landed: [] }
    case 'unavailable':
      return { status: 'unavailable', cause, landed: [] }
    case 'foreign write':
      await writeElsewhere(log, item)
      return whole()
    case 'prefix unknown':
    case 'prefix unavailable': {
      const { landed, conflict } = await writePrefix(log, item, cut % item.appends.length)
      return conflict ?? { status: fault === 'prefix unknown' ? 'unknown' : 'unavailable', cause, landed }
    }
    case 'prefix and foreign write': {
      const { conflict } = await writePrefix(log, item, cut % item.appends.length)
      if (conflict !== undefined) return conflict
      await writeElsewhere(log, item)
      return whole()
    }
    default:
      return fault satisfies never
  }
}

const turns = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n++) await new Promise((resolve) => setImmediate(resolve))
}

/** The balance of a purse after each of its events, with the position of each. */
const historyOf = (all: readonly StoredEvent[], stream: StreamName) => {
  let balance = 0
  return all
    .filter((stored) => stored.stream === stream)
    .map((stored) => {
      const { id, amount } = codec.decode(stored).data as { id: string; amount: number }
      balance += amount
      return { id, balance, position: stored.position }
    })
}

/** Sends the wish again as a client does, under the same id, and checks what every answer rests on. */
const grant = async (log: WiredLog, runner: ReturnType<typeof runnerOver>, wish: Wish): Promise<string> => {
  const stream = purses[wish.at]!
  const id = `${wish.kind}-${wish.at}-${wish.id}`
  const amount = wish.kind === 'pay' ? Math.abs(wish.amount) : wish.amount
  const command = wish.kind === 'pay' ? pay(stream, id, amount) : move(stream, id, amount)
  await turns(wish.afterTurns)
  for (;;) {
    const headBefore = await log.head()
    let outcome: { answer: Verdict; position: number | null }
    try {
      outcome = await runner.run(command as ReturnType<typeof pay>)
    } catch (error) {
      assert.ok(error instanceof CommandOverload, String(error))
      await turns(5)
      continue
    }
    const all = await log.readAll(0, 1_000_000)
    const history = historyOf(all, stream)
    if (outcome.answer === 'short') {
      const needed = wish.kind === 'pay' ? amount : -amount
      const seen = [0, ...history.map(({ balance }) => balance)].slice(
        history.filter(({ position }) => position <= headBefore).length,
      )
      assert.ok(
        seen.some((balance) => balance < needed),
        `${id} was refused on a balance that the log never had meanwhile`,
      )
      return outcome.answer
    }
    assert.equal(
      history.filter((each) => each.id === id).length,
      1,
      `${id}: ${outcome.answer}, so it is in the log once`,
    )
    if (wish.kind === 'pay') assert.equal((await log.lastOf(note(id)))?.revision, 0)
    if (outcome.answer === 'moved') assert.ok(all.some(({ position }) => position === outcome.position))
    else assert.equal(outcome.position, null)
    return outcome.answer
  }
}

const play = async (
  wanted: readonly Wish[],
  played: readonly { fault: Fault; cut: number }[],
  batchesInFlight: number,
): Promise<void> => {
  const log = wired(createMemoryLog())
  const runner = runnerOver(log, {
    limits: {
      batchesInFlight,
      batchCommands: 7,
      batchBytes: 2_000,
      resendFirstMs: 1,
      resendMaxMs: 2,
      unknownOutcomeWaitMs: 4,
      contendedMs: 3,
    },
  })
  const next = played.values()
  log.onAppendAll = async (items, _send) => {
    await turns(1)
    const outcomes: ItemOutcome[] = []
    for (const item of items) {
      const { fault, cut } = next.next().value ?? { fault: 'none', cut: 0 }
      outcomes.push(await befall(log, item, fault, cut))
    }
    return outcomes
  }
  let reads = 0
  const readStreams = log.onReadStreams
  log.onReadStreams = (tails) => {
    if (++reads % 7 === 0) throw new Error('a read that failed')
    return readStreams(tails)
  }
  const answers = await Promise.all(wanted.map((wish) => grant(log, runner, wish)))
  assert.equal(answers.length, wanted.length)
  log.onReadStreams = readStreams

  const ids = new Set<string>()
  for (const stream of purses) {
    const inLog = await purseIn(log, stream)
    for (const { id, balance } of historyOf(await log.readAll(0, 1_000_000), stream)) {
      assert.ok(balance >= 0, 'no purse is ever below zero')
      assert.ok(!ids.has(id), `${id} is in the log once`)
      ids.add(id)
    }
    const peek = {
      ...move(stream, 'peek', 0),
      decide: ({ purse: state }: never) => ({ appends: [], answer: state }),
    }
    const { answer } = await runner.run(peek as never)
    assert.deepEqual(answer, inLog, 'the fold that the runner holds is the fold of the log')
  }
  await runner.close()
  assert.equal(runner.unknownOutcomes() + runner.queueLength(), 0)
}

test('under any faults an answered command is in the log once, and depends only on landed events', async () => {
  const numRuns = Number(process.env.FAREBOX_TEST_RUNS ?? 150)
  await fc.assert(fc.asyncProperty(wishes, script, fc.integer({ min: 1, max: 3 }), play), { numRuns })
})
