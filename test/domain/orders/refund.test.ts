import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { customerPurse } from '../../../src/domain/ledger/fold.ts'
import { decidePlacement } from '../../../src/domain/orders/decide-placement.ts'
import type { RefundRequest } from '../../../src/domain/orders/refunds.ts'
import { decideRefund } from '../../../src/domain/orders/refunds.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import type { StockState } from '../../../src/domain/stock/fold.ts'
import fc from '../../support/fast-check.ts'
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
const paidCents = 100_000

const placed = (order: OrderDetails): World => {
  const ips = Array.from({ length: order.quantity }, (_, n) => `198.18.0.${n + 1}`)
  const funded = customerCredit(credit(emptyWorld, paidCents, start), paidCents, start)
  const world = stock(funded, ips, start)
  const { createdAt: _, ...draft } = order
  return appendTo(world, decidePlacement(statesFor(world, order), { draft, cap: null }, start).appends, start)
}

const refund = (world: World, order: OrderDetails, id: string, request: RefundRequest) => {
  const { appends, answer } = decideRefund(statesFor(world, order), id, request, start)
  return { world: appendTo(world, appends, start), answer }
}

/** What operators ask back, in any order: amounts, and addresses by their place in the order. */
const wanted = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('cents' as const), cents: fc.integer({ min: 1, max: 900 }) }),
    fc.record({
      kind: fc.constant('proxies' as const),
      places: fc.uniqueArray(fc.nat(7), { minLength: 1, maxLength: 3 }),
    }),
  ),
  { maxLength: 8 },
)
type Wanted = typeof wanted extends fc.Arbitrary<infer Value> ? Value : never

/** Refunds one after the other and then the rest; `check` checks the world after each. */
const refundAll = (
  order: OrderDetails,
  requests: Wanted,
  check: (states: ReturnType<typeof statesFor>) => void,
): ReturnType<typeof statesFor> => {
  let world = placed(order)
  const take = (id: string, request: RefundRequest): void => {
    world = refund(world, order, id, request).world
    check(statesFor(world, order))
  }
  for (const [n, request] of requests.entries()) {
    const { proxyIds = [] } = statesFor(world, order).order ?? {}
    const named = request.kind === 'proxies' ? request.places.flatMap((place) => proxyIds[place] ?? []) : []
    if (request.kind === 'cents') take(`ref_${n}`, request)
    else if (named.length > 0) take(`ref_${n}`, { kind: 'proxies', proxyIds: named })
  }
  take('ref_last', { kind: 'whole' })
  return statesFor(world, order)
}

describe('refunds', () => {
  test('in any mixture of amounts, addresses and the rest return what was paid, never more', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 2_000 }),
        wanted,
        (quantity, amountCents, requests) => {
          const order = addressOrder('ord_1', { quantity, amountCents })
          const before = paidCents - amountCents
          const { order: state, allocationOwner } = refundAll(order, requests, ({ ledger, order: after }) => {
            assert.ok(after)
            assert.ok(after.refundedCents <= amountCents)
            assert.equal(ledger.availableMicros, (before + after.refundedCents) * 10_000)
            assert.equal(after.status === 'refunded', after.refundedCents === amountCents)
          })
          assert.equal(state?.status, 'refunded')
          assert.equal((allocationOwner as StockState).rentals.size, 0)
        },
      ),
    )
  })

  test('of an order for a customer return to each side what it paid, in any mixture of parts', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 2_000 }),
        fc.integer({ min: 1, max: 2_000 }),
        wanted,
        (quantity, amountCents, costCents, requests) => {
          const order = forCustomer(addressOrder('ord_1', { quantity }), amountCents, costCents)
          const { order: state } = refundAll(order, requests, ({ ledger, order: after }) => {
            assert.ok(after)
            const backCents = after.refunds.reduce((sum, { costCents: cost = 0 }) => sum + cost, 0)
            assert.ok(after.refundedCents <= amountCents && backCents <= costCents)
            assert.equal(after.refundedCostCents, backCents)
            const { availableMicros: creditMicros } = customerPurse(ledger, customer)
            assert.equal(creditMicros, (paidCents - amountCents + after.refundedCents) * 10_000)
            assert.equal(ledger.availableMicros, (paidCents - costCents + backCents) * 10_000)
            if (after.status === 'refunded') assert.equal(backCents, costCents)
          })
          assert.equal(state?.status, 'refunded')
        },
      ),
    )
  })

  test('by amounts return the same share of the cost and of the price, to half a cent', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2_000 }),
        fc.integer({ min: 1, max: 2_000 }),
        fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 8 }),
        (amountCents, costCents, amounts) => {
          const order = forCustomer(addressOrder('ord_1'), amountCents, costCents)
          const requests = amounts.map((cents) => ({ kind: 'cents' as const, cents }))
          refundAll(order, requests, ({ order: after }) => {
            const { refundedCents, refundedCostCents } = after!
            const off = Math.abs(refundedCostCents * amountCents - costCents * refundedCents)
            assert.ok(2 * off <= amountCents, `${refundedCostCents} of ${costCents}`)
          })
        },
      ),
    )
  })

  test('of exactly the remaining amount end the order, as a refund of the whole does', () => {
    const order = addressOrder('ord_1')
    const part = refund(placed(order), order, 'ref_1', { kind: 'cents', cents: 100 })
    const rest = refund(part.world, order, 'ref_2', { kind: 'cents', cents: 400 })
    const { order: state, allocationOwner } = statesFor(rest.world, order)
    assert.equal(state?.status, 'refunded')
    assert.equal((allocationOwner as StockState).rentals.size, 0)
  })

  test('store the reason that the operator gave', () => {
    const order = addressOrder('ord_1')
    for (const reference of ['ticket 7', undefined]) {
      const request: RefundRequest = { kind: 'whole', ...(reference !== undefined && { reference }) }
      const { appends } = decideRefund(statesFor(placed(order), order), 'ref_1', request, start)
      const decided = appends.flatMap(({ events }) => events).find(({ type }) => type === 'RefundDecided')
      assert.equal(decided && (decided.data as { reference?: string }).reference, reference)
    }
  })

  test('of an order for a customer, address by address, add up to both sums', () => {
    const order = forCustomer(addressOrder('ord_1', { quantity: 3 }), 1_000, 700)
    let world = placed(order)
    const parts: (number | undefined)[][] = []
    for (const [n, proxyId] of (statesFor(world, order).order?.proxyIds ?? []).entries()) {
      const back = refund(world, order, `ref_${n}`, { kind: 'proxies', proxyIds: [proxyId] })
      world = back.world
      const landed = statesFor(world, order).order?.refunds.at(-1)
      parts.push([landed?.amountCents, landed?.costCents])
    }
    assert.deepEqual(parts, [
      [333, 233],
      [334, 234],
      [333, 233],
    ])
  })

  test('of one address end its rental and leave the others', () => {
    const order = addressOrder('ord_1', { quantity: 3, amountCents: 1000 })
    const world = placed(order)
    const proxyIds = statesFor(world, order).order?.proxyIds ?? []
    const first = refund(world, order, 'ref_1', { kind: 'proxies', proxyIds: proxyIds.slice(0, 1) })
    assert.equal(first.answer.kind === 'refunded' && first.answer.amountCents, 333)
    const { rentals } = statesFor(first.world, order).allocationOwner as StockState
    assert.deepEqual([...rentals.keys()].sort(), [...proxyIds.slice(1)].sort())
  })

  test('of one address after an amount share what is left, and leave the other rentals', () => {
    const order = addressOrder('ord_1', { quantity: 3, amountCents: 900 })
    const part = refund(placed(order), order, 'ref_1', { kind: 'cents', cents: 600 })
    const proxyIds = statesFor(part.world, order).order?.proxyIds ?? []
    const one = refund(part.world, order, 'ref_2', { kind: 'proxies', proxyIds: proxyIds.slice(0, 1) })
    assert.equal(one.answer.kind === 'refunded' && one.answer.amountCents, 100)
    const { order: after, allocationOwner } = statesFor(one.world, order)
    assert.equal(after?.status, 'completed')
    assert.deepEqual(
      [...(allocationOwner as StockState).rentals.keys()].sort(),
      [...proxyIds.slice(1)].sort(),
    )
  })

  test('of some addresses end no other rental, whatever was refunded before', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 8 }),
        fc.integer({ min: 1, max: 2_000 }),
        fc.integer({ min: 1, max: 2_000 }),
        fc.integer({ min: 1, max: 7 }),
        (quantity, amountCents, beforeCents, count) => {
          fc.pre(count < quantity)
          const order = addressOrder('ord_1', { quantity, amountCents })
          const part = refund(placed(order), order, 'ref_1', { kind: 'cents', cents: beforeCents })
          fc.pre(statesFor(part.world, order).order?.status !== 'refunded')
          const proxyIds = statesFor(part.world, order).order?.proxyIds.slice(0, count) ?? []
          const some = refund(part.world, order, 'ref_2', { kind: 'proxies', proxyIds })
          const { rentals } = statesFor(some.world, order).allocationOwner as StockState
          assert.equal(rentals.size, some.answer.kind === 'refunded' ? quantity - count : quantity)
        },
      ),
    )
  })

  test('of a whole plan take its traffic back, and of a part do not', () => {
    const order = planOrder('ord_1')
    const withdrawn = (request: RefundRequest): boolean =>
      decideRefund(statesFor(placed(order), order), 'ref_1', request, start).appends.some(({ events }) =>
        events.some(({ type }) => type === 'PlanUnitsWithdrawn'),
      )
    assert.deepEqual([withdrawn({ kind: 'whole' }), withdrawn({ kind: 'cents', cents: 1 })], [true, false])
  })

  test('with the id of a completed refund move nothing', () => {
    const order = addressOrder('ord_1')
    const once = refund(placed(order), order, 'ref_1', { kind: 'cents', cents: 100 })
    const again = refund(once.world, order, 'ref_1', { kind: 'cents', cents: 100 })
    assert.equal(again.answer.kind, 'already_applied')
    assert.deepEqual(again.world, once.world)
  })

  test('of more than the remaining amount are refused with that amount', () => {
    const order = addressOrder('ord_1')
    const { answer } = refund(placed(order), order, 'ref_1', { kind: 'cents', cents: 501 })
    assert.deepEqual(answer, { kind: 'refused', reason: 'only 500 cents of the order are left to refund' })
  })

  test('of an order that does not exist, is unpaid or is refunded already are refused with the reason', () => {
    const order = addressOrder('ord_1')
    const reasonOf = (states: ReturnType<typeof statesFor>): string | undefined => {
      const { answer } = decideRefund(states, 'ref_2', { kind: 'whole' }, start)
      return answer.kind === 'refused' ? answer.reason : undefined
    }
    assert.equal(reasonOf(statesFor(emptyWorld, order)), 'there is no such order')
    const states = statesFor(placed(order), order)
    assert.equal(
      reasonOf({ ...states, order: { ...states.order!, paid: false } }),
      'nothing was paid for the order',
    )
    const { world } = refund(placed(order), order, 'ref_1', { kind: 'whole' })
    assert.equal(reasonOf(statesFor(world, order)), 'nothing of the order is left to refund')
  })
})
