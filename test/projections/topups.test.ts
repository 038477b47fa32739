import assert from 'node:assert/strict'
import { test } from 'node:test'
import { topups } from '../../projections/topups.ts'
import type { TopupEvent } from '../../src/domain/deposits/topups.ts'
import type { DomainEvent } from '../../src/kernel/event.ts'
import type { AccountId } from '../../src/kernel/ids.ts'
import { foldInMemory, logOf } from './memory-rows.ts'

const accountId = 'acc_1' as AccountId
const incidents = { reversals: 1, blocks: 0 }
const amounts = {
  thresholdCents: 1_000,
  amountCents: 2_500,
  targetBalanceCents: null,
  monthlyMaxCents: 20_000,
}
const turnedOn: TopupEvent = { type: 'TopupSettingsChanged', data: { accountId, ...amounts } }
const turnedOff: TopupEvent = { type: 'TopupTurnedOff', data: { accountId, reason: 'customer' } }
const paused: TopupEvent = {
  type: 'TopupPaused',
  data: { accountId, reason: 'deposit_refund', owedCents: 0, ...incidents },
}
const refunded: DomainEvent = {
  type: 'WalletAdjusted',
  data: { reference: 'stripe re_1 txn_1', reason: 'deposit_refund', gateway: 'stripe', amountMicros: -1 },
}

const pauseAfter = (...events: readonly DomainEvent[]) =>
  foldInMemory(topups, logOf(accountId, ...events))(topups.tables[0]).map(({ pause }) => pause)

test('no pause is due once automatic top-up is off, and a pause that was made remains', () => {
  assert.deepEqual(pauseAfter(turnedOn, refunded), ['due'])
  assert.deepEqual(pauseAfter(turnedOn, refunded, turnedOff), [null])
  assert.deepEqual(pauseAfter(turnedOn, turnedOff, refunded), [null])
  assert.deepEqual(pauseAfter(turnedOn, refunded, paused, turnedOff), ['paused'])
})
