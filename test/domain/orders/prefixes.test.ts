import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { customerPurse } from '../../../src/domain/ledger/fold.ts'
import { decideCompletion } from '../../../src/domain/orders/decide-completion.ts'
import { allocationOwnerOf, decidePlacement } from '../../../src/domain/orders/decide-placement.ts'
import { decideRefund } from '../../../src/domain/orders/refunds.ts'
import type { PlanState } from '../../../src/domain/plans/fold.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import type { StockState } from '../../../src/domain/stock/fold.ts'
import type { Appends } from '../../../src/kernel/decider.ts'
import { findRemembered } from '../../../src/kernel/recent-ids.ts'
import {
  addressOrder,
  appendTo,
  credit,
  customer,
  customerCredit,
  emptyWorld,
  forCustomer,
  planOrder,
  statesFor,
  stock,
  type World,
} from '../../support/world.ts'

const start = 1_800_000_000_000
const later = start + 60_000

/** A decision's appends as a log without atomic writes would leave them after a crash: each prefix, none and all too. */
const prefixesOf = (appends: Appends) =>
  Array.from({ length: appends.length + 1 }, (_, length) => appends.slice(0, length))

const debitOf = (order: OrderDetails, world: World) => {
  const { ledger } = statesFor(world, order)
  return { order, availableAfterMicros: ledger.availableMicros }
}

/** Completes until nothing is left to do; a flow that never ends would be a bug. */
const completed = (world: World, order: OrderDetails, atMs = later): World => {
  const debit = debitOf(order, world)
  let now = world
  for (let step = 0; step < 10; step += 1) {
    const { appends } = decideCompletion(statesFor(now, order), debit, atMs)
    if (appends.length === 0) return now
    // One append a step is the slowest crash of all.
    now = appendTo(now, appends.slice(0, 1), atMs)
  }
  throw new Error('the order is never completed')
}

const ends = (world: World, order: OrderDetails) => {
  const states = statesFor(world, order)
  return {
    status: states.order?.status,
    refundedCents: states.order?.refundedCents,
    proxyIds: states.order?.proxyIds,
    availableMicros: states.ledger.availableMicros,
    creditMicros: customerPurse(states.ledger, customer).availableMicros,
  }
}

const place = (world: World, order: OrderDetails) => {
  const { createdAt: _, ...draft } = order
  return decidePlacement(statesFor(world, order), { draft, cap: null }, start)
}

describe('every prefix of a placed order', () => {
  for (const [name, order, world] of [
    [
      'of addresses',
      addressOrder('ord_a'),
      stock(credit(emptyWorld, 1_000, start), ['198.18.0.1', '198.18.0.2'], start),
    ],
    ['of a fresh plan', planOrder('ord_b'), credit(emptyWorld, 2_000, start)],
    [
      'of addresses for a customer',
      forCustomer(addressOrder('ord_c')),
      customerCredit(
        stock(credit(emptyWorld, 1_000, start), ['198.18.0.1', '198.18.0.2'], start),
        700,
        start,
      ),
    ],
  ] as const) {
    const decision = place(world, order)
    const whole = ends(appendTo(world, decision.appends, start), order)
    for (const prefix of prefixesOf(decision.appends).slice(1))
      test(`${name}, cut after ${prefix.length} of ${decision.appends.length} appends, ends as the complete one does`, () => {
        assert.equal(decision.answer.kind, 'placed')
        const cut = appendTo(world, prefix, start)
        assert.deepEqual(ends(completed(cut, order), order), whole)
      })
  }

  test('that lost the race for the last address fails and is fully refunded', () => {
    const world = stock(credit(emptyWorld, 1_000, start), ['198.18.0.1', '198.18.0.2'], start)
    const order = addressOrder('ord_slow')
    const debitOnly = appendTo(world, place(world, order).appends.slice(0, 1), start)
    const rival = addressOrder('ord_fast')
    const taken = appendTo(debitOnly, place(debitOnly, rival).appends, start)
    const end = completed(taken, order)
    const slow = ends(end, order)
    assert.equal(slow.status, 'refunded')
    assert.equal(slow.refundedCents, 500)
    assert.equal(slow.availableMicros, 500 * 10_000)
    assert.equal(ends(end, rival).status, 'completed')
  })

  test('for a customer that lost the race for the last address returns both sides', () => {
    const funded = customerCredit(credit(emptyWorld, 2_000, start), 700, start)
    const world = stock(funded, ['198.18.0.1', '198.18.0.2'], start)
    const order = forCustomer(addressOrder('ord_slow'))
    const chargeOnly = appendTo(world, place(world, order).appends.slice(0, 1), start)
    const rival = addressOrder('ord_fast')
    const end = completed(appendTo(chargeOnly, place(chargeOnly, rival).appends, start), order)
    const slow = ends(end, order)
    assert.deepEqual([slow.status, slow.refundedCents], ['refunded', 650])
    assert.deepEqual([slow.availableMicros, slow.creditMicros], [1_500 * 10_000, 700 * 10_000])
  })

  test('with a recorded refusal is never allocated later, even if stock returns', () => {
    const order = addressOrder('ord_late')
    const world = credit(emptyWorld, 1_000, start)
    const full = stock(world, ['198.18.0.1', '198.18.0.2'], start)
    const debited = appendTo(world, place(full, order).appends.slice(0, 1), start)
    const refusal = decideCompletion(statesFor(debited, order), debitOf(order, debited), later)
    const recorded = appendTo(debited, refusal.appends.slice(0, 1), later)
    const restocked = stock(recorded, ['198.18.0.8', '198.18.0.9'], later)
    assert.equal(ends(completed(restocked, order), order).status, 'refunded')
    const { rentals } = statesFor(completed(restocked, order), order).allocationOwner as StockState
    assert.equal(rentals.size, 0)
  })

  const day = 24 * 60 * 60 * 1000
  const rented = addressOrder('ord_rented')
  const held = planOrder('ord_held', { periodDays: 30 })
  const before = (first: OrderDetails): World => {
    const world = stock(credit(emptyWorld, 5_000, start), ['198.18.0.1', '198.18.0.2'], start)
    return appendTo(world, place(world, first).appends, start)
  }
  const { proxyIds = [] } = ends(before(rented), rented)
  const extension = { kind: 'extension', proxyIds } as const
  for (const [reason, first, order] of [
    ['rental_ended', rented, addressOrder('ord_x', extension)],
    ['plan_expired', held, planOrder('ord_x', { kind: 'topup', planId: held.planId })],
  ] as const)
    test(`that is paid when it can no longer be fulfilled states the reason, ${reason}, also in its allocation owner, and is fully refunded`, () => {
      const world = before(first)
      const { appends, answer } = place(world, order)
      assert.equal(answer.kind, 'placed')
      const debited = appendTo(world, appends.slice(0, 1), start)
      const after = completed(debited, order, start + 40 * day)
      const { order: failed, allocationOwner, ledger } = statesFor(after, order)
      assert.deepEqual([failed?.status, failed?.failureReason], ['refunded', reason])
      assert.equal(failed?.refundedCents, order.amountCents)
      assert.equal(ledger.availableMicros, statesFor(world, order).ledger.availableMicros)
      const { answers } = allocationOwner as StockState | PlanState
      assert.deepEqual(findRemembered<unknown>(answers, order.orderId), { outcome: 'refused', reason })
    })
})

describe('every prefix of a refund', () => {
  for (const [name, request, order] of [
    ['whole', { kind: 'whole' }, addressOrder('ord_r')],
    ['of an amount', { kind: 'cents', cents: 123 }, addressOrder('ord_r')],
    ['whole to both sides', { kind: 'whole' }, forCustomer(addressOrder('ord_r'))],
    ['of an amount to both sides', { kind: 'cents', cents: 123 }, forCustomer(addressOrder('ord_r'))],
  ] as const) {
    const funded = customerCredit(credit(emptyWorld, 1_000, start), 700, start)
    const stocked = stock(funded, ['198.18.0.1', '198.18.0.2'], start)
    const world = appendTo(stocked, place(stocked, order).appends, start)
    const decision = decideRefund(statesFor(world, order), 'ref_1', request, start)
    const whole = ends(appendTo(world, decision.appends, start), order)
    for (const prefix of prefixesOf(decision.appends).slice(1))
      test(`${name}, cut after ${prefix.length} of ${decision.appends.length} appends, ends as the complete one does`, () => {
        assert.equal(decision.answer.kind, 'refunded')
        assert.deepEqual(ends(completed(appendTo(world, prefix, start), order), order), whole)
      })
  }
})

describe('a refund that is completed more than seven days after its decision', () => {
  const day = 24 * 60 * 60 * 1000
  for (const [name, order] of [
    ['of an own order', addressOrder('ord_l')],
    ['of an order for a customer', forCustomer(addressOrder('ord_l'))],
  ] as const) {
    const funded = customerCredit(credit(emptyWorld, 1_000, start), 700, start)
    const stocked = stock(funded, ['198.18.0.1', '198.18.0.2'], start)
    const world = appendTo(stocked, place(stocked, order).appends, start)
    const request = { kind: 'whole' } as const
    const { appends } = decideRefund(statesFor(world, order), 'ref_1', request, start)
    for (const paid of [false, true])
      test(`${name} is ${paid ? 'not paid again' : 'paid'}, by the whole wallet stream`, () => {
        let cut = appendTo(world, appends.slice(0, paid ? 2 : 1), start)
        const before = ends(cut, order)
        // Movements of later days make the wallet forget.
        for (let n = 0; n < 4; n += 1)
          cut = customerCredit(credit(cut, 1, start + 9 * day + n), 1, start + 9 * day + n)
        const late = start + 10 * day
        const debit = debitOf(order, cut)
        assert.deepEqual(decideCompletion(statesFor(cut, order), debit, late), {
          appends: [],
          answer: { kind: 'needs', refundIds: ['ref_1'], extensionIds: [] },
        })
        const evidence = new Map([['ref_1', paid]])
        const finished = decideCompletion(statesFor(cut, order), debit, late, evidence)
        const after = ends(appendTo(cut, finished.appends, late), order)
        assert.equal(after.status, 'refunded')
        const moved = finished.appends.filter(({ stream }) => stream.startsWith('ledger-'))
        assert.equal(moved.length, paid ? 0 : 1)
        assert.equal(before.status, 'completed')
      })
  }
})

test('an allocation owner is one stream: the stock of the product and country, or the plan', () => {
  assert.equal(allocationOwnerOf(addressOrder('ord_a')).stream, 'stock-isp-static-USA')
  assert.match(allocationOwnerOf(planOrder('ord_b')).stream, /^plan-pln_/)
})
