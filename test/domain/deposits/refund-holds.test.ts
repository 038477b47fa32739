import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accountFold } from '../../../src/domain/accounts/fold.ts'
import { decideTopup, nextDepositId, noTopups } from '../../../src/domain/deposits/topups.ts'
import {
  decideAdjustment,
  decideCredit,
  decideHold,
  decideRelease,
} from '../../../src/domain/ledger/decide.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { type LedgerState, ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { fallsBelow } from '../../../src/domain/ledger/movements.ts'
import { applyDecided, type Refused } from '../../../src/kernel/decider.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'

const account = 'acc_1' as AccountId
const nowMs = Date.parse('2026-11-21T00:00:00.000Z')

type Decided = Refused<unknown> | { readonly outcome: 'decided'; readonly events: readonly LedgerEvent[] }

const correction = { reason: 'correction', gateway: null } as const

const after = (ledger: LedgerState, decided: Decided): LedgerState => {
  assert.ok(decided.outcome === 'decided')
  return applyDecided(ledgerFold, ledger, decided.events, nowMs)
}

test('while a refund holds its amount, automatic top-up does not charge the card for it', () => {
  const payment = { source: 'deposit', reference: 'pi_1', gateway: 'stripe', depositId: 'dep_1' } as const
  const credited = after(
    ledgerFold.initial,
    decideCredit(ledgerFold.initial, { ...payment, orderId: null, family: null, amountMicros: 25_000_000 }),
  )
  const hold = { amountMicros: 20_000_000, keyId: null }
  const gateway = { rail: 'card', gatewayId: 'gw_1', provider: 'stripe', merchantName: 'Farebox' } as const
  const card = { setupId: 'cs_1', gatewayId: 'gw_1', customerReference: 'cus_1' }
  const topup = {
    ...noTopups,
    method: { ...card, methodReference: 'pm_1', brand: 'visa', lastFour: '4242' },
    settings: {
      ...{ thresholdCents: 1_000, amountCents: 2_500, targetBalanceCents: null, monthlyMaxCents: 50_000 },
    },
  }
  const owner = applyDecided(
    accountFold,
    null,
    [{ type: 'AccountCreated', data: { accountId: account, reseller: false } } as never],
    nowMs,
  )
  const decided = (ledger: LedgerState) =>
    decideTopup(
      { topup, deposit: null, ledger, account: owner },
      account,
      nextDepositId(account, topup),
      gateway,
      nowMs,
    ).answer
  assert.equal(decided(credited), 'not_needed')
  const ofCall = after(
    credited,
    decideHold(credited, { ...hold, holdId: 'scr_1.1', platform: 'tiktok' }, null),
  )
  assert.equal(decided(ofCall), 'requested')
  const ofRefund = after(
    credited,
    decideHold(credited, { ...hold, holdId: 'ref_1', depositId: 'dep_1' }, null),
  )
  assert.equal(decided(ofRefund), 'not_needed')
})

test('a requested refund is one fall of the balance: when it is booked', () => {
  const events: LedgerEvent[] = []
  let ledger = after(
    ledgerFold.initial,
    decideAdjustment(ledgerFold.initial, { ...correction, amountMicros: 25_000_000, reference: 'start' }),
  )
  const decide = (decided: Decided): void => {
    ledger = after(ledger, decided)
    if (decided.outcome === 'decided') events.push(...decided.events)
  }
  decide(
    decideHold(ledger, { holdId: 'ref_1', depositId: 'dep_1', amountMicros: 20_000_000, keyId: null }, null),
  )
  decide(decideRelease(ledger, { holdId: 'ref_1' }))
  decide(
    decideAdjustment(ledger, { ...correction, amountMicros: -20_000_000, reference: 'stripe re_1 txn_1' }),
  )
  assert.deepEqual(
    events.filter((event) => fallsBelow(event, 10_000_000)).map(({ type }) => type),
    ['WalletAdjusted'],
  )
})
