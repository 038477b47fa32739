import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decideCompletion } from '../../../src/domain/orders/decide-completion.ts'
import { decidePlacement } from '../../../src/domain/orders/decide-placement.ts'
import { hasUnrefundedAmount, noEvidence } from '../../../src/domain/orders/extended-rentals.ts'
import type { RefundRequest } from '../../../src/domain/orders/refunds.ts'
import { decideRefund } from '../../../src/domain/orders/refunds.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import { type StockState, stockFold } from '../../../src/domain/stock/fold.ts'
import type { ProxyId } from '../../../src/kernel/ids.ts'
import { orderStream } from '../../../src/kernel/streams.ts'
import {
  addressOrder,
  appendTo,
  credit,
  customerCredit,
  emptyWorld,
  forCustomer,
  statesFor,
  stock,
  type World,
} from '../../support/world.ts'

const start = 1_800_000_000_000
const dayMs = 24 * 60 * 60 * 1000
const whole = { kind: 'whole' } as const

const funded = stock(
  customerCredit(credit(emptyWorld, 10_000, start), 10_000, start),
  ['198.18.0.1', '198.18.0.2', '198.18.0.3'],
  start,
)

const placement = (world: World, order: OrderDetails, atMs: number) => {
  const { createdAt: _, ...draft } = order
  return decidePlacement(statesFor(world, order), { draft, cap: null }, atMs)
}

const place = (world: World, order: OrderDetails, atMs: number): World => {
  const { appends, answer } = placement(world, order, atMs)
  assert.equal(answer.kind, 'placed', JSON.stringify(answer))
  return appendTo(world, appends, atMs)
}

/** The streams of extensions, as the service reads them. */
const evidenceOf = (world: World, orders: readonly OrderDetails[]): ReadonlyMap<string, boolean> =>
  new Map(
    orders.flatMap((extension) => {
      const { order } = statesFor(world, extension)
      return order ? [[extension.orderId, hasUnrefundedAmount(order)] as const] : []
    }),
  )

const rentalsOf = (world: World) => (statesFor(world, bought).allocationOwner as StockState).rentals

const bought = addressOrder('ord_bought')
const boughtWorld = place(funded, bought, start)
const [first, second] = statesFor(boughtWorld, bought).order!.proxyIds as [ProxyId, ProxyId]
const extending = (orderId: string, ...proxyIds: ProxyId[]): OrderDetails =>
  addressOrder(orderId, { kind: 'extension', proxyIds, quantity: proxyIds.length })

describe('the refund of an order whose rental was extended', () => {
  const extension = extending('ord_extension', first)
  const extended = place(boughtWorld, extension, start + dayMs)
  const later = start + 2 * dayMs

  const refund = (world: World, order: OrderDetails, id: string, request: RefundRequest, atMs = later) => {
    const evidence = evidenceOf(world, [extension])
    const { appends, answer } = decideRefund(statesFor(world, order), id, request, atMs, evidence)
    return { world: appendTo(world, appends, atMs), answer, appends }
  }

  for (const [name, request] of [
    ['whole', whole],
    ['of all its price', { kind: 'cents', cents: 500 }],
    ['of the extended address', { kind: 'proxies', proxyIds: [first] }],
    ['of both its addresses', { kind: 'proxies', proxyIds: [first, second] }],
  ] as const)
    test(`${name}, is refused, names the extension and moves nothing`, () => {
      const { answer, appends } = refund(extended, bought, 'ref_1', request)
      assert.deepEqual(appends, [])
      assert.ok(answer.kind === 'refused')
      assert.deepEqual(answer.extended, { proxyIds: [first], extensionOrderIds: ['ord_extension'] })
      assert.match(
        answer.reason,
        /ord_extension extended and paid for; refund ord_extension first, .*--cents/,
      )
    })

  test('of an amount returns money and ends no rental', () => {
    const { world, answer } = refund(extended, bought, 'ref_1', { kind: 'cents', cents: 499 })
    assert.equal(answer.kind, 'refunded')
    assert.deepEqual([...rentalsOf(world).keys()].sort(), [first, second].sort())
  })

  test('of the address that was not extended ends that rental', () => {
    const { world, answer } = refund(extended, bought, 'ref_1', { kind: 'proxies', proxyIds: [second] })
    assert.equal(answer.kind, 'refunded')
    assert.deepEqual([...rentalsOf(world).keys()], [first])
  })

  test('succeeds once the extension is completely refunded, and not before', () => {
    const part = refund(extended, extension, 'ref_part', { kind: 'cents', cents: 499 }).world
    assert.equal(refund(part, bought, 'ref_1', whole).answer.kind, 'refused')
    const back = refund(part, extension, 'ref_rest', whole).world
    assert.equal(rentalsOf(back).size, 2, 'an extension that is given back leaves the rentals')
    const { world, answer } = refund(back, bought, 'ref_1', whole)
    assert.equal(answer.kind, 'refunded')
    assert.equal(rentalsOf(world).size, 0)
    assert.equal(statesFor(world, bought).ledger.availableMicros, 10_000 * 10_000, 'all money is back')
  })

  test('succeeds once the extended time is over, because nothing is taken from it', () => {
    assert.equal(refund(extended, bought, 'ref_1', whole, start + 60 * dayMs - 1).answer.kind, 'refused')
    assert.equal(refund(extended, bought, 'ref_1', whole, start + 60 * dayMs).answer.kind, 'refunded')
  })

  test('is refused for the last of two extensions when the other is refunded, on both sides of a sale', () => {
    const sold = forCustomer(addressOrder('ord_sold', { quantity: 1 }))
    const soldWorld = place(funded, sold, start)
    const [rented] = statesFor(soldWorld, sold).order!.proxyIds
    const [one, two] = ['ord_one', 'ord_two'].map((id) => forCustomer(extending(id, rented!))) as [
      OrderDetails,
      OrderDetails,
    ]
    let world = place(place(soldWorld, one, start), two, start)
    const ask = (order: OrderDetails, id: string) => {
      const evidence = evidenceOf(world, [one, two])
      const { appends, answer } = decideRefund(statesFor(world, order), id, whole, later, evidence)
      world = appendTo(world, appends, later)
      return answer
    }
    ask(one, 'ref_one')
    const refused = ask(sold, 'ref_1')
    assert.deepEqual(refused.kind === 'refused' && refused.extended?.extensionOrderIds, ['ord_two'])
    ask(two, 'ref_two')
    assert.equal(ask(sold, 'ref_2').kind, 'refunded')
    assert.equal(rentalsOf(world).size, 0)
  })

  test('is not decided before the streams of the extensions were read', () => {
    assert.deepEqual(decideRefund(statesFor(extended, bought), 'ref_1', whole, later, noEvidence), {
      appends: [],
      answer: { kind: 'needs', refundIds: [], extensionIds: ['ord_extension'] },
    })
  })

  test('leaves nothing for a later extension, which is refused and not charged', () => {
    const { world } = refund(boughtWorld, bought, 'ref_1', whole)
    const { appends, answer } = placement(world, extension, later)
    assert.deepEqual(appends, [])
    assert.deepEqual(answer, {
      kind: 'refused',
      refusal: { code: 'refused_by_arbiter', reason: 'rental_ended' },
    })
  })

  test('gives the same decision on a state that was restored from its snapshot', () => {
    const states = statesFor(extended, bought)
    const allocationOwner = stockFold.snapshot!.fromText(
      stockFold.snapshot!.toText(states.allocationOwner as StockState),
    )
    const evidence = evidenceOf(extended, [extension])
    const { answer } = decideRefund({ ...states, allocationOwner }, 'ref_1', whole, later, evidence)
    assert.equal(answer.kind, 'refused')
    assert.deepEqual(Object.keys(allocationOwner.rentals.get(second)!).sort(), [
      'accountId',
      'expiresAtMs',
      'ip',
      'orderId',
    ])
  })

  // A log without atomic items can let an extension in between the steps of a refund.
  test('that was interrupted before an extension is completed, and the extended rental continues', () => {
    const { appends } = refund(boughtWorld, bought, 'ref_1', whole)
    assert.deepEqual(
      appends.map(({ stream }) => stream.split('-')[0]),
      ['order', 'ledger', 'stock', 'order'],
    )
    for (const appended of [1, 2]) {
      const cut = place(appendTo(boughtWorld, appends.slice(0, appended), later), extension, later)
      const refunded = refund(cut, bought, 'ref_1', whole)
      assert.deepEqual(refunded.answer.kind === 'refunded' && refunded.answer.keptProxyIds, [first])
      const debit = { order: bought, availableAfterMicros: 0 }
      const evidence = evidenceOf(cut, [extension])
      const completed = decideCompletion(statesFor(cut, bought), debit, later, evidence)
      for (const world of [refunded.world, appendTo(cut, completed.appends, later)]) {
        const { order, ledger } = statesFor(world, bought)
        assert.deepEqual([order?.status, order?.refundedCents], ['refunded', 500])
        assert.equal(
          ledger.availableMicros,
          9_500 * 10_000,
          'the extension is paid, and the order given back',
        )
        assert.deepEqual([...rentalsOf(world).keys()], [first])
        assert.equal(statesFor(world, extension).order?.status, 'completed')
      }
    }
  })

  test('that the service decides itself is never refused: rentals without an extension end, and the other continues', () => {
    const { world, answer } = refund(extended, bought, 'ref_1', { kind: 'whole', unasked: true })
    assert.deepEqual(answer.kind === 'refunded' && answer.keptProxyIds, [first])
    assert.equal(statesFor(world, bought).order?.status, 'refunded')
    assert.deepEqual([...rentalsOf(world).keys()], [first])
  })

  test('that the service decides for an order canceled before its debit was known is never refused', () => {
    const { accountId, orderId } = bought
    const awaited = appendTo(
      funded,
      [
        {
          stream: orderStream(orderId),
          events: [
            {
              type: 'OrderAwaitingPayment',
              data: { order: bought, depositId: 'dep_1', balanceCents: 10_000 },
            },
          ],
        },
      ],
      start,
    )
    // It has a debit and rentals; another process canceled its stream.
    const { appends } = placement(funded, bought, start)
    const canceledAt = new Date(start).toISOString()
    const canceled = appendTo(
      awaited,
      [
        ...appends.slice(0, 2),
        {
          stream: orderStream(orderId),
          events: [{ type: 'OrderCanceled', data: { orderId, accountId, canceledAt } }],
        },
      ],
      start,
    )
    const cut = place(canceled, extension, start + 1)
    const { appends: refunded } = decideCompletion(
      statesFor(cut, bought),
      { order: bought, availableAfterMicros: 0 },
      later,
      evidenceOf(cut, [extension]),
    )
    const world = appendTo(cut, refunded, later)
    assert.deepEqual(statesFor(world, bought).order?.status, 'refunded')
    assert.equal(statesFor(world, bought).ledger.availableMicros, 9_500 * 10_000)
    assert.deepEqual([...rentalsOf(world).keys()], [first], 'what the extension paid for goes on')
  })
})
