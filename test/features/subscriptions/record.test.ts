import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SubscriptionView } from '../../../projections/subscriptions.ts'
import { graceMs } from '../../../src/domain/shared/billing-interval.ts'
import { subscriptionRecord } from '../../../src/features/subscriptions/subscription-record.ts'

const endMs = Date.parse('2026-12-21T02:30:00.000Z')
const view: SubscriptionView = {
  subscriptionId: 'sub_1',
  productId: 'residential-premium',
  quantity: 2,
  interval: 'month',
  target: null,
  orderId: 'ord_1',
  planId: 'pln_1',
  proxyIds: [],
  amountCents: 1100,
  startedAt: '2026-11-21T02:30:00.000Z',
  currentPeriodStart: '2026-11-21T02:30:00.000Z',
  currentPeriodEnd: new Date(endMs).toISOString(),
  cancelAtPeriodEnd: false,
  endedAs: null,
  endedReason: null,
  endedAt: null,
  refusedReason: null,
}
const statusOf = (refused: string | null, nowMs: number) => {
  const record = subscriptionRecord({ ...view, refusedReason: refused }, nowMs)
  return [record.status, record.reason, record.graceEndsAt]
}

test('a subscription is past due from the end of its period, once its first renewal attempt was refused', () => {
  const active = ['active', null, null]
  assert.deepEqual(statusOf(null, endMs - 1), active)
  assert.deepEqual(statusOf(null, endMs), active, 'not tried yet')
  assert.deepEqual(statusOf('insufficient_balance', endMs - 1), active, 'addresses are tried a day before')
  assert.deepEqual(statusOf('insufficient_balance', endMs), [
    'past_due',
    'insufficient_balance',
    new Date(endMs + graceMs).toISOString(),
  ])
})
