import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SubscriptionView } from '../../../projections/subscriptions.ts'
import { graceMs } from '../../../src/domain/shared/billing-interval.ts'
import { subscriptionRecord } from '../../../src/features/subscriptions/subscription-record.ts'

const endMs = Date.parse('2026-12-21T02:30:00.000Z')
const view: SubscriptionView = {
  subscription_id: 'sub_1',
  product_id: 'residential-premium',
  quantity: 2,
  interval: 'month',
  target: null,
  order_id: 'ord_1',
  plan_id: 'pln_1',
  proxy_ids: [],
  amount_cents: 1100,
  started_at: '2026-11-21T02:30:00.000Z',
  current_period_start: '2026-11-21T02:30:00.000Z',
  current_period_end: new Date(endMs).toISOString(),
  cancel_at_period_end: false,
  ended_as: null,
  ended_reason: null,
  ended_at: null,
  refused_reason: null,
}
const told = (refused: string | null, nowMs: number) => {
  const record = subscriptionRecord({ ...view, refused_reason: refused }, nowMs)
  return [record.status, record.reason, record.graceEndsAt]
}

test('a subscription is past due from the end of its period, once its first renewal attempt was refused', () => {
  const active = ['active', null, null]
  assert.deepEqual(told(null, endMs - 1), active)
  assert.deepEqual(told(null, endMs), active, 'not tried yet')
  assert.deepEqual(told('insufficient_balance', endMs - 1), active, 'addresses are tried a day before')
  assert.deepEqual(told('insufficient_balance', endMs), [
    'past_due',
    'insufficient_balance',
    new Date(endMs + graceMs).toISOString(),
  ])
})
