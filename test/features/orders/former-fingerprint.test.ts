import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPlaceOrder, type Purchase } from '../../../src/features/orders/place-order.ts'
import { requestFingerprint } from '../../../src/kernel/digest.ts'
import { refuse } from '../../../src/platform/http/errors.ts'

const path = '/api/v1/orders'
const productId = 'residential-premium'

/** Answers an order that stands under its key, as it does over a real log, and refuses another request under that key. */
const standing = (body: Purchase['body']) => {
  const fingerprint = requestFingerprint({ method: 'POST', path, productId, body, customerId: null })
  const order = { status: 200, body: { orderId: 'ord_1' } }
  return createPlaceOrder({
    orders: {
      submit: async (asked: { fingerprint: string }) => {
        if (asked.fingerprint !== fingerprint) throw refuse('idempotency_conflict', 'another request')
        return order
      },
    },
    customers: {},
  } as never)
}

const purchase = (body: Purchase['body']) =>
  ({
    caller: { accountId: 'acc_1' },
    scope: { accountId: 'acc_1', customerId: null },
    requestId: 'req_1',
    idempotencyKey: 'key-1',
    customerRef: null,
    path,
    productId,
    body,
  }) as never as Purchase

const never = () => assert.fail('nothing is prepared anew')
const plain = { quantity: 2 }
const named = { quantity: 2, method: 'wallet' } as const

test('a request that names the wallet is the same as one without a method, also under the key of an older order', async () => {
  for (const former of [plain, named])
    for (const again of [plain, named])
      assert.deepEqual(
        await standing(former)(purchase(again), never),
        { status: 200, body: { orderId: 'ord_1' } },
        JSON.stringify([former, again]),
      )
})

test('another method, and another body, stay another request', async () => {
  for (const other of [
    { quantity: 2, method: 'card' } as const,
    { quantity: 3 },
    { quantity: 3, method: 'wallet' } as const,
  ])
    for (const former of [plain, named])
      await assert.rejects(async () => standing(former)(purchase(other), never), {
        code: 'idempotency_conflict',
      })
})
