import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerOrders } from '../../src/orders/cli.ts'
import { deskOf } from '../resellers/desk.ts'
import { openTown } from './store.ts'

test("orders show tells each refund's time and what the operator gave as its reference", async (t) => {
  const town = await openTown(t)
  const desk = deskOf(town.farebox.core, [registerOrders])
  const { key, accountId } = town.reseller
  await town.credit(accountId, 10_000)
  const { body } = await town.client.post(
    '/api/v1/orders',
    { product_id: 'residential-premium', quantity: 2 },
    { key, headers: { 'Idempotency-Key': 'one' } },
  )
  const refund = ['orders', 'refund', '--order', body.orderId]
  const before = Date.now()
  const named = await desk(...refund, '--cents', '100', '--reference', 'ticket 4711')
  assert.equal(named.code, 0, named.err)
  assert.equal((await desk(...refund, '--cents', '50')).code, 0)

  const { refunds } = (await desk('orders', 'show', body.orderId)).json
  assert.deepEqual(
    refunds.map(({ amountCents, reference }: { amountCents: number; reference?: string }) => [
      amountCents,
      reference,
    ]),
    [
      [100, 'ticket 4711'],
      [50, undefined],
    ],
  )
  for (const { decidedAt } of refunds) {
    assert.match(decidedAt, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    assert.ok(Math.abs(Date.parse(decidedAt) - before) < 60_000, decidedAt)
  }
  assert.equal((await desk(...refund, '--cents', '1', '--reference', 'ticket 4711')).code, 1)
  const unprintable = await desk(...refund, '--cents', '1', '--reference', 'a\u0007')
  assert.equal(unprintable.code, 2)
  await town.sound()
})
