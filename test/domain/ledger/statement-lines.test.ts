import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decideStatement,
  decideStatementCorrection,
  type StatementBooking,
  statementFold,
} from '../../../src/domain/ledger/statement-lines.ts'

const line: StatementBooking = {
  gateway: 'stripe',
  reference: 'txn_1',
  category: 'payout',
  feeMicros: 100,
  payoutMicros: 5_000,
  happenedAt: '2026-11-01T00:00:00.000Z',
  file: null,
  proposalId: null,
}

test('a line is booked once, and a line with its id and other amounts is reported', () => {
  const booked = decideStatement(null, line)
  assert.deepEqual([booked.events.length, booked.became], [1, 'booked'])
  for (const [repeated, became] of [
    [line, 'standing'],
    [{ ...line, feeMicros: 101 }, 'other'],
    [{ ...line, payoutMicros: 4_999 }, 'other'],
  ] as const) {
    const again = decideStatement(line, repeated)
    assert.deepEqual([again.events.length, again.became], [0, became])
  }
})

test('a correction books the difference, once, and the line then has the right amounts', () => {
  const right = { feeMicros: 40, reason: 'wrong file', proposalId: null }
  const [event] = decideStatementCorrection(line, right).events
  assert.deepEqual(event?.data, {
    gateway: 'stripe',
    reference: 'txn_1',
    category: 'payout',
    feeMicros: -60,
    payoutMicros: 0,
    feeAfterMicros: 40,
    payoutAfterMicros: 5_000,
    happenedAt: line.happenedAt,
    reason: 'wrong file',
    proposalId: null,
  })
  const after = statementFold.evolve(line, { ...event!, revision: 1, recordedAtMs: 0 })
  assert.deepEqual(after, { ...line, feeMicros: 40 })
  assert.deepEqual(decideStatementCorrection(after!, right).events, [])
  assert.equal(decideStatement(after, { ...line, feeMicros: 40 }).became, 'standing')
})
