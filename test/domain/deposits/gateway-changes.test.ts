import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ReportedInvoice } from '../../../src/domain/deposits/decide.ts'
import { changesIn, decideChanges, decideReview } from '../../../src/domain/deposits/decide.ts'
import type { DepositEvent } from '../../../src/domain/deposits/events.ts'
import { type Deposit, type DepositState, depositFold } from '../../../src/domain/deposits/fold.ts'
import { applyDecided } from '../../../src/kernel/decider.ts'
import type { AccountId, DepositId } from '../../../src/kernel/ids.ts'

const named = { depositId: 'dep_1' as DepositId, accountId: 'acc_1' as AccountId }
const opened: DepositEvent = {
  type: 'DepositOpened',
  data: {
    ...named,
    customerId: null,
    rail: 'crypto',
    amountCents: 1_000,
    gatewayId: 'gateway',
    provider: 'btcpay',
    merchantName: 'Shop',
    fingerprint: 'f',
    pending: null,
    openedAt: '2026-01-01T00:00:00.000Z',
  },
}
const received = (paymentId: string, amountMicros: number): DepositEvent => ({
  type: 'DepositPaymentReceived',
  data: { ...named, paymentId, amountMicros },
})
const folded = (...events: readonly DepositEvent[]): Deposit =>
  applyDecided(depositFold, null, [opened, ...events], 0) as Deposit
const after = (deposit: Deposit, decision: { appends: readonly { events: readonly unknown[] }[] }): Deposit =>
  applyDecided(
    depositFold,
    deposit as DepositState,
    decision.appends.flatMap(({ events }) => events) as never,
    0,
  ) as Deposit

const whole = folded(received('p1', 10_000_000))
const kinds = (deposit: Deposit, reported: ReportedInvoice) =>
  changesIn(deposit, reported).map(({ change, reference, amount }) => `${change} ${reference} ${amount}`)

test('an invoice that equals its booking has no open change', () => {
  const payments = [{ paymentId: 'p1', amountMicros: 10_000_000 }]
  for (const status of ['open', 'processing', 'paid', 'expired'] as const)
    assert.deepEqual(kinds(whole, { status, payments }), [])
  assert.deepEqual(kinds(whole, { status: 'paid', payments: [] }), [], 'a payment may be missing')
  assert.deepEqual(kinds(folded(), { status: 'expired', payments: [] }), [])
  assert.deepEqual(kinds(folded(), { status: 'failed', payments: [] }), [])
})

test('a refunded, reversed or changed payment is reported', () => {
  const undone = (why: 'refunded' | 'invalid', paymentId: string): ReportedInvoice => ({
    status: 'expired',
    payments: [],
    undone: [{ paymentId, why, amount: '1 coins' }],
  })
  assert.deepEqual(kinds(whole, undone('refunded', 'p1')), ['refunded p1 1 coins'])
  assert.deepEqual(kinds(whole, undone('refunded', 'p2')), ['refunded p2 1 coins'])
  assert.deepEqual(kinds(whole, undone('invalid', 'p1')), ['payment_undone p1 1 coins'])
  assert.deepEqual(kinds(whole, undone('invalid', 'p2')), [], 'it was never credited')
  const other = { status: 'paid', payments: [{ paymentId: 'p1', amountMicros: 9_000_001 }] } as const
  assert.deepEqual(kinds(whole, other), ['payment_changed p1 9.000001 usd'])
})

test('an invoice that is paid without money, or invalid with money, is reported', () => {
  assert.deepEqual(kinds(folded(), { status: 'paid', payments: [] }), ['paid_without_money dep_1 10.00 usd'])
  assert.deepEqual(kinds(whole, { status: 'failed', payments: [] }), ['marked_invalid dep_1 10.00 usd'])
})

test('a change is recorded once and closed once, and a provider can report at most fifty', () => {
  const change = { change: 'refunded', reference: 'ch_1', amount: '1.00 usd' } as const
  let deposit = after(whole, decideChanges(whole, [change]))
  assert.deepEqual(decideChanges(deposit, [change]), { appends: [], answer: [] })
  assert.equal(decideReview(deposit, 2, 'done').answer, 'unknown_change')
  const review = decideReview(deposit, 1, 'done')
  assert.equal(review.answer, 'reviewed')
  deposit = after(deposit, review)
  assert.equal(decideReview(deposit, 1, 'done').answer, 'reviewed_before')
  const many = Array.from({ length: 80 }, (_, n) => ({ ...change, amount: `${n}.50 usd` }))
  deposit = after(deposit, decideChanges(deposit, many))
  assert.equal(deposit.changes.length, 50)
  assert.deepEqual(decideChanges(deposit, many).appends, [])
})

test('a failed refund is reported; a charge without refunds is not', () => {
  const refund = (amount: string) => ({ change: 'refunded', reference: 'ch_1', amount }) as const
  assert.deepEqual(decideChanges(whole, [refund('0.00 usd')]).answer, [], 'nothing was ever refunded')
  let deposit = whole
  for (const amount of ['5.00 usd', '10.00 usd', '5.00 usd', '0.00 usd', '5.00 usd']) {
    const decision = decideChanges(deposit, [refund(amount)])
    assert.deepEqual(decision.answer, [refund(amount)])
    deposit = after(deposit, decision)
    assert.deepEqual(decideChanges(deposit, [refund(amount)]).answer, [], 'it is recorded once')
  }
})
