import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { customerCreditOf } from '../../src/ledger/state.ts'
import type { OrderDetails } from '../../src/orders/details.ts'
import { decidePlacement } from '../../src/orders/place.ts'
import { decideRefund, partsCents, type RefundRequest } from '../../src/orders/refund.ts'
import type { StockState } from '../../src/stock/fold.ts'
import {
  addressOrder,
  appendTo,
  credit,
  customer,
  customerCredit,
  emptyWorld,
  forCustomer,
  statesFor,
  stock,
  type World,
} from '../support/world.ts'

const start = 1_800_000_000_000
const paidCents = 100_000

const placed = (order: OrderDetails): World => {
  const ips = Array.from({ length: order.quantity }, (_, n) => `198.18.0.${n + 1}`)
  const funded = customerCredit(credit(emptyWorld, paidCents, start), paidCents, start)
  const world = stock(funded, ips, start)
  const { createdAt: _, ...draft } = order
  return appendTo(
    world,
    decidePlacement(statesFor(world, order), { draft, capCents: null }, start).appends,
    start,
  )
}

const refund = (world: World, order: OrderDetails, id: string, request: RefundRequest) => {
  const { appends, answer } = decideRefund(statesFor(world, order), id, request, start)
  return { world: appendTo(world, appends, start), answer }
}

describe('refunds', () => {
  test('equal parts of any amount add up to the whole', () => {
    fc.assert(
      fc.property(fc.nat(5_000_000), fc.integer({ min: 1, max: 500 }), (amountCents, quantity) => {
        let sum = 0
        for (let n = 0; n < quantity; n += 1)
          sum += partsCents(amountCents, n + 1, quantity) - partsCents(amountCents, n, quantity)
        assert.equal(sum, amountCents)
      }),
    )
  })

  test('in any mixture of amounts, addresses and the rest give back what was paid, never more', () => {
    const request = fc.oneof(
      fc.record({ kind: fc.constant('cents' as const), cents: fc.integer({ min: 1, max: 900 }) }),
      fc.record({
        kind: fc.constant('proxies' as const),
        first: fc.nat(7),
        count: fc.integer({ min: 1, max: 3 }),
      }),
    )
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 2_000 }),
        fc.array(request, { maxLength: 8 }),
        (quantity, amountCents, requests) => {
          const order = addressOrder('ord_1', { quantity, amountCents })
          let world = placed(order)
          const before = paidCents - amountCents
          const check = () => {
            const { ledger, order: state } = statesFor(world, order)
            assert.ok(state)
            assert.ok(state.refundedCents <= amountCents)
            assert.equal(ledger.availableMicros, (before + state.refundedCents) * 10_000)
            assert.equal(state.status === 'refunded', state.refundedCents === amountCents)
          }
          for (const [n, asked] of requests.entries()) {
            const { order: state } = statesFor(world, order)
            const given: RefundRequest =
              asked.kind === 'cents'
                ? asked
                : {
                    kind: 'proxies',
                    proxyIds: state?.proxyIds.slice(asked.first, asked.first + asked.count) ?? [],
                  }
            if (given.kind === 'proxies' && given.proxyIds.length === 0) continue
            world = refund(world, order, `ref_${n}`, given).world
            check()
          }
          world = refund(world, order, 'ref_last', { kind: 'whole' }).world
          check()
          const { order: state, arbiter } = statesFor(world, order)
          assert.equal(state?.status, 'refunded')
          assert.equal((arbiter as StockState).rentals.size, 0)
        },
      ),
    )
  })

  test('of an order for a customer give each side back what it paid, in any mixture of parts', () => {
    const request = fc.oneof(
      fc.record({ kind: fc.constant('cents' as const), cents: fc.integer({ min: 1, max: 900 }) }),
      fc.record({
        kind: fc.constant('proxies' as const),
        first: fc.nat(7),
        count: fc.integer({ min: 1, max: 3 }),
      }),
    )
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 2_000 }),
        fc.integer({ min: 1, max: 2_000 }),
        fc.array(request, { maxLength: 8 }),
        (quantity, amountCents, costCents, requests) => {
          const order = forCustomer(addressOrder('ord_1', { quantity }), amountCents, costCents)
          let world = placed(order)
          const check = () => {
            const { ledger, order: state } = statesFor(world, order)
            assert.ok(state)
            const backCents = state.refunds.reduce((sum, { costCents: cost = 0 }) => sum + cost, 0)
            assert.ok(state.refundedCents <= amountCents && backCents <= costCents)
            const { creditMicros } = customerCreditOf(ledger, customer)
            assert.equal(creditMicros, (paidCents - amountCents + state.refundedCents) * 10_000)
            assert.equal(ledger.availableMicros, (paidCents - costCents + backCents) * 10_000)
            if (state.status === 'refunded') assert.equal(backCents, costCents)
          }
          for (const [n, asked] of requests.entries()) {
            const proxyIds = statesFor(world, order).order?.proxyIds ?? []
            const given: RefundRequest =
              asked.kind === 'cents'
                ? asked
                : { kind: 'proxies', proxyIds: proxyIds.slice(asked.first, asked.first + asked.count) }
            if (given.kind === 'proxies' && given.proxyIds.length === 0) continue
            world = refund(world, order, `ref_${n}`, given).world
            check()
          }
          world = refund(world, order, 'ref_last', { kind: 'whole' }).world
          check()
          assert.equal(statesFor(world, order).order?.status, 'refunded')
        },
      ),
    )
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

  test('of one address end that rental and leave the others', () => {
    const order = addressOrder('ord_1', { quantity: 3, amountCents: 1000 })
    const world = placed(order)
    const proxyIds = statesFor(world, order).order?.proxyIds ?? []
    const first = refund(world, order, 'ref_1', { kind: 'proxies', proxyIds: proxyIds.slice(0, 1) })
    assert.equal(first.answer.kind === 'refunded' && first.answer.amountCents, 333)
    const { rentals } = statesFor(first.world, order).arbiter as StockState
    assert.deepEqual([...rentals.keys()].sort(), [...proxyIds.slice(1)].sort())
  })

  test('with the id of one that landed move nothing', () => {
    const order = addressOrder('ord_1')
    const once = refund(placed(order), order, 'ref_1', { kind: 'cents', cents: 100 })
    const again = refund(once.world, order, 'ref_1', { kind: 'cents', cents: 100 })
    assert.equal(again.answer.kind, 'already_applied')
    assert.deepEqual(again.world, once.world)
  })

  test('of more than is left are refused with what is left', () => {
    const order = addressOrder('ord_1')
    const { answer } = refund(placed(order), order, 'ref_1', { kind: 'cents', cents: 501 })
    assert.deepEqual(answer, { kind: 'refused', reason: 'only 500 cents of the order are left to refund' })
  })

  test('of an order that does not exist are refused', () => {
    const { answer } = refund(emptyWorld, addressOrder('ord_1'), 'ref_1', { kind: 'whole' })
    assert.equal(answer.kind, 'refused')
  })
})
