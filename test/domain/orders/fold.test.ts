import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OrderEvent } from '../../../src/domain/orders/events.ts'
import { orderAfter } from '../../../src/domain/orders/fold.ts'
import { addressOrder } from '../../support/world.ts'

const order = addressOrder('ord_1')
const { orderId, accountId } = order
const at = '2026-11-21T12:00:00.000Z'

const awaited: OrderEvent = {
  type: 'OrderAwaitingPayment',
  data: { order, depositId: 'dep_1', balanceCents: 0 },
}
const paid: OrderEvent = { type: 'OrderPaid', data: { orderId, accountId, order, balanceCents: 7 } }

test('an order becomes active with its payment, and a failed or canceled one stays so', () => {
  const ends: readonly (readonly [string, readonly OrderEvent[]])[] = [
    ['processing', []],
    ['canceled', [{ type: 'OrderCanceled', data: { orderId, accountId, canceledAt: at } }]],
    ['failed', [{ type: 'OrderFailed', data: { orderId, accountId, reason: 'out_of_stock', failedAt: at } }]],
  ]
  for (const [status, before] of ends) {
    const after = orderAfter(null, [awaited, ...before, paid])
    assert.deepEqual([after.status, after.paid, after.balanceCents], [status, true, 7])
  }
})

test('an order that awaits its payment is not paid and has no plan yet', () => {
  const { status, paid: isPaid, planId, awaiting } = orderAfter(null, [awaited])
  assert.deepEqual(
    [status, isPaid, planId, awaiting],
    ['awaiting_payment', false, null, { depositId: 'dep_1', heldUntil: null, missingCents: null }],
  )
})
