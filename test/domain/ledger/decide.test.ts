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
import { type LedgerState, ledgerFold } from '../../../src/domain/ledger/fold.ts'
import type { OrderId } from '../../../src/kernel/ids.ts'
import { centsToMicros } from '../../../src/kernel/money.ts'
import { decider, eventsOf } from '../../support/decider.ts'
import fc from '../../support/fast-check.ts'
import { capOfCommand, credited, debtSteps, orderOf, play, spendingSteps, startMs, steps } from './support.ts'

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
const debit =
  (amountCents: number, over: { orderId?: string; capCents?: number } = {}) =>
  (state: LedgerState, nowMs: number) => {
    const { orderId = 'ord_1', capCents = null } = over
    return decideDebit(
      state,
      { order: orderOf({ orderId: orderId as OrderId, amountCents }), cap: capOfCommand({ capCents }) },
      nowMs,
    )
  }
const credit = (payment: ReturnType<typeof deposit>) => (state: LedgerState) => decideCredit(state, payment)
const adjust = (adjustment: Parameters<typeof decideAdjustment>[1]) => (state: LedgerState) =>
  decideAdjustment(state, adjustment)
const ledger = decider(ledgerFold).at(startMs)
const wallet = (micros: number) => ledger.given(credited(micros))

test('an order is paid from the wallet and leaves the remaining balance', () => {
  const { result } = wallet(10_000_000).when(debit(250))
  const [event] = eventsOf<LedgerEvent>(result)
  assert.ok(event?.type === 'WalletDebited')
  assert.deepEqual([event.data.amountMicros, event.data.availableAfterMicros], [2_500_000, 7_500_000])
})

test('a refusal for a short wallet has its balance, the amount and the shortfall in whole cents', () => {
  const short = { balanceCents: 100, amountCents: 250, shortfallCents: 150 }
  wallet(1_005_000)
    .when(debit(250))
    .thenRefused({ code: 'insufficient_balance', ...short })
})

test('a debt is part of the shortfall, because the next payment pays it first', () => {
  const owing = wallet(1_000_000).given(adjust(chargeback('cb_1', -23_005_000)))
  const short = { balanceCents: 0, amountCents: 1_100, owedCents: 2_201, shortfallCents: 3_301 }
  owing.when(debit(1_100)).thenRefused({ code: 'insufficient_balance', ...short })
  owing
    .given(credit(deposit('pi_1', 33_010_000)))
    .when(debit(1_100))
    .thenEvents('WalletDebited')
})

test('the whole balance can be spent', () => {
  const spent = wallet(2_500_000).when(debit(250)).thenEvents('WalletDebited')
  assert.equal(spent.state.availableMicros, 0)
})

test('a debited order is not debited again and the existing debit is returned', () => {
  wallet(10_000_000).given(debit(250)).when(debit(250)).thenRefused({
    code: 'already_debited',
    amountMicros: 2_500_000,
    availableAfterMicros: 7_500_000,
    revision: 1,
  })
})

test('reaching the cap exactly is accepted and one cent more is refused', () => {
  const capCents = 1_000
  const spent = wallet(100_000_000).given(debit(600, { orderId: 'ord_a', capCents }))
  spent.when(debit(400, { orderId: 'ord_b', capCents })).thenEvents('WalletDebited')
  spent
    .when(debit(401, { orderId: 'ord_b', capCents }))
    .thenRefused({ code: 'spend_cap_reached', capCents, spentCents: 600, amountCents: 401 })
})

test('a debit that leaves 80 % of the cap or more spent says so', () => {
  const capCents = 1_000
  const keyCapOf = (first: number, second: number) => {
    const spent = wallet(100_000_000).given(debit(first, { orderId: 'ord_a', capCents }))
    const [event] = eventsOf<LedgerEvent>(spent.when(debit(second, { orderId: 'ord_b', capCents })).result)
    assert.ok(event?.type === 'WalletDebited')
    return event.data.keyCap
  }
  assert.equal(keyCapOf(400, 399), undefined)
  assert.deepEqual(keyCapOf(400, 400), { capCents, covers: 'orders', spentMicros: 8_000_000 })
  assert.deepEqual(keyCapOf(900, 100), { capCents, covers: 'orders', spentMicros: 10_000_000 })
})

test('the cap is checked before the balance', () => {
  ledger.when(debit(5_000, { capCents: 100 })).thenRefused('spend_cap_reached')
})

test('a payment is credited once, and another provider may use the same payment id', () => {
  const paid = ledger.given(credit(deposit('pi_1', 5_000_000)))
  paid.when(credit(deposit('pi_1', 9_000_000))).thenRefused({
    code: 'already_applied',
    amountMicros: 5_000_000,
    availableAfterMicros: 5_000_000,
    revision: 0,
  })
  paid.when(credit({ ...deposit('pi_1', 1), gateway: 'btcpay' })).thenEvents('WalletCredited')
})

test('a chargeback takes the balance, the rest becomes a debt, and the next credit pays the debt first', () => {
  const owing = wallet(3_000_000).given(adjust(chargeback('cb_1', -5_000_000)))
  assert.deepEqual([owing.state.availableMicros, owing.state.receivableMicros], [0, 2_000_000])
  const [paid] = eventsOf<LedgerEvent>(owing.when(credit(deposit('pi_2', 2_500_000))).result)
  assert.ok(paid?.type === 'WalletCredited')
  assert.deepEqual([paid.data.debtChangeMicros, paid.data.availableAfterMicros], [-2_000_000, 500_000])
})

test('an upward adjustment also pays the debt first', () => {
  const { state } = ledger.given(
    adjust(chargeback('cb_1', -5_000_000)),
    adjust(chargeback('cb_1 won', 6_000_000)),
  )
  assert.deepEqual([state.availableMicros, state.receivableMicros], [1_000_000, 0])
})

test('a correction never takes more than the balance', () => {
  const correction = {
    reference: 'fix',
    reason: 'correction',
    gateway: null,
    amountMicros: -1_500_000,
  } as const
  const short = { balanceCents: 100, amountCents: 150, shortfallCents: 50 }
  wallet(1_000_000)
    .when(adjust(correction))
    .thenRefused({ code: 'insufficient_balance', ...short })
})

const hold =
  (holdId: string, amountMicros = 30_000) =>
  (state: LedgerState) =>
    decideHold(state, { holdId, keyId: 'key_1', platform: 'tiktok', amountMicros }, null)
const release = (holdId: string) => (state: LedgerState) => decideRelease(state, { holdId })
const capture = (holdId: string) => (state: LedgerState) => decideCapture(state, { holdId })

test('a hold reserves its money until it is released', () => {
  const held = wallet(30_000).given(hold('h1'))
  held.when(hold('h2')).thenRefused('insufficient_balance')
  assert.equal(held.given(release('h1')).state.availableMicros, 30_000)
})

test('a released hold pays the debt first', () => {
  const owing = wallet(30_000).given(hold('h1'), adjust(chargeback('cb_1', -20_000)))
  const [released] = eventsOf<LedgerEvent>(owing.when(release('h1')).result)
  assert.ok(released?.type === 'HoldReleased')
  assert.deepEqual([released.data.debtChangeMicros, released.data.availableAfterMicros], [-20_000, 10_000])
  const { availableMicros, heldMicros, receivableMicros } = owing.given(release('h1')).state
  assert.deepEqual([availableMicros, heldMicros, receivableMicros], [10_000, 0, 0])
})

test('a hold of zero or less is a bug', () => {
  for (const amountMicros of [0, -1])
    assert.throws(() => wallet(100).when(hold('h1', amountMicros)), RangeError)
})

test('a hold is resolved once: a captured one is never released and its id cannot be reused', () => {
  const captured = wallet(90_000).given(hold('h1'), capture('h1'))
  for (const decide of [release('h1'), capture('h1'), hold('h1')])
    captured
      .when<ReturnType<typeof decide>>(decide)
      .thenRefused({ code: 'hold_resolved', resolution: 'captured' })
  captured.when(release('h9')).thenRefused({ code: 'unknown_hold' })
})

test('a zero amount is a bug', () => {
  for (const amountMicros of [0, -1, 0.5, Number.NaN])
    assert.throws(() => ledger.when(credit(deposit('pi', amountMicros))), RangeError)
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

test('invariant: available money and a debt never exist together, in a wallet or in the credit of a customer', () => {
  fc.assert(
    fc.property(debtSteps, (list) => {
      for (const { after } of play(list))
        for (const { availableMicros, receivableMicros } of [after, ...after.customers.values()])
          assert.equal(Math.min(availableMicros, receivableMicros), 0)
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
          const { balanceCents, amountCents, shortfallCents, owedCents = 0 } = decision.refusal
          assert.equal(balanceCents + shortfallCents, amountCents + owedCents)
        }
      }
    }),
  )
})

test('invariant: no cap is exceeded in any 24 hours by what it covers, and none is more than a minute too strict', () => {
  const dayMs = 24 * 60 * 60 * 1000
  fc.assert(
    fc.property(fc.oneof(steps, spendingSteps), (list) => {
      const spends: { keyId: string; atMs: number; micros: number; isCall: boolean }[] = []
      const held = new Map<string, { keyId: string; micros: number }>()
      const rich = {
        afterMs: 0,
        command: { kind: 'credit', source: 'manual', reference: 'seed', amountMicros: 10 ** 12 },
      } as const
      const payment = { kind: 'customer-credit', customerId: 'cus_0', reference: 'seed' } as const
      const credit = { afterMs: 0, command: { ...payment, amountMicros: 10 ** 12 } } as const
      for (const { step, decision, nowMs } of play([rich, credit, ...list])) {
        const { command } = step
        if (command.kind === 'capture' || command.kind === 'release') {
          const hold = held.get(command.holdId)
          if (decision.outcome !== 'decided' || hold === undefined) continue
          held.delete(command.holdId)
          if (command.kind === 'capture') spends.push({ ...hold, atMs: nowMs, isCall: true })
        }
        if (command.kind !== 'debit' && command.kind !== 'customer-charge' && command.kind !== 'hold')
          continue
        const { keyId = 'key_1' } = command
        if (keyId === null) continue
        const isCall = command.kind === 'hold'
        const cap = capOfCommand(command)
        const micros =
          command.kind === 'hold'
            ? command.amountMicros
            : centsToMicros(command.kind === 'debit' ? command.amountCents : command.costCents)
        const countedSince = (sinceMs: number) =>
          [
            ...spends.filter(
              ({ atMs, isCall: ofCall }) => atMs >= sinceMs && (!ofCall || cap?.covers === 'everything'),
            ),
            ...(cap?.covers === 'everything' ? held.values() : []),
          ]
            .filter((spend) => spend.keyId === keyId)
            .reduce((sum, spend) => sum + spend.micros, 0)
        const isCounted = cap !== null && (!isCall || cap.covers === 'everything')
        if (decision.outcome === 'decided') {
          if (isCounted) assert.ok(countedSince(nowMs - dayMs) + micros <= centsToMicros(cap.cents))
          if (command.kind === 'hold') held.set(command.holdId, { keyId, micros })
          else spends.push({ keyId, atMs: nowMs, micros, isCall })
        } else if (decision.refusal.code === 'spend_cap_reached')
          assert.ok(isCounted && countedSince(nowMs - dayMs - 60_000) + micros > centsToMicros(cap.cents))
      }
    }),
    { numRuns: 300 },
  )
})
