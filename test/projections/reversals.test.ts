import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deposits } from '../../projections/deposits.ts'
import { reversals } from '../../projections/reversals.ts'
import { reversalIdOf } from '../../src/domain/payments/payments.ts'
import type { DomainEvent } from '../../src/kernel/event.ts'
import { foldInMemory, logOf } from './memory-rows.ts'

const accountId = 'acc_1'
const depositId = 'dep_1'

const moved = (
  reference: string,
  amountMicros: number,
  more: { readonly reason?: string; readonly gateway?: string | null; readonly depositId?: string } = {},
): DomainEvent => ({
  type: 'WalletAdjusted',
  data: { reference, reason: 'chargeback', gateway: 'stripe', depositId, amountMicros, ...more },
})

const refund = { reason: 'deposit_refund' } as const
const requested: DomainEvent = {
  type: 'DepositRefundRequested',
  data: { depositId, accountId, refundId: 'ref_1', amountCents: 700, reference: 'ticket' },
}
const made: DomainEvent = {
  type: 'DepositRefundMade',
  data: { depositId, accountId, refundId: 'ref_1', providerRefundId: 're_1' },
}

const [reversalsTable, noticesTable] = reversals.tables

const rowsOf = (...events: readonly DomainEvent[]) => {
  const read = foldInMemory(reversals, logOf(accountId, ...events))
  return {
    rows: read(reversalsTable).map(({ reversalId, status, amountMicros, takenMicros }) => [
      reversalId,
      status,
      amountMicros,
      takenMicros,
    ]),
    mailed: read(noticesTable).map(({ position }) => position),
  }
}

test('a dispute has the sum of its movements, and is won when all of it returned', () => {
  const taken = moved('stripe dp_1 txn_1', -5_000)
  assert.deepEqual(rowsOf(taken).rows, [['dp_1', 'taken', 5_000, 5_000]])
  assert.deepEqual(rowsOf(taken, moved('stripe dp_1 txn_2', 2_000)).rows, [['dp_1', 'taken', 5_000, 3_000]])
  const won = rowsOf(taken, moved('stripe dp_1 txn_2', 5_000))
  assert.deepEqual(won.rows, [['dp_1', 'returned', 5_000, 0]])
})

test('a dispute is mailed when it takes money, once until the money has returned', () => {
  const { mailed } = rowsOf(
    moved('stripe dp_1 txn_1', -5_000),
    moved('stripe dp_1 txn_2', -100),
    moved('stripe dp_1 txn_3', 5_100),
    moved('stripe dp_1 txn_4', -5_100),
    moved('stripe dp_2 txn_5', -1),
    moved('stripe re_1 txn_6', -1, refund),
  )
  assert.deepEqual(mailed, [1, 4, 5])
})

test('a movement by hand is its own dispute or refund, and a correction is none', () => {
  const { rows } = rowsOf(
    moved('ticket 17', -5_000, { gateway: 'btcpay' }),
    moved('gift', 700, { reason: 'goodwill', gateway: null }),
  )
  assert.deepEqual(rows, [['ticket 17', 'taken', 5_000, 5_000]])
  for (const [reference, id] of [
    ['stripe dp_1 txn_1', 'dp_1'],
    ['ticket 17 again', 'ticket 17 again'],
    ['stripe dp_1', 'stripe dp_1'],
    ['stripe dp_1 txn_1 won', 'stripe dp_1 txn_1 won'],
  ] as const)
    assert.equal(reversalIdOf(reference), id)
})

test('a requested refund is one row until its movement, in any order of its events', () => {
  const booked = moved('stripe re_1 txn_1', -7_000_000, refund)
  assert.deepEqual(rowsOf(requested).rows, [['ref_1', 'requested', 7_000_000, 0]])
  assert.deepEqual(rowsOf(requested, made).rows, [['re_1', 'requested', 7_000_000, 0]])
  const done = [['re_1', 'taken', 7_000_000, 7_000_000]]
  assert.deepEqual(rowsOf(requested, made, booked).rows, done)
  assert.deepEqual(rowsOf(requested, booked, made).rows, done)
  const failed = rowsOf(requested, made, booked, moved('stripe re_1 txn_2', 7_000_000, refund))
  assert.deepEqual(failed.rows, [['re_1', 'returned', 7_000_000, 0]])
})

test('a refund that was refused moved nothing', () => {
  const refused: DomainEvent = {
    type: 'DepositRefundRefused',
    data: { depositId, accountId, refundId: 'ref_1', code: 'charge_disputed' },
  }
  assert.deepEqual(rowsOf(requested, refused).rows, [['ref_1', 'refused', 7_000_000, 0]])
})

test('a refund that the provider made and canceled without a movement is not made, in any order of its events', () => {
  const canceled: DomainEvent = {
    type: 'DepositRefundRefused',
    data: {
      ...{ depositId, accountId, refundId: 'ref_1' },
      ...{ code: 'canceled_by_provider', providerRefundId: 're_1' },
    },
  }
  const done = [['re_1', 'refused', 7_000_000, 0]]
  assert.deepEqual(rowsOf(requested, made, canceled).rows, done)
  assert.deepEqual(rowsOf(requested, canceled).rows, done)
})

test('the counts of deposits follow a dispute and its end', () => {
  const opened: DomainEvent = {
    type: 'DepositOpened',
    data: {
      depositId,
      accountId,
      customerId: null,
      rail: 'card',
      amountCents: 1_000,
      gatewayId: 'stripe',
      pending: null,
      openedAt: '2026-11-21T12:00:00.000Z',
    },
  }
  const settled: DomainEvent = {
    type: 'DepositSettled',
    data: {
      depositId,
      accountId,
      status: 'paid',
      creditedMicros: 10_000_000,
      settledAt: '2026-11-21T12:00:01.000Z',
    },
  }
  const [depositsTable, countsTable] = deposits.tables
  const countsOf = (...events: readonly DomainEvent[]) => {
    const read = foldInMemory(deposits, logOf(accountId, ...events))
    const counts = read(countsTable).filter(({ total }) => total > 0)
    return [
      counts.map(({ status, total }) => [status, total]),
      read(depositsTable).map(({ status }) => status),
    ]
  }
  const taken = moved('stripe dp_1 txn_1', -10_000_000)
  assert.deepEqual(countsOf(opened, settled), [[['paid', 1]], ['paid']])
  assert.deepEqual(countsOf(opened, settled, taken), [[['charged_back', 1]], ['paid']])
  const won = moved('stripe dp_1 txn_2', 10_000_000)
  assert.deepEqual(countsOf(opened, settled, taken, won), [[['paid', 1]], ['paid']])
})
