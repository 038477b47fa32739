import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  alarmsOf,
  decideMetering,
  decidePlanOrder,
  decideWithdrawal,
  meteringIntervalMs,
  remainingBytes,
} from '../../../src/domain/plans/decide.ts'
import type { PlanEvent } from '../../../src/domain/plans/events.ts'
import { isLow, type PlanState, planFold } from '../../../src/domain/plans/fold.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import { applyDecided } from '../../../src/kernel/decider.ts'
import { decider } from '../../support/decider.ts'
import fc from '../../support/fast-check.ts'
import { planOrder } from '../../support/world.ts'

const dayMs = 24 * 60 * 60 * 1000
const start = 1_800_000_000_000
const gb = 1_000_000_000

const onePlan = (orderId: string, over: Partial<OrderDetails> = {}) =>
  planOrder(orderId, { planId: planOrder('ord_held').planId, ...over })

const order =
  (id: string, over: Partial<OrderDetails> = {}) =>
  (state: PlanState, nowMs: number) =>
    decidePlanOrder(state, onePlan(id, over), nowMs)
const meter =
  (usedBytes: number, anyway = false) =>
  (state: PlanState, nowMs: number) =>
    decideMetering(state, { usedBytes, anyway }, nowMs)
const withdraw =
  (id: string, bytes: number | null = 5 * gb) =>
  (state: PlanState, nowMs: number) =>
    decideWithdrawal(state, { order: onePlan(id, { bytes }), refundId: `ref_${id}` }, nowMs)
const plan = decider(planFold).at(start)
const bought = plan.given(order('ord_1'))
const timed = { shape: 'gateway_time', renewal: 'repurchase', bytes: null, periodDays: 30 } as const
const restarted = (state: PlanState): PlanState =>
  planFold.snapshot!.fromText(planFold.snapshot!.toText(state))

/** The log of a plan with its time, as its counter and its orders write it. */
const life = () => {
  let state: PlanState = planFold.initial
  let nowMs = start
  const write = (events: readonly PlanEvent[]): readonly PlanEvent[] => {
    state = applyDecided(planFold, state, events, nowMs)
    return events
  }
  return {
    plan: () => state.plan!,
    wait: (ms: number) => {
      nowMs += ms
    },
    order: (...of: Parameters<typeof order>) => write(order(...of)(state, nowMs).events),
    meter: (...used: Parameters<typeof meter>) => write(meter(...used)(state, nowMs)),
    withdraw: (id: string, bytes: number) => write(withdraw(id, bytes)(state, nowMs)),
    alarms: () => alarmsOf(state, nowMs),
    restart: () => {
      state = restarted(state)
    },
  }
}

describe('a plan', () => {
  test('reports the value of its counter, reports low once per passing, and is metered only when due', () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('order' as const),
        id: fc.nat(8),
        quantity: fc.integer({ min: 1, max: 9 }),
      }),
      fc.record({
        do: fc.constant('count' as const),
        bytes: fc.integer({ min: 0, max: 4 * gb }),
        anyway: fc.boolean(),
      }),
      fc.record({ do: fc.constant('again' as const) }),
      fc.record({ do: fc.constant('refund' as const), id: fc.nat(8) }),
      fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 10 * 60_000 }) }),
      fc.record({ do: fc.constant('restart' as const) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const one = life()
        one.order('ord_first')
        let counter = 0
        let loggedAtMs: number | null = null
        let nowMs = start
        const bought = new Map<string, number>([['ord_first', 5 * gb]])
        const refunded = new Set<string>()
        for (const current of steps) {
          const before = one.plan()
          const alarm = one.alarms().bytes
          if (current.do === 'wait') {
            one.wait(current.ms)
            nowMs += current.ms
          }
          if (current.do === 'restart') one.restart()
          if (current.do === 'order') {
            const id = `ord_${current.id}`
            one.order(id, { bytes: current.quantity * gb, quantity: current.quantity })
            if (!bought.has(id)) bought.set(id, current.quantity * gb)
          }
          if (current.do === 'refund') {
            const id = `ord_${current.id}`
            const bytes = bought.get(id)
            if (bytes !== undefined && !refunded.has(id)) {
              refunded.add(id)
              const events = one.withdraw(id, bytes)
              const gone = events.find(({ type }) => type === 'PlanUnitsWithdrawn')
              if (gone?.type === 'PlanUnitsWithdrawn') bought.set(id, bytes - gone.data.bytes)
            }
          }
          if (current.do === 'count' || current.do === 'again') {
            if (current.do === 'count') counter += current.bytes
            const anyway = current.do === 'count' && current.anyway
            const events = one.meter(counter, anyway)
            const metered = events.find(({ type }) => type === 'TrafficMetered')
            if (metered) {
              assert.equal(one.plan().usedBytes, counter)
              assert.deepEqual(metered.data, {
                bytes: counter - before.usedBytes,
                usedBytes: counter,
              })
              const waited: boolean = loggedAtMs === null || nowMs - loggedAtMs >= meteringIntervalMs
              const alarmed = alarm !== null && counter >= alarm
              // An exhaustion after a top-up that was too small has no new figure to pass.
              const exhausted = events.some(({ type }) => type === 'PlanExhausted')
              assert.ok(waited || alarmed || anyway || exhausted, 'it was written before it was due')
              loggedAtMs = nowMs
            } else if (alarm !== null)
              assert.ok(counter < alarm || counter === before.usedBytes, 'an alarm was missed')
            assert.deepEqual(one.meter(counter), [], 'the same counter again adds nothing')
          }
          const total = [...bought.values()].reduce((sum, bytes) => sum + bytes, 0)
          assert.equal(one.plan().totalBytes, total)
          assert.ok(one.plan().usedBytes <= counter)
          if (isLow(total, one.plan().usedBytes)) assert.ok(one.plan().low, 'a low plan was not reported')
          else assert.ok(!one.plan().low, 'it is low no more')
        }
        one.meter(counter, true)
        assert.equal(one.plan().usedBytes, counter)
        assert.equal(
          remainingBytes(one.plan()),
          Math.max(0, [...bought.values()].reduce((sum, bytes) => sum + bytes, 0) - counter),
        )
      }),
    )
  })

  test('that drops from half to zero reports low once, with its used bytes', () => {
    const used = bought
      .given(meter(2.5 * gb))
      .when(meter(6 * gb))
      .thenEvents('TrafficMetered', 'PlanExhausted', 'PlanRanLow')
    // Nothing more is due before five minutes.
    used.when(meter(7 * gb)).thenEvents()
    used
      .at(start + meteringIntervalMs)
      .when(meter(7 * gb))
      .thenEvents('TrafficMetered')
  })

  test('is exhausted with its last byte, and not before', () => {
    plan
      .when(order('ord_1'))
      .thenEvents('PlanActivated')
      .when(meter(5 * gb - 1))
      .thenEvents('TrafficMetered', 'PlanRanLow')
      .when(meter(5 * gb))
      .thenEvents('TrafficMetered', 'PlanExhausted')
  })

  test('has its counter checked when it becomes low, when it is used up, and when its time is over', () => {
    assert.deepEqual(alarmsOf(plan.state, start), { bytes: null, atMs: null }, 'before it is bought')
    let one = bought
    for (const [usedBytes, bytes] of [
      [0, 4.5 * gb],
      [4.5 * gb - 1, 4.5 * gb],
      [4.5 * gb, 5 * gb],
      [5 * gb - 1, 5 * gb],
      [5 * gb, null],
    ] as const) {
      one = one.given(meter(usedBytes, true))
      assert.deepEqual(alarmsOf(one.state, start), { bytes, atMs: null })
    }
    const { state } = plan.given(order('ord_1', timed))
    assert.deepEqual(alarmsOf(state, start), { bytes: null, atMs: start + 30 * dayMs })
    assert.deepEqual(alarmsOf(state, start + 30 * dayMs), { bytes: null, atMs: null })
  })

  test('reports its total and used bytes together with low', () => {
    const { planId, accountId, customerId, productId } = onePlan('ord_1')
    const terms = { planId, accountId, customerId, productId, expiresAt: null }
    bought.when(meter(4.6 * gb)).thenEvents('TrafficMetered', {
      type: 'PlanRanLow',
      data: { ...terms, totalBytes: 5 * gb, usedBytes: 4.6 * gb },
    })
  })

  test('is metered before five minutes have passed only on request', () => {
    const used = bought.given(meter(gb))
    used.when(meter(2 * gb)).thenEvents()
    used.when(meter(2 * gb, true)).thenEvents('TrafficMetered')
    used
      .at(start + dayMs)
      .when(meter(gb, true))
      .thenEvents()
  })

  test('has as many units of speed as were bought if it is sold by time, else none', () => {
    for (const [over, speedUnits] of [
      [{ ...timed, quantity: 3 }, 3],
      [{ quantity: 3 }, null],
    ] as const) {
      const [event] = plan.when(order('ord_1', over)).result.events
      assert.equal(event?.type === 'PlanActivated' && event.data.speedUnits, speedUnits)
    }
  })

  test('is low from the byte at which 10 % remain, and not before', () => {
    for (const total of [1, 9, 10, 11, 99, 5 * gb, 5 * gb + 1]) {
      // The fewest used bytes at which a plan of this total is low, by its alarm.
      const from = alarmsOf(plan.given(order('ord_1', { bytes: total })).state, start).bytes ?? 0
      assert.ok(isLow(total, from), `${total}`)
      assert.ok(from === 0 || !isLow(total, from - 1), `${total}`)
    }
    assert.ok(!isLow(null, 5), 'sold by time')
    assert.ok(!isLow(0, 0), 'refunds took everything')
  })

  test('is low again after a top-up ended it, and stays low when the top-up was too small', () => {
    const low = plan
      .given(order('ord_1', { bytes: 10 * gb }))
      .when(meter(9.5 * gb))
      .thenEvents('TrafficMetered', 'PlanRanLow')
    const stillLow = low.given(order('ord_2', { bytes: 100_000_000 }))
    assert.ok(stillLow.state.plan!.low)
    const full = stillLow.given(order('ord_3', { bytes: 10 * gb }))
    assert.ok(!full.state.plan!.low)
    full.when(meter(19 * gb)).thenEvents('TrafficMetered', 'PlanRanLow')
  })

  test('that a refund leaves with little is low with the refund', () => {
    bought
      .given(order('ord_2'), meter(4.6 * gb, true))
      .when(withdraw('ord_2'))
      .thenEvents('PlanUnitsWithdrawn', 'PlanRanLow')
    // A plan that nothing is left of is not low.
    bought.when(withdraw('ord_1')).thenEvents('PlanUnitsWithdrawn')
  })

  test('that is sold by time is metered once, when it ends', () => {
    const used = plan.given(order('ord_1', timed), meter(gb)).at(start + 30 * dayMs - 1)
    const late = used.given(meter(2 * gb))
    late.when(meter(3 * gb)).thenEvents()
    late
      .at(start + 30 * dayMs)
      .when(meter(3 * gb))
      .thenEvents('TrafficMetered')
      // What is late waits its five minutes.
      .when(meter(4 * gb))
      .thenEvents()
  })

  test('that is sold by time ends with its period and accepts no later order', () => {
    const held = plan.given(order('ord_1', { ...timed, quantity: 2 }))
    assert.equal(held.state.plan?.expiresAtMs, start + 30 * dayMs)
    held
      .at(start + 30 * dayMs)
      .when(order('ord_2'))
      .thenRefused({ reason: 'plan_expired' })
  })

  test('returns the unused part of a refunded order, once for each refund', () => {
    const withdrawn = { orderId: 'ord_1', refundId: 'ref_ord_1', bytes: 2 * gb }
    bought
      .given(meter(3 * gb))
      .when(withdraw('ord_1'))
      // Nothing of what is left is unused.
      .thenEvents({ type: 'PlanUnitsWithdrawn', data: withdrawn }, 'PlanRanLow')
      .when(withdraw('ord_1'))
      .thenEvents()
  })

  test('returns nothing twice for one refund, and nothing for an unknown order', () => {
    const refunded = bought.given(order('ord_2'), withdraw('ord_1'))
    assert.equal(remainingBytes(refunded.state.plan!), 5 * gb)
    refunded.when(withdraw('ord_1')).thenEvents()
    assert.deepEqual(withdraw('ord_1')(restarted(refunded.state), start), [])
    refunded.when(withdraw('ord_2', null)).thenEvents()
    plan.when(withdraw('ord_1')).thenEvents()
  })

  test("is never topped up by another account's order", () => {
    assert.throws(() => bought.when(order('ord_2', { accountId: 'acc_other' as never })))
  })
})
