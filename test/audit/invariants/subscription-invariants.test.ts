import { describe, test } from 'node:test'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { type Cases, changed, dataOf, invariantsFindEach, type Log } from '../deeds.ts'

const lasting = 'subscription-sub_golden_lasting'
const started = (log: Log): StoredEvent =>
  log.first('SubscriptionStarted', ({ subscriptionId }) => subscriptionId === 'sub_golden_lasting')
const renewed = (log: Log): StoredEvent => log.first('SubscriptionRenewed')
const debitOf = (log: Log, event: StoredEvent): StoredEvent =>
  log.first('WalletDebited', ({ order }) => order.orderId === dataOf(event).orderId)
const later = '2026-12-31T00:00:00.000Z'

const cases: Cases = {
  'a period that no order paid': [
    (log) => changed(renewed(log), { orderId: 'ord_none' }),
    /SubscriptionRenewed.*no order ord_none that was paid waits to be named/,
  ],
  'a period that the order of another subscription paid': [
    (log) => changed(renewed(log), { orderId: 'ord_golden_plan' }),
    /SubscriptionRenewed.*no order ord_golden_plan that was paid waits to be named/,
  ],
  'a period that is named twice': [
    (log) => ({ add: renewed(log), data: dataOf(renewed(log)) }),
    /no order ord_\w+ that was paid waits to be named/,
  ],
  'a period that is paid once more': [
    (log) => ({
      add: renewed(log),
      data: { ...dataOf(renewed(log)), orderId: dataOf(started(log)).orderId },
    }),
    /no order ord_\w+ that was paid waits to be named/,
  ],
  'a period whose start is gone': [
    (log) => ({ remove: started(log) }),
    /SubscriptionRenewed.*it would say nothing then, not SubscriptionRenewed/,
  ],
  'a gap between two periods': [
    (log) => changed(renewed(log), { periodStart: later }),
    /it is not what was paid or due: periodStart "2026-12-31T\S+, not "2026-09-\d+T/,
  ],
  'an order for another period than it is named for': [
    (log) => {
      const debit = debitOf(log, renewed(log))
      const { order } = dataOf(debit)
      return changed(debit, {
        order: { ...order, subscription: { ...order.subscription, periodStart: later } },
      })
    },
    /SubscriptionRenewed.*it would say nothing then/,
  ],
  'an order of another subscription': [
    (log) => {
      const debit = debitOf(log, renewed(log))
      const { order } = dataOf(debit)
      const subscription = { ...order.subscription, subscriptionId: 'sub_golden_stopped' }
      return changed(debit, { order: { ...order, subscription } })
    },
    /SubscriptionRenewed.*no order of the period from \S+ is ord_/,
  ],
  'an order of no subscription': [
    (log) => {
      const debit = debitOf(log, started(log))
      const { subscription: _, ...order } = dataOf(debit).order
      return changed(debit, { order })
    },
    /SubscriptionStarted.*no order ord_\w+ that was paid waits to be named/,
  ],
  'an order of another interval than was subscribed to': [
    (log) => {
      const debit = debitOf(log, renewed(log))
      const { order } = dataOf(debit)
      return changed(debit, {
        order: { ...order, subscription: { ...order.subscription, interval: 'week' } },
      })
    },
    /SubscriptionRenewed.*its order is not what was subscribed to: interval "week", not "month"/,
  ],
  'a period that lasts longer than it was paid for': [
    (log) => changed(renewed(log), { currentPeriodEnd: later }),
    /it is not what was paid or due: currentPeriodEnd "2026-12-31/,
  ],
  'a period at another price than its order': [
    (log) => changed(renewed(log), { amountCents: 1 }),
    /it is not what was paid or due: amountCents 1, not/,
  ],
  'a subscription of more than was paid': [
    (log) => changed(started(log), { quantity: 500 }),
    /it is not what was paid or due: quantity 500, not 5/,
  ],
  'a subscription that says what another one is': [
    (log) => changed(log.first('SubscriptionCancelScheduled'), { subscriptionId: 'sub_golden_lasting' }),
    /it is about sub_golden_lasting/,
  ],
  'an end before the period is over': [
    (log) => changed(log.first('SubscriptionCanceled'), { canceledAt: '2026-08-22T00:00:00.000Z' }),
    /it would say nothing then, not SubscriptionCanceled/,
  ],
  'an end that was not then': [
    (log) => changed(log.first('SubscriptionCanceled'), { canceledAt: later }),
    /it says 2026-12-31\S+ and was recorded at/,
  ],
  'a subscription that expires within its grace': [
    (log) => changed(log.first('SubscriptionExpired'), { expiredAt: dataOf(renewed(log)).currentPeriodEnd }),
    /it would say nothing then, not SubscriptionExpired/,
  ],
  'a subscription that ends twice': [
    (log) => ({ add: log.last(lasting), data: dataOf(log.last(lasting)) }),
    /there is no subscription sub_golden_lasting that goes on/,
  ],
  'a subscription without a start': [
    (log) => {
      const ended = log.first('SubscriptionExpired')
      return { add: ended, stream: 'subscription-sub_none', data: dataOf(ended) }
    },
    /it is about sub_golden_lasting|there is no subscription sub_golden_lasting that goes on/,
  ],
}

describe('a subscription period is paid by its order', () => {
  test('inconsistent periods are reported', (t) => invariantsFindEach(t, cases))
})
