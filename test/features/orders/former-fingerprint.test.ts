import assert from 'node:assert/strict'
import { test } from 'node:test'
import { orderOf, type Purchase } from '../../../src/features/orders/place-order.ts'
import { requestFingerprint } from '../../../src/kernel/digest.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { codec, runnerOver } from '../../platform/commands/world.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { createPlaceQuoted } from '../../support/place-quoted.ts'
import { buyer, credit, emptyWorld, planOrder } from '../../support/world.ts'

const start = Date.parse('2026-11-21T00:00:00.000Z')
const path = '/api/v1/orders'
const productId = 'residential-premium'
const caller = { accountId: buyer, keyId: 'key_one', capKeyId: 'key_one', cap: null } as const

const purchase = (body: Purchase['body']): Purchase => ({
  caller: caller as never,
  scope: { customerId: null },
  requestId: 'req_1',
  idempotencyKey: 'key-1',
  customerRef: null,
  path,
  body,
})

/** A service with an order that an older release placed: its fingerprint covers the body as it was sent. */
const shopWithOrderOf = async (body: Purchase['body']) => {
  const log = { ...createMemoryLog(), atomicItems: true } as const
  const [fact] = credit(emptyWorld, 100_000, start).get(ledgerStream(buyer))!
  const { type, data, metadata } = codec.encode(fact!.event, {
    correlationId: 'test',
    causationId: null,
    actor: { kind: 'operator', name: 'test' },
    recordedAt: new Date(start).toISOString(),
  })
  await log.append(ledgerStream(buyer), 'noStream', [{ id: crypto.randomUUID(), type, data, metadata }])
  const runner = runnerOver(log, { clock: () => start })
  const placeQuoted = createPlaceQuoted({ log, runner })
  const place = (request: ReturnType<typeof orderOf>) =>
    placeQuoted({ ...request, idempotencyKey: 'key-1', method: 'wallet' }, (orderId) => {
      const { createdAt: _, ...draft } = planOrder(orderId, { renewal: 'repurchase' })
      return draft
    })
  const item = { kind: 'order', productId, quantity: 2, meta: undefined } as const
  const { formerFingerprint: _, ...request } = orderOf(purchase(body), productId, item)
  const fingerprint = requestFingerprint({ method: 'POST', path, productId, body, customerId: null })
  const { order } = await place({ ...request, fingerprint })
  return {
    orderId: order.details.orderId,
    again: (next: Purchase['body']) => place(orderOf(purchase(next), productId, item)),
    close: () => runner.close(),
  }
}

const plain = { quantity: 2 }
const named = { quantity: 2, method: 'wallet' } as const

test('a request that names the wallet equals one without a method, also under the key of an older order', async () => {
  for (const former of [plain, named]) {
    const shop = await shopWithOrderOf(former)
    for (const again of [plain, named]) {
      const { order, replayed } = await shop.again(again)
      assert.deepEqual([order.details.orderId, replayed], [shop.orderId, true], JSON.stringify(again))
    }
    await shop.close()
  }
})

test('another body is another request, another method is not', async () => {
  for (const former of [plain, named]) {
    const shop = await shopWithOrderOf(former)
    for (const other of [
      { quantity: 3, method: 'card' } as const,
      { quantity: 3 },
      { quantity: 3, method: 'wallet' } as const,
    ])
      await assert.rejects(shop.again(other), { code: 'idempotency_conflict' })
    if (former === plain) {
      const { order } = await shop.again({ quantity: 2, method: 'card' })
      assert.equal(order.details.orderId, shop.orderId)
    }
    await shop.close()
  }
})
