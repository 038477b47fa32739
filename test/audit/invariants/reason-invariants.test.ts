import { describe, test } from 'node:test'
import { isoTime } from '../../../src/kernel/clock.ts'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { type Cases, changed, type Deed, dataOf, type Facts, invariantsFindEach, type Log } from '../deeds.ts'

const credited = (log: Log): StoredEvent => log.first('WalletCredited', ({ source }) => source === 'deposit')
const line = (log: Log): StoredEvent =>
  log.first('StatementLineBooked', ({ reference }) => reference === 'txn_golden')
const manual = (log: Log): StoredEvent => log.first('WalletCredited', ({ source }) => source === 'manual')

/** One more credit at the end of a ledger, whose figures fit. */
const more = (log: Log, event: StoredEvent, data: Facts): Deed => {
  const before = dataOf(log.last(event.stream)).availableAfterMicros
  const facts = { ...dataOf(event), ...data, debtChangeMicros: 0 }
  return { add: event, data: { ...facts, availableAfterMicros: before + facts.amountMicros } }
}

const cases: Cases = {
  "a statement's line that is booked once more": [
    (log) => ({ add: line(log), stream: 'statement-stl_more', data: dataOf(line(log)) }),
    /line txn_golden of stripe was booked before/,
  ],
  "a statement's line in another stream than its own": [
    (log) => ({
      add: line(log),
      stream: 'statement-stl_more',
      data: { ...dataOf(line(log)), reference: 'txn_more' },
    }),
    /the stream of line txn_more of stripe is statement-stl_\w+/,
  ],
  "a statement's line of a gateway that brought nothing": [
    (log) => changed(line(log), { gateway: 'elsewhere' }),
    /no wallet's money ever came or went by elsewhere, whose statement it books/,
  ],
  "a statement's line that books nothing": [
    (log) => changed(line(log), { feeMicros: 0, payoutMicros: 0 }),
    /it books neither a fee nor a payout/,
  ],
  'a correction of a line that is not booked': [
    (log) => {
      const corrected = log.first('StatementLineCorrected')
      const data = { ...dataOf(corrected), reference: 'txn_more' }
      return { add: corrected, stream: 'statement-stl_more', data }
    },
    /line txn_more of stripe was never booked/,
  ],
  'a correction with another amount': [
    (log) => changed(log.first('StatementLineCorrected'), { feeMicros: -1 }),
    /line txn_golden of stripe does not have the corrected amounts/,
  ],
  'a correction with another time': [
    (log) => changed(log.first('StatementLineCorrected'), { happenedAt: '2026-10-01T00:00:00.000Z' }),
    /line txn_golden of stripe was booked with another time/,
  ],
  'a correction of nothing': [
    (log) => changed(log.first('StatementLineCorrected'), { feeMicros: 0, payoutMicros: 0 }),
    /it corrects neither a fee nor a payout/,
  ],
  'a credit of a payment that no deposit received': [
    (log) => more(log, credited(log), { reference: 'pay_none', amountMicros: 5_000_000_000 }),
    /no deposit dep_\w+ received the payment pay_none/,
  ],
  'a credit of a deposit that there is not': [
    (log) => more(log, credited(log), { reference: 'pay_none', depositId: 'dep_none' }),
    /no deposit dep_none received the payment/,
  ],
  'a payment that is credited once more': [
    (log) => more(log, credited(log), {}),
    /payment \S+ of \S+ was credited before/,
  ],
  'a credit that is not the payment, to the micro': [
    (log) => changed(credited(log), { amountMicros: dataOf(credited(log)).amountMicros + 1 }),
    /is credited, but deposit dep_\w+ received/,
  ],
  'a credit at another gateway than the payment': [
    (log) => changed(credited(log), { gateway: 'elsewhere' }),
    /deposit dep_\w+ is of acc_\w+, no customer, at (?:stripe|btcpay|nowpayments)/,
  ],
  "a deposit of another account's": [
    (log) =>
      changed(
        log.first('DepositOpened', ({ depositId }) => depositId === dataOf(credited(log)).depositId),
        { accountId: 'acc_other' },
      ),
    /deposit dep_\w+ is of acc_other/,
  ],
  'a deposit that says credited without the credit': [
    (log) => ({ remove: credited(log) }),
    /it says that payment \S+ is credited, and no ledger credits it/,
  ],
  'a payment that was never received': [
    (log) => ({
      remove: log.first(
        'DepositPaymentReceived',
        ({ paymentId }) => paymentId === dataOf(credited(log)).reference,
      ),
    }),
    /no deposit dep_\w+ received the payment/,
  ],
  'a payment that is received twice': [
    (log) => {
      const received = log.first('DepositPaymentReceived')
      return { add: received, data: dataOf(received) }
    },
    /payment \S+ was received before/,
  ],
  'a mark of another amount': [
    (log) => changed(log.first('DepositPaymentCredited'), { amountMicros: 1 }),
    /was received, not \$0\.000001/,
  ],
  'a deposit whose sum is not its payments': [
    (log) => changed(log.first('DepositSettled'), { creditedMicros: 1 }),
    /it says that \$0\.000001 was credited/,
  ],
  "a customer's credit for no payment": [
    (log) => changed(log.first('CustomerCredited'), { reference: 'pay_none' }),
    /no deposit dep_\w+ received the payment pay_none/,
  ],
  "a customer's payment that another customer gets": [
    (log) => changed(log.first('CustomerCredited'), { customerId: 'cus_other' }),
    /deposit dep_\w+ is of acc_\w+, (?!no customer)/,
  ],
  'a manual credit without a record': [
    (log) => more(log, manual(log), { reference: 'a gift', amountMicros: 5_000_000_000 }),
    /no record requests a movement of .*"a gift"/,
  ],
  'a credit by hand of another amount than its record': [
    (log) => changed(manual(log), { amountMicros: dataOf(manual(log)).amountMicros + 1 }),
    /recorded was \{/,
  ],
  'goodwill without a decision': [
    (log) => changed(log.first('WalletAdjusted'), { reason: 'goodwill', reference: 'kindness' }),
    /no record requests a movement of .*"kindness"/,
  ],
  'an adjustment for another reason than its record': [
    (log) => changed(log.first('WalletAdjusted'), { reason: 'correction', gateway: null }),
    /recorded was \{/,
  ],
  "a customer's adjustment without a record": [
    (log) => changed(log.first('CustomerAdjusted'), { reference: 'kindness' }),
    /no record requests a movement of .*"kindness"/,
  ],
  'a record that says applied without the movement': [
    (log) => ({ remove: log.first('WalletAdjusted') }),
    /it says that the ledger has the movement, which it has not/,
  ],
  'a record that says applied of another account': [
    (log) => changed(log.first('ManualMovementApplied'), { accountId: 'acc_other' }),
    /was recorded here, not \S+ of acc_other/,
  ],
  'a record that withdraws another movement': [
    (log) => changed(log.first('ManualMovementWithdrawn'), { reference: 'another' }),
    /was recorded here, not another of acc_/,
  ],
  ...Object.fromEntries(
    ['OrderPaid', 'OrderFulfilled', 'OrderFailed', 'OrderCanceled', 'OrderRefunded'].map((type) => [
      `an end of an order that names another account (${type})`,
      [
        (log: Log) => changed(log.first(type), { accountId: 'acc_other' }),
        /order ord_\w+ is of acc_\w+, not of acc_other/,
      ] as const,
    ]),
  ),
  'a payment of an order that holds another order': [
    (log) => {
      const paid = log.first('OrderPaid')
      return changed(paid, { order: { ...dataOf(paid).order, orderId: 'ord_other' } })
    },
    /but holds order ord_other/,
  ],
  'a record of another stream': [
    (log) => changed(log.first('ManualMovementRecorded'), { reference: 'another' }),
    /the stream of this movement is deposit-dep_/,
  ],
  'a refund to another account': [
    (log) => {
      const refund = log.first('WalletCredited', ({ source }) => source === 'refund')
      const other = log.first('WalletCredited', () => true)
      return {
        add: refund,
        stream: other.stream === refund.stream ? 'ledger-acc_other' : other.stream,
        data: dataOf(refund),
      }
    },
    /order ord_\w+ is of acc_/,
  ],
  'a movement of an account that there is not': [
    (log) => ({ add: manual(log), stream: 'ledger-acc_none', data: dataOf(manual(log)) }),
    /there is no account acc_none at this place of the log/,
  ],
  'a movement of an account before it was made': [
    (log) => {
      const account = credited(log).stream.replace('ledger-', '')
      return { remove: log.first('AccountCreated', ({ accountId }) => accountId === account) }
    },
    /there is no account acc_\w+ at this place of the log/,
  ],
  'an account that is made twice': [
    (log) => {
      const created = log.first('AccountCreated')
      return { add: created, data: dataOf(created) }
    },
    /account acc_\w+ was made before/,
  ],
  'a top-up of a wallet that was not below the threshold': [
    (log) => {
      const requested = log.first('TopupRequested')
      // Long after the wallet's last movement, so that the balance of the decision is known.
      const later = { recordedAt: isoTime(Date.parse(JSON.parse(requested.metadata).recordedAt) + 3_600_000) }
      return [
        changed(log.first('TopupSettingsChanged'), { thresholdCents: 1 }),
        { change: requested, metadata: later },
      ]
    },
    /TopupRequested.*the balance was \$\S+ or more, and the threshold is \$0\.01/,
  ],
  'a top-up of another amount than the settings have': [
    (log) => changed(log.first('TopupRequested'), { amountCents: 999 }),
    /TopupRequested.*by settings and balance it is from \$10\.00 to \$10\.00/,
  ],
  'a top-up that does not reach the target balance': [
    (log) => {
      const settings = log.first('TopupSettingsChanged')
      const targetBalanceCents = dataOf(settings).thresholdCents + 20_000
      return changed(settings, { amountCents: null, targetBalanceCents })
    },
    /TopupRequested.*by settings and balance it is from \$200\.01 to \$\d+/,
  ],
  'a top-up too soon after a failure': [
    (log) => [
      { remove: log.first('TopupTurnedOff') },
      {
        change: log.first('PaymentMethodRemoved'),
        type: 'TopupRequested',
        data: dataOf(log.first('TopupRequested')),
      },
    ],
    /TopupRequested.*after its last failure the next one is from/,
  ],
  'a top-up by a card that is not saved': [
    (log) =>
      changed(
        log.first('TopupSettingsChanged', ({ method }) => method === 'crypto'),
        { method: 'card' },
      ),
    /TopupRequested.*it is off, or no card is saved/,
  ],
  'a top-up while it is paused': [
    (log) => ({ remove: log.first('TopupResumed', ({ blocks }) => blocks === 1) }),
    /TopupRequested.*it is paused until the customer resumes it/,
  ],
  'an expired invoice of a top-up by a card': [
    (log) => changed(log.first('TopupFailed'), { reason: 'invoice_expired' }),
    /TopupFailed.*it is paid by the saved card/,
  ],
}

describe('every movement of money has its reason', () => {
  test('a movement without a reason is reported', (t) => invariantsFindEach(t, cases))
})
