import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ReportedInvoice } from '../../../src/domain/deposits/decide.ts'
import {
  changesIn,
  creditingOf,
  decideChanges,
  decideEndedChanges,
  decideReceipt,
  decideReview,
  reportedOf,
} from '../../../src/domain/deposits/decide.ts'
import type { DepositEvent } from '../../../src/domain/deposits/events.ts'
import { type Deposit, type DepositState, depositFold } from '../../../src/domain/deposits/fold.ts'
import { ledgerFold } from '../../../src/domain/ledger/fold.ts'
import type { InvoiceReport, InvoiceStatus } from '../../../src/domain/payments/payments.ts'
import { applyDecided } from '../../../src/kernel/decider.ts'
import type { AccountId, DepositId } from '../../../src/kernel/ids.ts'
import { depositStream } from '../../../src/kernel/streams.ts'

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
  assert.deepEqual(kinds(whole, undone('refunded', 'p2')), [], 'it was never credited')
  assert.deepEqual(kinds(whole, undone('invalid', 'p1')), ['payment_undone p1 1 coins'])
  assert.deepEqual(kinds(whole, undone('invalid', 'p2')), [], 'it was never credited')
  const other = { status: 'paid', payments: [{ paymentId: 'p1', amountMicros: 9_000_001 }] } as const
  assert.deepEqual(kinds(whole, other), ['payment_changed p1 9.000001 usd'])
})

test('an invoice that is paid without money, or invalid with money, is reported', () => {
  assert.deepEqual(kinds(folded(), { status: 'paid', payments: [] }), ['paid_without_money dep_1 10.00 usd'])
  const part = folded(received('p1', 4_000_000))
  assert.deepEqual(
    kinds(part, { status: 'paid', payments: [] }),
    ['paid_without_money dep_1 6.00 usd'],
    'only what is missing',
  )
  assert.deepEqual(kinds(whole, { status: 'failed', payments: [] }), ['marked_invalid dep_1 10.00 usd'])
})

test('an invoice in another currency closes as any other, and nothing of it is credited', () => {
  const paid = [{ paymentId: 'p1', amountMicros: 10_000_000 }]
  const after = (status: InvoiceStatus, payments: InvoiceReport['payments']) => {
    const deposit = folded()
    const { depositId } = named
    const report = {
      kind: 'invoice',
      invoiceId: 'inv',
      depositId,
      currency: 'eur',
      status,
      payments,
    } as const
    const reported = reportedOf(report)
    const states = { deposit, ledger: ledgerFold.initial }
    const { appends, answer } = decideReceipt(states, reported, creditingOf(deposit.details, true), 0)
    const ledgerEvents = appends.filter(({ stream }) => stream !== depositStream(depositId))
    assert.deepEqual([ledgerEvents, answer.more], [[], false])
    return [answer.deposit?.status, answer.deposit?.creditedMicros, ...kinds(deposit, reported)]
  }
  assert.deepEqual(after('open', []), ['awaiting_payment', 0])
  assert.deepEqual(after('expired', []), ['expired', 0])
  assert.deepEqual(after('paid', []), ['failed', 0, 'other_currency inv eur'])
  assert.deepEqual(after('paid', paid), ['failed', 0, 'other_currency inv eur'])
  assert.deepEqual(after('expired', paid), ['expired', 0, 'other_currency inv eur'])
})

/** The deposit after a report, as the service applies it, and its open changes. */
const take = (deposit: Deposit, reported: ReportedInvoice) => {
  const ended = after(deposit, decideEndedChanges(deposit, reported))
  return after(ended, decideChanges(ended, changesIn(ended, reported)))
}
const open = ({ changes }: Deposit) =>
  changes.filter(({ reviewed }) => !reviewed).map(({ change, amount }) => `${change} ${amount}`)
const arrives = (deposit: Deposit, paymentId: string, amountMicros: number): Deposit =>
  applyDecided(depositFold, deposit as DepositState, [received(paymentId, amountMicros)], 0) as Deposit

test('missing money that arrives closes its change, in parts and as a whole', () => {
  const paid = { status: 'paid', payments: [] } as const
  let deposit = take(folded(), paid)
  assert.deepEqual(open(deposit), ['paid_without_money 10.00 usd'])
  deposit = take(arrives(deposit, 'p1', 4_000_000), paid)
  assert.deepEqual(open(deposit), ['paid_without_money 6.00 usd'])
  assert.deepEqual(open(take(deposit, { status: 'open', payments: [], isOther: true })), open(deposit))
  deposit = take(arrives(deposit, 'p2', 6_000_000), paid)
  assert.deepEqual(open(deposit), [])
  assert.equal(deposit.changes.length, 2)
})

test('a change that an operator reviewed is not reported with less missing money; one that ended is reported again', () => {
  const paid = { status: 'paid', payments: [] } as const
  const missing = take(folded(), paid)
  const reviewed = after(missing, decideReview(missing, 1, 'credited by hand'))
  assert.deepEqual(open(take(arrives(reviewed, 'p1', 4_000_000), paid)), [])
  const invalid = { status: 'failed', payments: [] } as const
  const valid = take(take(whole, invalid), paid)
  assert.deepEqual(open(valid), [])
  assert.deepEqual(open(take(valid, invalid)), ['marked_invalid 10.00 usd'])
})

test('an undone, changed or refunded payment ends only if the provider reports it as credited', () => {
  const undone = (why: 'refunded' | 'invalid'): ReportedInvoice => ({
    status: 'expired',
    payments: [],
    undone: [{ paymentId: 'p1', why, amount: '1 coins' }],
  })
  const same = { status: 'paid', payments: [{ paymentId: 'p1', amountMicros: 10_000_000 }] } as const
  const changed = { status: 'paid', payments: [{ paymentId: 'p1', amountMicros: 9_000_000 }] } as const
  for (const reported of [undone('refunded'), undone('invalid'), changed]) {
    const deposit = take(whole, reported)
    assert.equal(open(deposit).length, 1)
    assert.deepEqual(open(take(deposit, { status: 'paid', payments: [] })), open(deposit))
    assert.deepEqual(open(take(deposit, same)), [])
  }
})

test('an unknown status is reported with its name until the provider reports a known one', () => {
  const reported = {
    status: 'processing',
    payments: [],
    unknownStatuses: [{ id: 'p9', status: 'wrong_asset_confirmed', amount: '1 coins' }],
  } as const
  assert.deepEqual(kinds(whole, reported), ['unknown_status p9 wrong_asset_confirmed 1 coins'])
  const deposit = take(whole, reported)
  assert.deepEqual(open(take(deposit, reported)), ['unknown_status 1 coins'])
  assert.deepEqual(open(take(deposit, { status: 'processing', payments: [] })), [])
})

test('money in a payment that failed or expired is a change until the provider reports it otherwise', () => {
  const reported = {
    status: 'expired',
    payments: [],
    endedWithMoney: [{ id: 'p9', status: 'expired', amount: '1 coins' }],
  } as const
  assert.deepEqual(kinds(whole, reported), ['ended_with_money p9 expired 1 coins'])
  const deposit = take(whole, reported)
  assert.deepEqual(open(take(deposit, reported)), ['ended_with_money 1 coins'])
  assert.deepEqual(open(take(deposit, { status: 'paid', payments: [] })), [])
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
