import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decideSaved,
  decideSettings,
  decideTopup,
  decideTopupFailure,
  decideTopupPaid,
  maxFailures,
  nextDepositId,
  noTopups,
  type TopupEvent,
  type TopupState,
  topupFold,
} from '../../../src/domain/deposits/topups.ts'
import { ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { type Appends, applyDecided } from '../../../src/kernel/decider.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import fc from '../../support/fast-check.ts'

const account = `acc_${'1'.repeat(32)}` as AccountId
const gateways = {
  card: { rail: 'card', gatewayId: 'stripe', provider: 'stripe', merchantName: 'Farebox' },
  crypto: { rail: 'crypto', gatewayId: 'btcpay', provider: 'btcpay', merchantName: 'Farebox' },
} as const
const card = {
  setupId: 'cs_1',
  gatewayId: 'stripe',
  customerReference: 'cus_1',
  methodReference: 'pm_1',
  brand: 'visa',
  lastFour: '4242',
}
const step = fc.record({
  kind: fc.constantFrom('request', 'pay', 'fail', 'set'),
  afterMs: fc.constantFrom(1_000, 3_600_000, 26 * 3_600_000, 9 * 86_400_000),
  availableCents: fc.integer({ min: 0, max: 3_000 }),
  amountCents: fc.constantFrom(null, 1_000, 2_500),
  maxCents: fc.constantFrom(2_500, 6_000),
  method: fc.constantFrom('card', 'crypto', undefined),
})

test('property: never a second open top-up, never above the monthly maximum, and off after three failures', () => {
  const requested = { card: 0, crypto: 0 }
  fc.assert(
    fc.property(fc.boolean(), fc.array(step, { maxLength: 80, size: 'max' }), (hasCard, steps) => {
      let nowMs = Date.parse('2026-01-28T00:00:00Z')
      let topup: TopupState = noTopups
      const take = (appends: Appends): readonly TopupEvent[] => {
        const events = appends
          .filter(({ stream }) => stream.startsWith('topup-'))
          .flatMap(({ events }) => events) as TopupEvent[]
        topup = applyDecided(topupFold, topup, events, nowMs)
        return events
      }
      if (hasCard) take(decideSaved(topup, account, card).appends)
      const paidOf = new Map<string, number>()
      let failures = 0
      for (const { kind, afterMs, availableCents, amountCents, maxCents, method } of steps) {
        nowMs += afterMs
        const { open } = topup
        if (kind === 'set') {
          const targetBalanceCents = amountCents === null ? 4_000 : null
          const settings = {
            thresholdCents: 2_000,
            amountCents,
            targetBalanceCents,
            monthlyMaxCents: maxCents,
            ...(method && { method }),
          }
          take(decideSettings(topup, account, settings, nowMs).appends)
          failures = 0
        } else if (kind === 'request') {
          const states = {
            topup,
            deposit: null,
            ledger: { ...ledgerFold.initial, availableMicros: availableCents * 10_000 },
            account: { blocked: false },
          } as never
          const byInvoice = topup.settings?.method === 'crypto'
          const depositId = nextDepositId(account, topup)
          const other = gateways[byInvoice ? 'card' : 'crypto']
          assert.equal(decideTopup(states, account, depositId, other, nowMs).answer, 'not_needed')
          const gateway = gateways[byInvoice ? 'crypto' : 'card']
          const { appends } = decideTopup(states, account, depositId, gateway, nowMs)
          const [event] = take(appends)
          if (event?.type !== 'TopupRequested') continue
          requested[gateway.rail] += 1
          assert.ok(hasCard || byInvoice)
          assert.deepEqual(topup.open?.method, byInvoice ? null : card)
          assert.equal((appends[1]!.events[0]!.data as { rail: string }).rail, gateway.rail)
          assert.equal(open, null)
          assert.ok(availableCents < 2_000)
          const month = new Date(nowMs).toISOString().slice(0, 7)
          const sum = (paidOf.get(month) ?? 0) + event.data.amountCents
          paidOf.set(month, sum)
          assert.ok(sum <= topup.settings!.monthlyMaxCents)
        } else if (open !== null) {
          if (kind === 'pay') {
            take(decideTopupPaid(topup, account, open.topupId).appends)
            failures = 0
          } else {
            const reason = open.method ? 'card_declined' : 'invoice_expired'
            const failure = { topupId: open.topupId, reason } as const
            take(decideTopupFailure({ topup, deposit: null }, account, failure, nowMs).appends)
            const month = new Date(open.requestedAtMs).toISOString().slice(0, 7)
            paidOf.set(month, paidOf.get(month)! - open.amountCents)
            failures += 1
            if (failures >= maxFailures) assert.equal(topup.settings, null)
          }
          assert.equal(topup.open, null)
        }
      }
    }),
    { numRuns: 300 },
  )
  assert.ok(requested.card > 100 && requested.crypto > 100, JSON.stringify(requested))
})
