import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Map as ImmutableMap } from 'immutable'
import type { AccountState } from '../../../src/domain/accounts/fold.ts'
import {
  decidePause,
  decideRemoval,
  decideSaved,
  decideSettings,
  decideTopup,
  decideTopupFailure,
  decideTopupPaid,
  maxFailures,
  nextDepositId,
  noTopups,
  pauseOf,
  type TopupEvent,
  type TopupSettings,
  type TopupState,
  topupFold,
} from '../../../src/domain/deposits/topups.ts'
import { type LedgerState, ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { type Appends, applyDecided } from '../../../src/kernel/decider.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { decider } from '../../support/decider.ts'
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
  kind: fc.constantFrom('request', 'request', 'pay', 'fail', 'set', 'set', 'incident'),
  isBlock: fc.boolean(),
  resume: fc.constantFrom(true, true, false),
  afterMs: fc.constantFrom(1_000, 3_600_000, 26 * 3_600_000, 9 * 86_400_000),
  availableCents: fc.integer({ min: 0, max: 3_000 }),
  amountCents: fc.constantFrom(null, 1_000, 2_500),
  maxCents: fc.constantFrom(2_500, 6_000),
  method: fc.constantFrom('card', 'crypto', undefined),
})

const ledgerOf = (ledger: Partial<LedgerState>): LedgerState => ({ ...ledgerFold.initial, ...ledger })
const accountOf = (blocks: number): NonNullable<AccountState> => ({
  reseller: false,
  blocked: false,
  blocks,
  emailCommitment: null,
  lowBalanceMicros: null,
  keys: ImmutableMap(),
})

test('property: never a second open top-up, never above the monthly maximum, off after three failures, paused after a refund, a dispute or a block', () => {
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
      let reversals = 0
      let blocks = 0
      /** A refund, a dispute or a block happened after the customer turned it on or resumed it. */
      let awaitsResumption = false
      for (const { kind, isBlock, resume, afterMs, availableCents, amountCents, maxCents, method } of steps) {
        nowMs += afterMs
        const { open } = topup
        const states = {
          ledger: ledgerOf({
            availableMicros: availableCents * 10_000,
            lastReversal: reversals === 0 ? null : { number: reversals, reason: 'chargeback' },
          }),
          account: accountOf(blocks),
        }
        if (kind === 'set') {
          const targetBalanceCents = amountCents === null ? 4_000 : null
          const settings = {
            thresholdCents: 2_000,
            amountCents,
            targetBalanceCents,
            monthlyMaxCents: maxCents,
            ...(method && { method }),
          }
          if (topup.settings === null || (resume && topup.pause !== null)) awaitsResumption = false
          const { appends } = decideSettings({ ...states, topup }, account, { ...settings, resume }, nowMs)
          if (take(appends).length > 0) failures = 0
        } else if (kind === 'incident') {
          if (isBlock) blocks += 1
          else reversals += 1
          awaitsResumption = topup.settings !== null
        } else if (kind === 'request') {
          const byInvoice = topup.settings?.method === 'crypto'
          const depositId = nextDepositId(account, topup)
          const other = gateways[byInvoice ? 'card' : 'crypto']
          const request = { ...states, topup, deposit: null }
          assert.notEqual(decideTopup(request, account, depositId, other, nowMs).answer, 'requested')
          const gateway = gateways[byInvoice ? 'crypto' : 'card']
          const { appends } = decideTopup(request, account, depositId, gateway, nowMs)
          const [event] = take(appends)
          if (awaitsResumption && topup.settings !== null) assert.notEqual(topup.pause, null)
          if (event?.type !== 'TopupRequested') continue
          requested[gateway.rail] += 1
          assert.ok(!awaitsResumption)
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
  assert.ok(requested.card > 50 && requested.crypto > 50, JSON.stringify(requested))
})

const settings = {
  thresholdCents: 2_000,
  amountCents: 2_500,
  targetBalanceCents: null,
  monthlyMaxCents: 2_500,
}
const quiet = { ledger: ledgerOf({}), account: accountOf(0) }

type States = typeof quiet
const topupEvents = ({ appends }: { readonly appends: Appends }) =>
  appends.flatMap(({ stream, events }) => (stream.startsWith('topup-') ? events : [])) as TopupEvent[]
const setting =
  (resume: boolean, states: States, changed: Partial<TopupSettings> = {}) =>
  (topup: TopupState, nowMs: number) =>
    topupEvents(decideSettings({ topup, ...states }, account, { ...settings, ...changed, resume }, nowMs))
const pausing = (states: States) => (topup: TopupState, nowMs: number) =>
  topupEvents(decidePause({ topup, ...states }, account, nowMs))
const requesting = (states: States) => (topup: TopupState, nowMs: number) =>
  topupEvents(
    decideTopup(
      { topup, deposit: null, ...states },
      account,
      nextDepositId(account, topup),
      gateways.card,
      nowMs,
    ),
  )

/** A wallet without money, with automatic top-up by a saved card. */
const on = decider(topupFold)
  .at(Date.parse('2026-11-21T00:00:00Z'))
  .given({ type: 'PaymentMethodSaved', data: { accountId: account, ...card } })
  .given(setting(false, quiet))

const refunded: States = {
  ...quiet,
  ledger: ledgerOf({ receivableMicros: 5_001_000, lastReversal: { number: 1, reason: 'deposit_refund' } }),
}
const disputed: States = {
  ledger: ledgerOf({ lastReversal: { number: 1, reason: 'chargeback' } }),
  account: accountOf(1),
}
const incidents = {
  deposit_refund: refunded,
  chargeback: disputed,
  account_blocked: { ...quiet, account: accountOf(1) },
}

test('a refund, a dispute and a block each pause automatic top-up once, until the customer resumes it', () => {
  for (const [reason, states] of Object.entries(incidents)) {
    const { reversals, blocks } = {
      reversals: states.ledger.lastReversal?.number ?? 0,
      blocks: states.account.blocks,
    }
    const data = {
      accountId: account,
      reason,
      owedCents: reason === 'deposit_refund' ? 501 : 0,
      reversals,
      blocks,
    }
    const paused = on.when(pausing(states)).thenEvents({ type: 'TopupPaused', data })
    on.when(requesting(states)).thenEvents({ type: 'TopupPaused', data })
    paused.when(pausing(states)).thenEvents()
    paused.when(requesting(states)).thenEvents()
    const changed = paused
      .when(setting(false, states, { thresholdCents: 1_000 }))
      .thenEvents('TopupSettingsChanged')
    changed.when(requesting(states)).thenEvents()
    const resumed = changed.when(setting(true, states)).thenEvents('TopupSettingsChanged', 'TopupResumed')
    resumed.when(pausing(states)).thenEvents()
    resumed.when(requesting(states)).thenEvents('TopupRequested')
  }
})

test('a refund before automatic top-up is turned on does not pause it', () => {
  const off = on
    .when((topup) => topupEvents(decideRemoval(topup, account)))
    .thenEvents('TopupTurnedOff', 'PaymentMethodRemoved')
  off.when(pausing(refunded)).thenEvents()
  const again = off.when(setting(false, refunded)).thenEvents('TopupSettingsChanged', 'TopupResumed')
  again.when(pausing(refunded)).thenEvents()
})

test('a request that comes before a refund is noticed does not count as a resumption', () => {
  const changed = on.when(setting(true, refunded)).thenEvents()
  changed.when(requesting(refunded)).thenEvents('TopupPaused')
})

test('the customer is informed once in a month that the maximum prevents a top-up', () => {
  const requested = on.when(requesting(quiet)).thenEvents('TopupRequested')
  const { topupId } = requested.state.open!
  const paid = requested
    .when((topup) => topupEvents(decideTopupPaid(topup, account, topupId)))
    .thenEvents('TopupPaid')
  const reached = paid.when(requesting(quiet)).thenEvents('TopupPaused')
  const until = '2026-12-01T00:00:00.000Z'
  const inNovember = Date.parse('2026-11-30T23:59:59.999Z')
  assert.deepEqual(pauseOf(reached.state, inNovember), { reason: 'monthly_maximum', until })
  reached.at(inNovember).when(requesting(quiet)).thenEvents()
  assert.equal(pauseOf(reached.state, Date.parse(until)), null)
  reached.at(Date.parse(until)).when(requesting(quiet)).thenEvents('TopupRequested')
  const same = reached.when(setting(false, quiet, { method: 'card' })).thenEvents()
  same.when(requesting(quiet)).thenEvents()
  const changed = reached
    .when(setting(false, quiet, { thresholdCents: 1_000 }))
    .thenEvents('TopupSettingsChanged')
  changed.when(requesting(quiet)).thenEvents('TopupPaused')
  paid.when(requesting({ ...quiet, ledger: ledgerOf({ availableMicros: 20_000_000 }) })).thenEvents()
})

test('setting the same settings again neither resets the failures nor ends the wait after one', () => {
  const requested = on.when(requesting(quiet)).thenEvents('TopupRequested')
  const failure = { topupId: requested.state.open!.topupId, reason: 'card_declined' } as const
  const failed = requested
    .when((topup, nowMs) =>
      topupEvents(decideTopupFailure({ topup, deposit: null }, account, failure, nowMs)),
    )
    .thenEvents('TopupFailed')
  const same = failed.when(setting(false, quiet)).thenEvents()
  same.when(requesting(quiet)).thenEvents()
  for (const changed of [
    { thresholdCents: 1_000 },
    { amountCents: 2_000 },
    { amountCents: null, targetBalanceCents: 4_000 },
    { monthlyMaxCents: 5_000 },
    { method: 'crypto' },
  ] as const)
    failed.when(setting(false, quiet, changed)).thenEvents('TopupSettingsChanged')
})
