import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { endOfPeriod, graceMs, type Period } from '../../../src/domain/shared/billing-interval.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import {
  decideCancellation,
  decidePaid,
  decideRefused,
  decideScheduledEnd,
  dueAtMs,
  type PaidOrder,
} from '../../../src/domain/subscriptions/decide.ts'
import { type SubscriptionState, subscriptionFold } from '../../../src/domain/subscriptions/fold.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import { decider } from '../../support/decider.ts'
import fc from '../../support/fast-check.ts'
import { addressOrder, planOrder } from '../../support/world.ts'

const dayMs = 86_400_000
const month: Period = { unit: 'month', count: 1 }
const year: Period = { unit: 'month', count: 12 }
const thirtyDays: Period = { unit: 'day', count: 30 }
const ends = (start: string, period: Period, count: number): string[] =>
  Array.from({ length: count }, (_, n) => isoTime(endOfPeriod(Date.parse(start), period, n + 1)).slice(0, 16))

describe('a period', () => {
  test('of the calendar ends on the day of the month it started on, or on the last day of a shorter month', () => {
    assert.deepEqual(ends('2026-01-31T23:59:00.000Z', month, 5), [
      '2026-02-28T23:59',
      '2026-03-31T23:59',
      '2026-04-30T23:59',
      '2026-05-31T23:59',
      '2026-06-30T23:59',
    ])
    assert.deepEqual(ends('2027-12-30T00:00:00.000Z', month, 3), [
      '2028-01-30T00:00',
      '2028-02-29T00:00',
      '2028-03-30T00:00',
    ])
    assert.deepEqual(ends('2028-02-29T12:00:00.000Z', year, 4), [
      '2029-02-28T12:00',
      '2030-02-28T12:00',
      '2031-02-28T12:00',
      '2032-02-29T12:00',
    ])
  })

  test('of days lasts exactly that long', () => {
    assert.deepEqual(ends('2026-01-31T10:00:00.000Z', thirtyDays, 2), [
      '2026-03-02T10:00',
      '2026-04-01T10:00',
    ])
  })

  test('never drifts, overlaps or skips a month, whatever day it starts on', () => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date('2020-01-01'), max: new Date('2120-01-01'), noInvalidDate: true }),
        fc.constantFrom(month, year),
        fc.integer({ min: 1, max: 60 }),
        (start, period, n) => {
          const from = start.getTime()
          const [before, end] = [endOfPeriod(from, period, n - 1), endOfPeriod(from, period, n)].map(
            (ms) => new Date(ms),
          ) as [Date, Date]
          const months = (date: Date): number => date.getUTCFullYear() * 12 + date.getUTCMonth()
          assert.equal(months(end) - months(start), n * period.count)
          assert.ok(end > before)
          const lastDay = new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() + 1, 0)).getUTCDate()
          assert.equal(end.getUTCDate(), Math.min(start.getUTCDate(), lastDay))
          assert.equal(end.getTime() % dayMs, from % dayMs, 'the time of day stays')
        },
      ),
    )
  })
})

const start = '2026-01-31T10:00:00.000Z'
const paid = (orderId: string, periodStart: string | null, over: Partial<OrderDetails> = {}): PaidOrder => {
  const subscription = { subscriptionId: 'sub_1', interval: 'month', period: month, periodStart } as const
  return {
    details: { ...planOrder(orderId), createdAt: start, subscription, ...over },
    planId: 'pln_1',
    proxyIds: [],
    fulfilledAt: start,
  }
}
const pay = (...order: Parameters<typeof paid>) => {
  const taken = paid(...order)
  return (state: SubscriptionState) => decidePaid(state, taken)
}
const subscription = decider(subscriptionFold)
const started = subscription.given(pay('ord_first', null))
const { currentPeriodEnd } = started.state!
const end = Date.parse(currentPeriodEnd)
// Only for subscriptions that exist.
const cancel = (state: SubscriptionState, nowMs: number) => decideCancellation(state!, nowMs)
const finish = (state: SubscriptionState, nowMs: number) => decideScheduledEnd(state!, nowMs)

describe('a subscription', () => {
  test('starts with its first order and is renewed once by the order of each next period', () => {
    assert.equal(currentPeriodEnd, '2026-02-28T10:00:00.000Z')
    started.when(pay('ord_first', null)).thenEvents()
    const renew = pay('ord_second', currentPeriodEnd, { amountCents: 1700 })
    const renewed = started.given(renew)
    const two = renewed.state!
    assert.deepEqual(
      [two.currentPeriodStart, two.currentPeriodEnd, two.amountCents, two.periods],
      ['2026-02-28T10:00:00.000Z', '2026-03-31T10:00:00.000Z', 1700, 2],
    )
    renewed.when(renew).thenEvents()
    // An old order is known.
    renewed.when(pay('ord_first', null)).thenEvents()
  })

  test('rejects an order that it does not wait for: a period too far, never started, canceled', () => {
    started.when(pay('ord_x', '2026-03-31T10:00:00.000Z')).thenRefused(null)
    subscription.when(pay('ord_x', currentPeriodEnd)).thenRefused(null)
    started.at(Date.parse(start)).given(cancel).when(pay('ord_x', currentPeriodEnd)).thenRefused(null)
  })

  test('is canceled at the end of the paid period, and at once when nothing is paid', () => {
    const waiting = started
      .at(end - 1)
      .when(cancel)
      .thenEvents('SubscriptionCancelScheduled')
    waiting.when(cancel).thenEvents()
    waiting.when(finish).thenEvents()
    const ended = waiting.at(end).given(finish)
    assert.deepEqual([ended.state!.ended?.status, ended.state!.ended?.reason], ['canceled', 'requested'])
    ended.when(finish).thenEvents()
    ended.when(cancel).thenEvents()
    started.at(end).when(cancel).thenEvents('SubscriptionCanceled')
  })

  test('expires when it is refused after the grace period, and never when its order exists', () => {
    const refused = { periodStart: currentPeriodEnd, reason: 'insufficient_balance', orderExists: false }
    const refuse =
      (over: Partial<typeof refused> = {}) =>
      (state: SubscriptionState, nowMs: number) =>
        decideRefused(state!, { ...refused, ...over }, nowMs)
    const over = started.at(end + graceMs)
    started
      .at(end + graceMs - 1)
      .when(refuse())
      .thenEvents()
    over.when(refuse({ orderExists: true })).thenEvents()
    over.when(refuse({ periodStart: start })).thenEvents()
    over.when(refuse()).thenEvents({
      type: 'SubscriptionExpired',
      data: {
        subscriptionId: 'sub_1',
        accountId: 'acc_buyer',
        productId: 'residential-premium',
        planId: 'pln_1',
        currentPeriodEnd,
        status: 'expired',
        reason: 'insufficient_balance',
        expiredAt: isoTime(end + graceMs),
      },
    })
  })

  test('of addresses is due a day before they end, unless it is canceled', () => {
    const { target } = addressOrder('ord_a')
    const rented = subscription.given(pay('ord_a', null, { target }))
    const rentedUntil = Date.parse(rented.state!.currentPeriodEnd)
    assert.equal(dueAtMs(rented.state!), rentedUntil - dayMs)
    assert.equal(dueAtMs(rented.at(rentedUntil - 2 * dayMs).given(cancel).state!), rentedUntil)
    assert.equal(dueAtMs(started.state!), end)
  })
})
