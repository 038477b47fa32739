import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ledgerFold, spentMicros } from '../../../src/domain/ledger/fold.ts'
import { movementKey, recallMovement } from '../../../src/domain/ledger/movements.ts'
import { rememberedCount, rememberedMs } from '../../../src/kernel/recent-ids.ts'
import fc from '../../support/fast-check.ts'
import { decideCommand, play, type Step, startMs, steps, walletCommand } from './support.ts'

const { toText, fromText } = ledgerFold.snapshot!

test('invariant: a wallet restored from its snapshot decides and folds like the original', () => {
  fc.assert(
    fc.property(steps, fc.array(walletCommand, { maxLength: 20, size: 'max' }), (list, more) => {
      const last = play(list).at(-1)
      if (!last) return
      const restored = fromText(toText(last.after))
      assert.equal(toText(restored), toText(last.after))
      assert.equal(ledgerFold.snapshot!.entries(restored), ledgerFold.snapshot!.entries(last.after))
      let left = last.after
      let right = restored
      let nowMs = last.nowMs
      for (const command of more) {
        nowMs += 3_600_000
        const decision = decideCommand(left, command, nowMs)
        assert.deepEqual(decideCommand(right, command, nowMs), decision)
        if (decision.outcome === 'refused') continue
        const event = { ...decision.events[0], revision: 1_000, recordedAtMs: nowMs }
        left = ledgerFold.evolve(left, event)
        right = ledgerFold.evolve(right, event)
      }
      assert.equal(toText(right), toText(left))
    }),
  )
})

test('folding an event does not change the state before it', () => {
  fc.assert(
    fc.property(steps, (list) => {
      for (const { before, after, events } of play(list)) {
        if (events.length === 0) continue
        const image = toText(before)
        assert.notEqual(toText(after), image)
        assert.equal(toText(before), image)
      }
    }),
    { numRuns: 30 },
  )
})

const debits = (count: number, everyMs: number): Step[] => [
  { afterMs: 0, command: { kind: 'credit', source: 'manual', reference: 'seed', amountMicros: 10 ** 12 } },
  ...Array.from(
    { length: count },
    (_, n): Step => ({
      afterMs: everyMs,
      command: { kind: 'debit', orderId: `ord_${n}`, keyId: `key_${n % 3}`, amountCents: 1, capCents: null },
    }),
  ),
]

test('an old wallet stores seven days of movements and a day of minutes, no more', () => {
  const everyMs = 10 * 60_000
  const { after } = play(debits(3_000, everyMs)).at(-1)!
  const left = rememberedCount(after.movements)
  assert.ok(left <= rememberedMs / everyMs + 2, `${left} movements`)
  assert.ok(after.spend.queue.size <= 24 * 6 + 2, `${after.spend.queue.size} minutes`)
  const seed = { source: 'manual', gateway: 'manual', reference: 'seed' }
  assert.equal(recallMovement(after, movementKey.credit(seed)), undefined)
  assert.ok(recallMovement(after, movementKey.debit('ord_2999')))
})

test('debits of one minute share a bucket', () => {
  const { after } = play(debits(500, 100)).at(-1)!
  assert.ok(after.spend.queue.size <= 6, `${after.spend.queue.size} buckets`)
})

test('a minute counts until it is completely older than 24 hours', () => {
  const minuteMs = 60_000
  const dayMs = 24 * 60 * minuteMs
  const list = debits(1, 30_000)
  const { after, nowMs } = play(list).at(-1)!
  assert.equal(nowMs, startMs + 30_000)
  assert.equal(spentMicros(after.spend, 'key_0', startMs + dayMs + minuteMs - 1), 10_000)
  assert.equal(spentMicros(after.spend, 'key_0', startMs + dayMs + minuteMs), 0)
})

test('a key that stops spending leaves no state', () => {
  const hourMs = 3_600_000
  const list = debits(3, 1000)
  const later: Step[] = Array.from({ length: 4 }, (_, n) => ({
    afterMs: 30 * hourMs,
    command: { kind: 'credit', source: 'manual', reference: `later_${n}`, amountMicros: 1 },
  }))
  assert.equal(play([...list, ...later]).at(-1)!.after.spend.windows.size, 0)
})

test('an event that no decision can have produced stops the fold', () => {
  const at = { revision: 0, recordedAtMs: startMs }
  const held = { holdId: 'h', keyId: null, platform: 'x', amountMicros: 5, availableAfterMicros: 0 }
  assert.throws(
    () => ledgerFold.evolve(ledgerFold.initial, { type: 'FundsHeld', data: held, ...at }),
    RangeError,
  )
  assert.throws(
    () =>
      ledgerFold.evolve(ledgerFold.initial, {
        type: 'HoldReleased',
        data: { ...held, availableAfterMicros: 5 },
        ...at,
      }),
    RangeError,
  )
  const [seed] = play(debits(0, 0))
  const event = seed!.events[0]!
  assert.throws(() => ledgerFold.evolve(seed!.after, { ...event, ...at }), /says .* the fold says/)
})
