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
import type { SubscriptionEvent } from '../../../src/domain/subscriptions/events.ts'
import {
  type Subscription,
  type SubscriptionState,
  subscriptionFold,
} from '../../../src/domain/subscriptions/fold.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
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
const after = (state: SubscriptionState, events: readonly SubscriptionEvent[]): Subscription =>
  events.reduce<SubscriptionState>(
    (now, event) => subscriptionFold.evolve(now, { ...event, revision: 0, recordedAtMs: 0 }),
    state,
  )!
const taken = (state: SubscriptionState, order: PaidOrder): Subscription => {
  const events = decidePaid(state, order)
  assert.ok(events, 'the order was turned away')
  return after(state, events)
}
const startedOne = () => taken(null, paid('ord_first', null))

describe('a subscription', () => {
  test('starts with its first order and is renewed once by the order of each next period', () => {
    const one = startedOne()
    assert.equal(one.currentPeriodEnd, '2026-02-28T10:00:00.000Z')
    assert.deepEqual(decidePaid(one, paid('ord_first', null)), [])
    const renewal = paid('ord_second', one.currentPeriodEnd, { amountCents: 1700 })
    const two = taken(one, renewal)
    assert.deepEqual(
      [two.currentPeriodStart, two.currentPeriodEnd, two.amountCents, two.periods],
      ['2026-02-28T10:00:00.000Z', '2026-03-31T10:00:00.000Z', 1700, 2],
    )
    assert.deepEqual(decidePaid(two, renewal), [])
    assert.deepEqual(decidePaid(two, paid('ord_first', null)), [], 'an old order is known')
  })

  test('rejects an order that it does not wait for', () => {
    const one = startedOne()
    assert.equal(decidePaid(one, paid('ord_x', '2026-03-31T10:00:00.000Z')), null, 'a period too far')
    assert.equal(decidePaid(null, paid('ord_x', one.currentPeriodEnd)), null, 'it never started')
    const canceled = after(one, decideCancellation(one, Date.parse(start)))
    assert.equal(decidePaid(canceled, paid('ord_x', one.currentPeriodEnd)), null)
  })

  test('is canceled at the end of the paid period, and at once when nothing is paid', () => {
    const one = startedOne()
    const end = Date.parse(one.currentPeriodEnd)
    const scheduled = decideCancellation(one, end - 1)
    assert.deepEqual(
      scheduled.map(({ type }) => type),
      ['SubscriptionCancelScheduled'],
    )
    const waiting = after(one, scheduled)
    assert.deepEqual(decideCancellation(waiting, end - 1), [])
    assert.deepEqual(decideScheduledEnd(waiting, end - 1), [])
    const ended = after(waiting, decideScheduledEnd(waiting, end))
    assert.deepEqual([ended.ended?.status, ended.ended?.reason], ['canceled', 'requested'])
    assert.deepEqual(decideScheduledEnd(ended, end), [])
    assert.deepEqual(decideCancellation(ended, end), [])
    assert.deepEqual(
      decideCancellation(one, end).map(({ type }) => type),
      ['SubscriptionCanceled'],
    )
  })

  test('expires when it is refused after the grace period, and never when its order exists', () => {
    const one = startedOne()
    const end = Date.parse(one.currentPeriodEnd)
    const refused = { periodStart: one.currentPeriodEnd, reason: 'insufficient_balance', orderExists: false }
    assert.deepEqual(decideRefused(one, refused, end + graceMs - 1), [])
    assert.deepEqual(decideRefused(one, { ...refused, orderExists: true }, end + graceMs), [])
    assert.deepEqual(decideRefused(one, { ...refused, periodStart: start }, end + graceMs), [])
    const [expired] = decideRefused(one, refused, end + graceMs)
    assert.deepEqual(expired, {
      type: 'SubscriptionExpired',
      data: {
        subscriptionId: 'sub_1',
        accountId: 'acc_buyer',
        productId: 'residential-premium',
        planId: 'pln_1',
        currentPeriodEnd: one.currentPeriodEnd,
        status: 'expired',
        reason: 'insufficient_balance',
        expiredAt: isoTime(end + graceMs),
      },
    })
  })

  test('of addresses is due a day before they end, unless it is canceled', () => {
    const target = addressOrder('ord_a').target
    const one = taken(null, paid('ord_a', null, { target }))
    const end = Date.parse(one.currentPeriodEnd)
    assert.equal(dueAtMs(one), end - dayMs)
    assert.equal(dueAtMs(after(one, decideCancellation(one, end - 2 * dayMs))), end)
    assert.equal(dueAtMs(startedOne()), end)
  })
})
