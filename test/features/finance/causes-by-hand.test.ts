import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EntryKind } from '../../../src/domain/finance/entry-kinds.ts'
import { proposalIdOf } from '../../../src/domain/ledger/decide-approval.ts'
import { readCauses } from '../../../src/features/finance/causes-by-hand.ts'
import { newEventId, type OrderId } from '../../../src/kernel/ids.ts'
import { depositStream, orderStream, proposalStream, type StreamName } from '../../../src/kernel/streams.ts'
import { createMemoryLog } from '../../support/memory-log.ts'

const accountId = 'acc_000000000000000000000000000000a1'
const [orderId, depositId] = ['ord_1', 'dep_1']
const expiresAt = '2026-12-02T00:00:00.000Z'
const metadata = JSON.stringify({
  correlationId: 'run_test',
  causationId: null,
  actor: { kind: 'operator', name: 'carol' },
  recordedAt: '2026-11-25T00:00:00.000Z',
})

const openLog = () => {
  const log = createMemoryLog()
  const append = (stream: StreamName, ...events: readonly (readonly [type: string, data: object])[]) =>
    log.append(
      stream,
      'noStream',
      events.map(([type, data]) => ({ id: newEventId(), type, data: JSON.stringify(data), metadata })),
    )
  const approve = (proposalId: string, what: object) =>
    append(
      proposalStream(proposalId),
      ['ProposalMade', { proposalId, what, by: 'operator:bob', expiresAt }],
      ['ProposalClosed', { proposalId, by: 'operator:bob', reason: 'withdrawn', note: null }],
      ['ProposalMade', { proposalId, what, by: 'operator:alice', expiresAt }],
      ['ProposalApproved', { proposalId, by: 'operator:carol' }],
    )
  return { log, append, approve }
}

const entryOf = (position: number, type: string, kind: EntryKind, fields: object) => ({
  ...{ position, type, kind, accountId, orderId: null, customerId: null, depositId: null },
  ...{ reference: null, reason: null, proposalId: null },
  ...fields,
})

test('an entry by hand has the operators who proposed and approved it', async () => {
  const { log, append, approve } = openLog()
  const credit = { kind: 'credit', accountId, reference: 'wire', amountMicros: 5 } as const
  const alone = { ...credit, reference: 'alone' }
  const customer = { kind: 'customer', accountId, customerId: 'cus_1', reference: 'gift' } as const
  const ids = {
    credit: proposalIdOf(credit),
    adjustment: proposalIdOf({ ...credit, kind: 'adjustment', reason: 'goodwill', gateway: null }),
    customer: proposalIdOf({ ...customer, reason: 'goodwill', gateway: null, amountMicros: 5 }),
    refund: proposalIdOf({ kind: 'refund', refundId: 'ref_1' }),
    deposit: proposalIdOf({ kind: 'deposit_refund', refundId: 'ref_2' }),
    statement: 'prp_statement',
  }
  for (const id of Object.values(ids)) await approve(id, credit)
  // Its proposal was withdrawn. Then the limit was raised, and one operator was enough.
  await append(
    proposalStream(proposalIdOf(alone)),
    ['ProposalMade', { proposalId: proposalIdOf(alone), what: alone, by: 'operator:bob', expiresAt }],
    [
      'ProposalClosed',
      { proposalId: proposalIdOf(alone), by: 'operator:bob', reason: 'withdrawn', note: null },
    ],
  )
  const causes = await readCauses(log, [
    entryOf(1, 'WalletCredited', 'payment_elsewhere', { reference: 'wire' }),
    entryOf(2, 'WalletAdjusted', 'goodwill', { reference: 'wire' }),
    entryOf(3, 'CustomerAdjusted', 'goodwill', { customerId: 'cus_1', reference: 'gift' }),
    entryOf(4, 'WalletCredited', 'order_refund', { orderId, reference: 'ref_1' }),
    entryOf(5, 'FundsHeld', 'hold', { depositId, reference: 'ref_2' }),
    entryOf(6, 'StatementLineBooked', 'payout', {
      accountId: null,
      reference: 'txn_1',
      proposalId: ids.statement,
    }),
    entryOf(7, 'WalletCredited', 'payment_elsewhere', { reference: 'alone' }),
  ])
  const people = { proposedBy: 'operator:alice', approvedBy: 'operator:carol' }
  assert.deepEqual(
    [...causes.values()],
    [
      ...Object.values(ids).map((proposalId) => ({ reason: null, proposalId, ...people })),
      { reason: null, proposalId: null, proposedBy: null, approvedBy: null },
    ],
  )
})

test('a refund by hand has the reason that the operator typed', async () => {
  const { log, append } = openLog()
  const decided = (refundId: string, reference: string) =>
    [
      'RefundDecided',
      { orderId, refundId, amountCents: 1, proxyIds: [], reason: 'operator', reference },
    ] as const
  await append(orderStream(orderId as OrderId), decided('ref_0', 'other'), decided('ref_1', 't9'))
  const requested = { depositId, accountId, refundId: 'ref_2', amountCents: 100, reference: 'ticket 1' }
  await append(depositStream(depositId), ['DepositRefundRequested', requested])
  const causes = await readCauses(log, [
    entryOf(1, 'WalletCredited', 'order_refund', { orderId, reference: 'ref_1' }),
    entryOf(2, 'CustomerRefunded', 'order_refund', { orderId, reference: 'ref_1' }),
    entryOf(3, 'FundsHeld', 'hold', { depositId, reference: 'ref_2' }),
    entryOf(4, 'StatementLineCorrected', 'statement_correction', { accountId: null, reason: 'a wrong file' }),
    entryOf(5, 'WalletAdjusted', 'goodwill', { reference: 'sorry' }),
  ])
  assert.deepEqual(
    [...causes.values()].map(({ reason }) => reason),
    ['t9', 't9', 'ticket 1', 'a wrong file', null],
  )
})
