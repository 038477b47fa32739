import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decideAdjustment,
  decideCapture,
  decideCredit,
  decideDebit,
  decideHold,
  decideRelease,
} from '../../../src/domain/ledger/decide.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { ledgerFold } from '../../../src/domain/ledger/fold.ts'
import type { OrderId } from '../../../src/kernel/ids.ts'
import fc from '../../support/fast-check.ts'
import { credited, ledgerAfter, orderOf, play, startMs, steps } from './support.ts'

const deposit = (reference: string, amountMicros: number) => ({
  source: 'deposit' as const,
  reference,
  gateway: 'stripe',
  depositId: 'dep_1',
  orderId: null,
  family: null,
  amountMicros,
})
const chargeback = (reference: string, amountMicros: number) => ({
  reference,
  reason: 'chargeback' as const,
  gateway: 'stripe',
  amountMicros,
})
const eventOf = (decision: { outcome: string; events?: readonly LedgerEvent[] }): LedgerEvent => {
  assert.equal(decision.outcome, 'decided')
  return decision.events![0]!
}
const refusalOf = <Refusal>(
  decision: { readonly outcome: 'decided' } | { readonly outcome: 'refused'; readonly refusal: Refusal },
): Refusal => {
  if (decision.outcome !== 'refused') throw new assert.AssertionError({ message: 'it was not refused' })
  return decision.refusal
}

test('an order is paid from the wallet and leaves the remaining balance', () => {
  const event = eventOf(
    decideDebit(
      ledgerAfter(credited(10_000_000)),
      { order: orderOf({ amountCents: 250 }), capCents: null },
      startMs,
    ),
  )
  assert.deepEqual(
    { type: event.type, amountMicros: event.data.amountMicros, left: event.data.availableAfterMicros },
    { type: 'WalletDebited', amountMicros: 2_500_000, left: 7_500_000 },
  )
})

test('a refusal for a short wallet has its balance, the amount and the shortfall in whole cents', () => {
  const state = ledgerAfter(credited(1_005_000))
  assert.deepEqual(
    refusalOf(decideDebit(state, { order: orderOf({ amountCents: 250 }), capCents: null }, startMs)),
    { code: 'insufficient_balance', balanceCents: 100, amountCents: 250, shortfallCents: 150 },
  )
})

test('the whole balance can be spent', () => {
  const state = ledgerAfter(credited(2_500_000))
  const event = eventOf(decideDebit(state, { order: orderOf({ amountCents: 250 }), capCents: null }, startMs))
  assert.equal(event.data.availableAfterMicros, 0)
})

test('a debited order is not debited again and the existing debit is returned', () => {
  const order = orderOf({ amountCents: 250 })
  const paid = eventOf(decideDebit(ledgerAfter(credited(10_000_000)), { order, capCents: null }, startMs))
  const state = ledgerAfter(credited(10_000_000), paid)
  assert.deepEqual(refusalOf(decideDebit(state, { order, capCents: null }, startMs)), {
    code: 'already_debited',
    amountMicros: 2_500_000,
    availableAfterMicros: 7_500_000,
    revision: 1,
  })
})

test('reaching the cap exactly is accepted and one cent more is refused', () => {
  const first = orderOf({ orderId: 'ord_a' as OrderId, amountCents: 600 })
  const rich = credited(100_000_000)
  const paid = eventOf(decideDebit(ledgerAfter(rich), { order: first, capCents: 1_000 }, startMs))
  const state = ledgerAfter(rich, paid)
  const next = (amountCents: number) =>
    decideDebit(
      state,
      { order: orderOf({ orderId: 'ord_b' as OrderId, amountCents }), capCents: 1_000 },
      startMs,
    )
  assert.equal(next(400).outcome, 'decided')
  assert.deepEqual(refusalOf(next(401)), {
    code: 'spend_cap_reached',
    capCents: 1_000,
    spentCents: 600,
    amountCents: 401,
  })
})

test('the cap is checked before the balance', () => {
  const order = orderOf({ amountCents: 5_000 })
  const refusal = refusalOf(decideDebit(ledgerFold.initial, { order, capCents: 100 }, startMs))
  assert.equal(refusal.code, 'spend_cap_reached')
})

test('a payment is credited once, and another provider may use the same payment id', () => {
  const first = eventOf(decideCredit(ledgerFold.initial, deposit('pi_1', 5_000_000)))
  const state = ledgerAfter(first)
  assert.deepEqual(refusalOf(decideCredit(state, deposit('pi_1', 9_000_000))), {
    code: 'already_applied',
    amountMicros: 5_000_000,
    availableAfterMicros: 5_000_000,
    revision: 0,
  })
  assert.equal(decideCredit(state, { ...deposit('pi_1', 1), gateway: 'btcpay' }).outcome, 'decided')
})

test('a chargeback takes the balance, the rest becomes a debt, and the next credit pays the debt first', () => {
  const taken = eventOf(decideAdjustment(ledgerAfter(credited(3_000_000)), chargeback('cb_1', -5_000_000)))
  const owing = ledgerAfter(credited(3_000_000), taken)
  assert.deepEqual(
    { available: owing.availableMicros, owed: owing.receivableMicros },
    { available: 0, owed: 2_000_000 },
  )
  const paid = eventOf(decideCredit(owing, deposit('pi_2', 2_500_000)))
  assert.ok(paid.type === 'WalletCredited')
  assert.deepEqual([paid.data.debtChangeMicros, paid.data.availableAfterMicros], [-2_000_000, 500_000])
})

test('an upward adjustment also pays the debt first', () => {
  const taken = eventOf(decideAdjustment(ledgerFold.initial, chargeback('cb_1', -5_000_000)))
  const given = eventOf(decideAdjustment(ledgerAfter(taken), chargeback('cb_1 won', 6_000_000)))
  const state = ledgerAfter(taken, given)
  assert.deepEqual([state.availableMicros, state.receivableMicros], [1_000_000, 0])
})

test('a correction never takes more than the balance', () => {
  const state = ledgerAfter(credited(1_000_000))
  const adjustment = {
    reference: 'fix',
    reason: 'correction' as const,
    gateway: null,
    amountMicros: -1_500_000,
  }
  assert.deepEqual(refusalOf(decideAdjustment(state, adjustment)), {
    code: 'insufficient_balance',
    balanceCents: 100,
    amountCents: 150,
    shortfallCents: 50,
  })
})

test('a hold reserves its money until it is released', () => {
  const hold = { holdId: 'h1', keyId: 'key_1', platform: 'tiktok', amountMicros: 30_000 }
  const rich = credited(30_000)
  const held = eventOf(decideHold(ledgerAfter(rich), hold))
  const holding = ledgerAfter(rich, held)
  assert.equal(refusalOf(decideHold(holding, { ...hold, holdId: 'h2' })).code, 'insufficient_balance')
  const released = eventOf(decideRelease(holding, { holdId: 'h1' }))
  assert.equal(ledgerAfter(rich, held, released).availableMicros, 30_000)
})

test('a hold of zero or less is a bug', () => {
  const hold = { holdId: 'h1', keyId: 'key_1', platform: 'tiktok' }
  for (const amountMicros of [0, -1])
    assert.throws(() => decideHold(ledgerAfter(credited(100)), { ...hold, amountMicros }), RangeError)
})

test('a hold is resolved once: a captured one is never released and its id cannot be reused', () => {
  const hold = { holdId: 'h1', keyId: 'key_1', platform: 'tiktok', amountMicros: 30_000 }
  const rich = credited(90_000)
  const held = eventOf(decideHold(ledgerAfter(rich), hold))
  const captured = eventOf(decideCapture(ledgerAfter(rich, held), { holdId: 'h1' }))
  const state = ledgerAfter(rich, held, captured)
  const resolved = { code: 'hold_resolved', resolution: 'captured' }
  assert.deepEqual(refusalOf(decideRelease(state, { holdId: 'h1' })), resolved)
  assert.deepEqual(refusalOf(decideCapture(state, { holdId: 'h1' })), resolved)
  assert.deepEqual(refusalOf(decideHold(state, hold)), resolved)
  assert.deepEqual(refusalOf(decideRelease(state, { holdId: 'h9' })), { code: 'unknown_hold' })
})

test('a zero amount is a bug', () => {
  for (const amountMicros of [0, -1, 0.5, Number.NaN])
    assert.throws(() => decideCredit(ledgerFold.initial, deposit('pi', amountMicros)), RangeError)
})

test('invariant: for any commands in any order no balance is below zero and money is conserved', () => {
  fc.assert(
    fc.property(steps, (list) => {
      let sum = 0n
      for (const { events, after } of play(list)) {
        for (const event of events) sum += signed(event)
        assert.ok(after.availableMicros >= 0 && after.heldMicros >= 0 && after.receivableMicros >= 0)
        const holds = [...after.holds.values()].reduce((total, hold) => total + hold.amountMicros, 0)
        assert.equal(after.heldMicros, holds)
        assert.equal(BigInt(after.availableMicros + after.heldMicros - after.receivableMicros), sum)
      }
    }),
  )
})

/** The change of the account by an event, computed independently of the code under test. */
const signed = (event: LedgerEvent): bigint => {
  if (event.type === 'CustomerCharged') return BigInt(-event.data.costMicros)
  if (event.type === 'CustomerRefunded') return BigInt(event.data.costMicros)
  const amount = BigInt(event.data.amountMicros)
  if (event.type === 'WalletCredited' || event.type === 'WalletAdjusted') return amount
  return event.type === 'WalletDebited' || event.type === 'HoldCaptured' ? -amount : 0n
}

test('invariant: repeating a command within seven days changes nothing', () => {
  fc.assert(
    fc.property(steps, (list) => {
      for (const { step, decision, after, nowMs } of play(list)) {
        if (decision.outcome === 'refused') continue
        const again = play([
          ...list.slice(0, list.indexOf(step) + 1),
          { afterMs: 0, command: step.command },
        ]).at(-1)!
        assert.equal(again.nowMs, nowMs)
        assert.equal(again.after, again.before)
        assert.equal(again.before.availableMicros, after.availableMicros)
      }
    }),
    { numRuns: 25 },
  )
})

test('invariant: a refusal for the balance is correct, and every other amount fits', () => {
  fc.assert(
    fc.property(steps, (list) => {
      for (const { step, before, decision } of play(list)) {
        if (step.command.kind !== 'debit' && step.command.kind !== 'hold') continue
        const amount =
          step.command.kind === 'debit' ? step.command.amountCents * 10_000 : step.command.amountMicros
        if (decision.outcome === 'decided') assert.ok(amount <= before.availableMicros)
        else if (decision.refusal.code === 'insufficient_balance') {
          assert.ok(amount > before.availableMicros)
          const { balanceCents, amountCents, shortfallCents } = decision.refusal
          assert.equal(balanceCents + shortfallCents, amountCents)
        }
      }
    }),
  )
})

test('invariant: the cap is never exceeded in any 24 hours, and is at most a minute too strict', () => {
  const dayMs = 24 * 60 * 60 * 1000
  fc.assert(
    fc.property(steps, (list) => {
      const spends: { keyId: string; atMs: number; cents: number }[] = []
      const rich = {
        afterMs: 0,
        command: { kind: 'credit', source: 'manual', reference: 'seed', amountMicros: 10 ** 12 },
      } as const
      const payment = { kind: 'customer-credit', customerId: 'cus_0', reference: 'seed' } as const
      const credit = { afterMs: 0, command: { ...payment, amountMicros: 10 ** 12 } } as const
      for (const { step, decision, nowMs } of play([rich, credit, ...list])) {
        const { command } = step
        if (command.kind !== 'debit' && command.kind !== 'customer-charge') continue
        const { keyId, capCents } = command
        if (keyId === null) continue
        const amountCents = command.kind === 'debit' ? command.amountCents : command.costCents
        const spentSince = (sinceMs: number) =>
          spends
            .filter((spend) => spend.keyId === keyId && spend.atMs >= sinceMs)
            .reduce((sum, { cents }) => sum + cents, 0)
        if (decision.outcome === 'decided') {
          if (capCents !== null) assert.ok(spentSince(nowMs - dayMs) + amountCents <= capCents)
          spends.push({ keyId, atMs: nowMs, cents: amountCents })
        } else if (decision.refusal.code === 'spend_cap_reached')
          assert.ok(spentSince(nowMs - dayMs - 60_000) + amountCents > capCents!)
      }
    }),
    { numRuns: 300 },
  )
})
