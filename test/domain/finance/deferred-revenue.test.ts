import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDeferredRevenue } from '../../../src/domain/finance/deferred-revenue.ts'
import type { RecordedEvent } from '../../../src/kernel/event.ts'

const dayMs = 86_400_000
const startMs = Date.parse('2026-10-01T00:00:00Z')
const day = (days: number): number => startMs + days * dayMs
const iso = (days: number): string => new Date(day(days)).toISOString()

const folded = (...events: readonly (readonly [stream: string, type: string, data: object])[]) => {
  const fold = createDeferredRevenue()
  for (const [stream, type, data] of events) fold.take({ stream, type, data } as unknown as RecordedEvent)
  return (days: number) =>
    fold
      .at(day(days))
      .map(({ productId, orders, deferredMicros, remainingMs, unusedBytes }) => [
        productId,
        orders,
        Number(deferredMicros),
        remainingMs / dayMs,
        unusedBytes,
      ])
}

const paid = (orderId: string, productId: string, amountCents: number, other: object = {}) =>
  ['ledger-acc_1', 'WalletDebited', { order: { orderId, productId, amountCents, ...other } }] as const
const refunded = (orderId: string, refundId: string, amountMicros: number) =>
  [
    'ledger-acc_1',
    'WalletCredited',
    { source: 'refund', orderId, reference: refundId, amountMicros },
  ] as const
const allocated = (orderId: string, proxyIds: readonly string[], from: number, to: number) =>
  [
    'stock-isp-USA',
    'AddressesAllocated',
    {
      orderId,
      allocations: proxyIds.map((proxyId) => ({ proxyId })),
      allocatedAt: iso(from),
      expiresAt: iso(to),
    },
  ] as const
const plan = (orderId: string, planId: string, bytes: number | null, expiresAt: string | null = null) =>
  [`plan-${planId}`, 'PlanActivated', { planId, orderId, bytes, startedAt: iso(0), expiresAt }] as const

test('rentals are delivered day by day', () => {
  const at = folded(paid('ord_1', 'isp', 3_000), allocated('ord_1', ['prx_1', 'prx_2'], 0, 30))
  assert.deepEqual(at(0), [['isp', 1, 30_000_000, 60, 0]])
  assert.deepEqual(at(10), [['isp', 1, 20_000_000, 40, 0]])
  assert.deepEqual(at(30), [])
})

test('a paid order that is not fulfilled is not delivered at all, and a failed one owes nothing', () => {
  const order = paid('ord_1', 'isp', 3_000)
  assert.deepEqual(folded(order)(5), [['isp', 1, 30_000_000, 0, 0]])
  assert.deepEqual(folded(order, refunded('ord_1', 'ref_1', 30_000_000))(5), [])
})

test('an extension begins at the end of the rental, and its order counts from there', () => {
  const at = folded(
    paid('ord_1', 'isp', 3_000),
    allocated('ord_1', ['prx_1'], 0, 30),
    paid('ord_2', 'isp', 2_000),
    [
      'stock-isp-USA',
      'AddressesExtended',
      { orderId: 'ord_2', extensions: [{ proxyId: 'prx_1', expiresAt: iso(50) }], extendedAt: iso(10) },
    ],
  )
  assert.deepEqual(at(10), [['isp', 2, 40_000_000, 40, 0]])
  assert.deepEqual(at(40), [['isp', 1, 10_000_000, 10, 0]])
})

test('a returned rental owes nothing more, and the price of the others stays; a refund of money lowers it', () => {
  const order = [paid('ord_1', 'isp', 3_000), allocated('ord_1', ['prx_1', 'prx_2'], 0, 30)] as const
  const returned = folded(
    ...order,
    ['order-ord_1', 'RefundDecided', { refundId: 'ref_1', proxyIds: ['prx_1'] }],
    refunded('ord_1', 'ref_1', 10_000_000),
    ['stock-isp-USA', 'AddressesReleased', { reason: 'refunded', releases: [{ proxyId: 'prx_1' }] }],
  )
  assert.deepEqual(returned(10), [['isp', 1, 10_000_000, 20, 0]])
  const money = folded(
    ...order,
    ['order-ord_1', 'RefundDecided', { refundId: 'ref_1', proxyIds: [] }],
    refunded('ord_1', 'ref_1', 15_000_000),
  )
  assert.deepEqual(money(10), [['isp', 1, 10_000_000, 40, 0]])
})

test('traffic is used up in the order of its purchase, and an ended plan owes nothing', () => {
  const bought = [
    paid('ord_1', 'res', 1_000),
    plan('ord_1', 'pln_1', 10, iso(60)),
    paid('ord_2', 'res', 3_000),
    ['plan-pln_1', 'PlanToppedUp', { orderId: 'ord_2', bytes: 10 }],
    ['plan-pln_1', 'TrafficMetered', { bytes: 4, usedBytes: 4 }],
  ] as const
  assert.deepEqual(folded(...bought)(1), [['res', 2, 36_000_000, 0, 16]])
  const more = [...bought, ['plan-pln_1', 'TrafficMetered', { bytes: 11, usedBytes: 15 }]] as const
  assert.deepEqual(folded(...more)(1), [['res', 1, 15_000_000, 0, 5]])
  assert.deepEqual(folded(...more)(60), [])
  // A refund of the unused part, whose money came first.
  const withdrawn = folded(...bought, refunded('ord_2', 'ref_1', 30_000_000), [
    'plan-pln_1',
    'PlanUnitsWithdrawn',
    { orderId: 'ord_2', refundId: 'ref_1', bytes: 10 },
  ])
  assert.deepEqual(withdrawn(1), [['res', 1, 6_000_000, 0, 6]])
})

test("a plan of time is dated, and a reseller's order counts with what the service earned", () => {
  const at = folded(paid('ord_1', 'time', 9_000, { costCents: 6_000 }), plan('ord_1', 'pln_1', null, iso(30)))
  assert.deepEqual(at(15), [['time', 1, 30_000_000, 15, 0]])
})
