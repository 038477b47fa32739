import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decideRefundCancellation,
  decideRefundMade,
  decideRefundRefusal,
  decideRefundRequest,
  depositRefundIdOf,
  type RefundStates,
} from '../../../src/domain/deposits/decide-refund.ts'
import type { DepositEvent } from '../../../src/domain/deposits/events.ts'
import { depositFold } from '../../../src/domain/deposits/fold.ts'
import { decideRelease } from '../../../src/domain/ledger/decide.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { type Appends, applyDecided } from '../../../src/kernel/decider.ts'
import type { AccountId, DepositId } from '../../../src/kernel/ids.ts'

const accountId = 'acc_1' as AccountId
const depositId = 'dep_1' as DepositId
const ids = { depositId, accountId }
const nowMs = Date.parse('2026-11-21T00:00:00Z')
const payment = { ...ids, paymentId: 'cs_1', amountMicros: 10_000_000 }

const opened: DepositEvent = {
  type: 'DepositOpened',
  data: {
    ...ids,
    ...{ customerId: null, rail: 'card', amountCents: 1_000, gatewayId: 'stripe', provider: 'stripe' },
    ...{ merchantName: 'Farebox', fingerprint: 'f', pending: null, openedAt: '2026-11-21T00:00:00.000Z' },
  },
}
const credited: LedgerEvent = {
  type: 'WalletCredited',
  data: {
    ...{ source: 'deposit', reference: 'cs_1', gateway: 'stripe', depositId, orderId: null, family: null },
    ...{ amountMicros: 10_000_000, debtChangeMicros: 0, availableAfterMicros: 10_000_000 },
  },
}
const paid: RefundStates = {
  deposit: applyDecided(
    depositFold,
    null,
    [
      opened,
      { type: 'DepositPaymentReceived', data: payment },
      { type: 'DepositPaymentCredited', data: payment },
    ],
    nowMs,
  ),
  ledger: applyDecided(ledgerFold, ledgerFold.initial, [credited], nowMs),
}

const after = (
  { deposit, ledger }: RefundStates,
  { appends }: { readonly appends: Appends },
): RefundStates => {
  const eventsOf = (kind: string) =>
    appends.flatMap(({ stream, events }) => (stream.startsWith(kind) ? events : []))
  return {
    deposit: applyDecided(depositFold, deposit, eventsOf('deposit-') as DepositEvent[], nowMs),
    ledger: applyDecided(ledgerFold, ledger, eventsOf('ledger-') as LedgerEvent[], nowMs),
  }
}

const refundId = depositRefundIdOf(depositId, 'ticket')
const wanted = {
  refundId,
  amountCents: 700,
  reference: 'ticket',
  reversedMicros: 0,
  ownGatewayIds: ['stripe'],
}
const requested = after(paid, decideRefundRequest(paid, wanted))
const providerRefund = { providerRefundId: 're_1', reference: 'charge:ch_1' }
const making = (states: RefundStates) => decideRefundMade(states.deposit, refundId, providerRefund)
const canceling = (states: RefundStates) => decideRefundCancellation(states, refundId, 're_1')

const endOf = ({ deposit, ledger }: RefundStates) => ({
  status: deposit?.refunds.get(refundId)?.status,
  changes: deposit?.changes.map(({ change, reference }) => `${change} ${reference}`),
  availableMicros: ledger.availableMicros,
  holds: ledger.holds.size,
})

test('a refund that the provider made and then canceled is refused, a change, and its amount returns', () => {
  const refused = {
    status: 'refused',
    changes: [`refund_refused ${refundId} canceled_by_provider`],
    availableMicros: 10_000_000,
    holds: 0,
  }
  const made = after(requested, making(requested))
  assert.deepEqual(endOf(made), { status: 'made', changes: [], availableMicros: 3_000_000, holds: 1 })
  const canceled = after(made, canceling(made))
  assert.deepEqual(endOf(canceled), refused)
  const again = decideRefundRequest(canceled, wanted).answer
  assert.ok(again.outcome === 'refused' && again.refusal.code === 'already_applied')
  assert.equal(again.refusal.status, 'refused')
  // Its cancellation may be seen before the answer to its request is recorded.
  const early = after(requested, canceling(requested))
  assert.deepEqual(endOf(early), refused)
  for (const ended of [canceled, early])
    for (const decision of [making(ended), canceling(ended), decideRefundRefusal(ended, refundId, 'late')])
      assert.deepEqual(decision.appends, [])
})

test('a payment at a gateway that the service no longer has is not refunded', () => {
  const { appends, answer } = decideRefundRequest(paid, { ...wanted, ownGatewayIds: ['service-stripe'] })
  const refusal = { code: 'gateway_not_configured', gatewayId: 'stripe', configured: ['service-stripe'] }
  assert.deepEqual([appends, answer], [[], { outcome: 'refused', refusal }])
})

test('a cancellation of a refund that was not requested here changes nothing', () => {
  assert.deepEqual(canceling(paid).appends, [])
})

test('a refund counts as requested until it is booked, also while the provider returns the money', () => {
  const made = after(requested, making(requested))
  const next = { ...wanted, refundId: 'ref_2', reference: 'next' }
  const refusal = { outcome: 'refused', refusal: { code: 'above_refundable', leftCents: 300 } }
  for (const states of [requested, made]) {
    assert.deepEqual(decideRefundRequest(states, { ...next, amountCents: 301 }).answer, refusal)
    const rest = decideRefundRequest(states, { ...next, amountCents: null }).answer
    assert.ok(rest.outcome === 'requested' && rest.amountCents === 300)
  }
  const released = decideRelease(made.ledger, { holdId: refundId })
  assert.ok(released.outcome === 'decided')
  const booked = { ...made, ledger: applyDecided(ledgerFold, made.ledger, released.events, nowMs) }
  const afterwards = decideRefundRequest(booked, { ...next, amountCents: null, reversedMicros: 7_000_000 })
  assert.ok(afterwards.answer.outcome === 'requested' && afterwards.answer.amountCents === 300)
})
