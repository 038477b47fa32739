import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import type { FoldedEvent } from '../../src/eventstore/fold.ts'
import type { OrderDetails } from '../../src/orders/details.ts'
import { decideMetering, decidePlanOrder, decideWithdrawal, remainingBytes } from '../../src/plans/decide.ts'
import type { PlanEvent } from '../../src/plans/events.ts'
import { type PlanState, planFold } from '../../src/plans/fold.ts'
import { planOrder } from '../support/world.ts'

const dayMs = 24 * 60 * 60 * 1000
const start = 1_800_000_000_000
const gb = 1_000_000_000

const after = (state: PlanState, events: readonly PlanEvent[], atMs = start): PlanState =>
  events.reduce(
    (now, event) =>
      planFold.evolve(now, { ...event, revision: 0, recordedAtMs: atMs } as FoldedEvent<PlanEvent>),
    state,
  )
const ordered = (state: PlanState, order: OrderDetails, atMs = start) =>
  after(state, decidePlanOrder(state, order, atMs).events, atMs)
const onePlan = (orderId: string, over: Partial<OrderDetails> = {}) =>
  planOrder(orderId, { planId: planOrder('ord_held').planId, ...over })

describe('a plan', () => {
  test('counts every order and every report once, and what is left is never below zero', () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('order' as const),
        id: fc.nat(8),
        quantity: fc.integer({ min: 1, max: 9 }),
      }),
      fc.record({
        do: fc.constant('meter' as const),
        id: fc.nat(20),
        bytes: fc.integer({ min: 0, max: 4 * gb }),
      }),
      fc.record({ do: fc.constant('restart' as const) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let state = ordered(planFold.initial, onePlan('ord_first'))
        const orders = new Map<string, number>([['ord_first', 5 * gb]])
        const reports = new Map<string, number>()
        let exhaustions = 0
        let full = true
        for (const current of steps) {
          let events: readonly PlanEvent[] = []
          if (current.do === 'restart')
            state = planFold.snapshot!.fromJson(JSON.parse(JSON.stringify(planFold.snapshot!.toJson(state))))
          if (current.do === 'order') {
            const bytes = current.quantity * gb
            const id = `ord_${current.id}`
            events = decidePlanOrder(state, onePlan(id, { bytes, quantity: current.quantity }), start).events
            if (!orders.has(id)) orders.set(id, bytes)
            full = true
          }
          if (current.do === 'meter') {
            const id = `report-${current.id}`
            events = decideMetering(state, { reportId: id, bytes: current.bytes }).events
            if (!reports.has(id)) reports.set(id, current.bytes)
          }
          exhaustions += events.filter(({ type }) => type === 'PlanExhausted').length
          state = after(state, events)
          const sum = (of: Map<string, number>) => [...of.values()].reduce((total, bytes) => total + bytes, 0)
          assert.equal(state.plan?.totalBytes, sum(orders))
          assert.equal(state.plan?.usedBytes, sum(reports))
          assert.equal(remainingBytes(state.plan!), Math.max(0, sum(orders) - sum(reports)))
          if (events.some(({ type }) => type === 'PlanExhausted')) {
            assert.ok(sum(reports) >= sum(orders))
            assert.ok(full, 'it was exhausted twice without a top-up between')
            full = false
          }
        }
        assert.ok(exhaustions <= orders.size)
      }),
    )
  })

  test('that is sold by time ends with its period, and takes no order after that', () => {
    const timed = onePlan('ord_1', {
      shape: 'gateway_time',
      renewal: 'repurchase',
      bytes: null,
      periodDays: 30,
      quantity: 2,
    })
    const state = ordered(planFold.initial, timed)
    assert.equal(state.plan?.expiresAtMs, start + 30 * dayMs)
    const late = decidePlanOrder(state, onePlan('ord_2'), start + 30 * dayMs)
    assert.deepEqual(late, { events: [], answer: { outcome: 'refused', reason: 'plan_expired' } })
  })

  test('gives back what is unused of a refunded order, once for a refund', () => {
    let state = ordered(planFold.initial, onePlan('ord_1'))
    state = after(state, decideMetering(state, { reportId: 'r', bytes: 3 * gb }).events)
    const withdrawal = { order: onePlan('ord_1'), refundId: 'ref_1' }
    const events = decideWithdrawal(state, withdrawal, start)
    assert.deepEqual(events, [
      { type: 'PlanUnitsWithdrawn', data: { orderId: 'ord_1', refundId: 'ref_1', bytes: 2 * gb } },
    ])
    assert.deepEqual(decideWithdrawal(after(state, events), withdrawal, start), [])
  })

  test("is never topped up by another account's order", () => {
    const state = ordered(planFold.initial, onePlan('ord_1'))
    assert.throws(() => decidePlanOrder(state, onePlan('ord_2', { accountId: 'acc_other' as never }), start))
  })
})
