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
import type { FoldedEvent } from '../../../src/kernel/decider.ts'
import fc from '../../support/fast-check.ts'
import { planOrder } from '../../support/world.ts'

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
/** The fewest used bytes at which a plan of this total is low, by its alarm. */
const lowFrom = (total: number): number =>
  alarmsOf(ordered(planFold.initial, onePlan('ord_1', { bytes: total })), start).bytes ?? 0
const onePlan = (orderId: string, over: Partial<OrderDetails> = {}) =>
  planOrder(orderId, { planId: planOrder('ord_held').planId, ...over })

/** The log of a plan with its time, as its counter and its orders write it. */
const life = () => {
  let state: PlanState = planFold.initial
  let nowMs = start
  const types: string[] = []
  const write = (events: readonly PlanEvent[]): readonly PlanEvent[] => {
    state = after(state, events, nowMs)
    types.push(...events.map(({ type }) => type))
    return events
  }
  return {
    state: () => state,
    plan: () => state.plan!,
    types,
    wait: (ms: number) => {
      nowMs += ms
    },
    order: (id: string, over: Partial<OrderDetails> = {}) =>
      write(decidePlanOrder(state, onePlan(id, over), nowMs).events),
    meter: (usedBytes: number, anyway = false) => write(decideMetering(state, { usedBytes, anyway }, nowMs)),
    withdraw: (id: string, bytes: number) =>
      write(decideWithdrawal(state, { order: onePlan(id, { bytes }), refundId: `ref_${id}` }, nowMs)),
    alarms: () => alarmsOf(state, nowMs),
    restart: () => {
      state = planFold.snapshot!.fromText(planFold.snapshot!.toText(state))
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
    const one = life()
    one.order('ord_1')
    one.meter(2.5 * gb)
    assert.deepEqual(
      one.meter(6 * gb).map(({ type }) => type),
      ['TrafficMetered', 'PlanExhausted', 'PlanRanLow'],
    )
    assert.deepEqual(one.meter(7 * gb), [], 'nothing more is due before five minutes')
    one.wait(meteringIntervalMs)
    assert.deepEqual(
      one.meter(7 * gb).map(({ type }) => type),
      ['TrafficMetered'],
    )
  })

  test('is exhausted with its last byte, and not before', () => {
    const one = life()
    one.order('ord_1')
    one.meter(5 * gb - 1)
    assert.deepEqual(one.types, ['PlanActivated', 'TrafficMetered', 'PlanRanLow'])
    assert.deepEqual(
      one.meter(5 * gb).map(({ type }) => type),
      ['TrafficMetered', 'PlanExhausted'],
    )
  })

  test('has its counter checked when it becomes low, when it is used up, and when its time is over', () => {
    const one = life()
    assert.deepEqual(one.alarms(), { bytes: null, atMs: null }, 'before it is bought')
    one.order('ord_1')
    const alarms = [0, 4.5 * gb - 1, 4.5 * gb, 5 * gb - 1, 5 * gb].map((usedBytes) => {
      one.meter(usedBytes, true)
      return one.alarms()
    })
    assert.deepEqual(
      alarms,
      [4.5 * gb, 4.5 * gb, 5 * gb, 5 * gb, null].map((bytes) => ({ bytes, atMs: null })),
    )
    const timed = life()
    timed.order('ord_1', { shape: 'gateway_time', renewal: 'repurchase', bytes: null, periodDays: 30 })
    assert.deepEqual(timed.alarms(), { bytes: null, atMs: start + 30 * dayMs })
    timed.wait(30 * dayMs)
    assert.deepEqual(timed.alarms(), { bytes: null, atMs: null })
  })

  test('reports its total and used bytes together with low', () => {
    const one = life()
    one.order('ord_1')
    const low = one.meter(4.6 * gb).find(({ type }) => type === 'PlanRanLow')
    const { planId, accountId, customerId, productId } = onePlan('ord_1')
    assert.deepEqual(low?.data, {
      ...{ planId, accountId, customerId, productId },
      ...{ totalBytes: 5 * gb, usedBytes: 4.6 * gb, expiresAt: null },
    })
  })

  test('is metered before five minutes have passed only on request', () => {
    const one = life()
    one.order('ord_1')
    one.meter(gb)
    assert.deepEqual(decideMetering(one.state(), { usedBytes: 2 * gb }, start), [])
    assert.equal(decideMetering(one.state(), { usedBytes: 2 * gb, anyway: true }, start).length, 1)
    assert.deepEqual(decideMetering(one.state(), { usedBytes: gb, anyway: true }, start + dayMs), [])
  })

  test('has as many units of speed as were bought if it is sold by time, else none', () => {
    const timed = { shape: 'gateway_time', renewal: 'repurchase', bytes: null, periodDays: 30 } as const
    for (const [over, speedUnits] of [
      [{ ...timed, quantity: 3 }, 3],
      [{ quantity: 3 }, null],
    ] as const) {
      const [event] = decidePlanOrder(planFold.initial, onePlan('ord_1', over), start).events
      assert.equal(event?.type === 'PlanActivated' && event.data.speedUnits, speedUnits)
    }
  })

  test('is low from the byte at which 10 % remain, and not before', () => {
    for (const total of [1, 9, 10, 11, 99, 5 * gb, 5 * gb + 1]) {
      const from = lowFrom(total)
      assert.ok(isLow(total, from), `${total}`)
      assert.ok(from === 0 || !isLow(total, from - 1), `${total}`)
    }
    assert.ok(!isLow(null, 5), 'sold by time')
    assert.ok(!isLow(0, 0), 'refunds took everything')
  })

  test('is low again after a top-up ended it, and stays low when the top-up was too small', () => {
    const one = life()
    one.order('ord_1', { bytes: 10 * gb })
    one.meter(9.5 * gb)
    one.order('ord_2', { bytes: 100_000_000 })
    assert.ok(one.plan().low)
    one.order('ord_3', { bytes: 10 * gb })
    assert.ok(!one.plan().low)
    assert.ok(one.meter(19 * gb).some(({ type }) => type === 'PlanRanLow'))
    assert.equal(one.types.filter((type) => type === 'PlanRanLow').length, 2)
  })

  test('that a refund leaves with little is low with the refund', () => {
    const one = life()
    one.order('ord_1')
    one.order('ord_2')
    one.meter(4.6 * gb, true)
    assert.deepEqual(
      one.withdraw('ord_2', 5 * gb).map(({ type }) => type),
      ['PlanUnitsWithdrawn', 'PlanRanLow'],
    )
    const unused = life()
    unused.order('ord_1')
    assert.deepEqual(
      unused.withdraw('ord_1', 5 * gb).map(({ type }) => type),
      ['PlanUnitsWithdrawn'],
      'a plan that nothing is left of is not low',
    )
  })

  test('that is sold by time is metered once, when it ends', () => {
    const one = life()
    one.order('ord_1', { shape: 'gateway_time', renewal: 'repurchase', bytes: null, periodDays: 30 })
    one.meter(gb)
    one.wait(30 * dayMs - 1)
    one.meter(2 * gb)
    assert.deepEqual(one.meter(3 * gb), [])
    one.wait(1)
    assert.deepEqual(
      one.meter(3 * gb).map(({ type }) => type),
      ['TrafficMetered'],
    )
    assert.deepEqual(one.meter(4 * gb), [], 'what is late waits its five minutes')
  })

  test('that is sold by time ends with its period and accepts no later order', () => {
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

  test('returns the unused part of a refunded order, once for each refund', () => {
    let state = ordered(planFold.initial, onePlan('ord_1'))
    state = after(state, decideMetering(state, { usedBytes: 3 * gb }, start))
    const withdrawal = { order: onePlan('ord_1'), refundId: 'ref_1' }
    const events = decideWithdrawal(state, withdrawal, start)
    assert.deepEqual(events[0], {
      type: 'PlanUnitsWithdrawn',
      data: { orderId: 'ord_1', refundId: 'ref_1', bytes: 2 * gb },
    })
    assert.equal(events[1]?.type, 'PlanRanLow', 'nothing of what is left is unused')
    assert.deepEqual(decideWithdrawal(after(state, events), withdrawal, start), [])
  })

  test('returns nothing twice for one refund, and nothing for an unknown order', () => {
    let state = ordered(ordered(planFold.initial, onePlan('ord_1')), onePlan('ord_2'))
    const withdrawal = { order: onePlan('ord_1'), refundId: 'ref_1' }
    state = after(state, decideWithdrawal(state, withdrawal, start))
    assert.equal(remainingBytes(state.plan!), 5 * gb)
    const restored = planFold.snapshot!.fromText(planFold.snapshot!.toText(state))
    for (const known of [state, restored]) assert.deepEqual(decideWithdrawal(known, withdrawal, start), [])
    const bare = { order: onePlan('ord_2', { bytes: null }), refundId: 'ref_2' }
    assert.deepEqual(decideWithdrawal(state, bare, start), [])
    assert.deepEqual(decideWithdrawal(planFold.initial, withdrawal, start), [])
  })

  test("is never topped up by another account's order", () => {
    const state = ordered(planFold.initial, onePlan('ord_1'))
    assert.throws(() => decidePlanOrder(state, onePlan('ord_2', { accountId: 'acc_other' as never }), start))
  })
})
