import assert from 'node:assert/strict'
import { test } from 'node:test'
import { violationsTable } from '../../../src/audit/invariants/invariant.ts'
import { orderRules } from '../../../src/audit/invariants/order-invariants.ts'
import { decidePlacement } from '../../../src/domain/orders/decide-placement.ts'
import { decideRefund } from '../../../src/domain/orders/refunds.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import type { RecordedEvent } from '../../../src/kernel/event.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { foldInMemory } from '../../projections/memory-rows.ts'
import {
  appendTo,
  credit,
  customerCredit,
  emptyWorld,
  forCustomer,
  planOrder,
  statesFor,
  type World,
} from '../../support/world.ts'

const atMs = Date.parse('2026-11-21T02:30:00.000Z')
const order = forCustomer(planOrder('ord_sold'), 1_950, 1_350)

/** A sale to a customer, a part of it refunded, then the rest: all events in the order in which they were written. */
const history = (): RecordedEvent[] => {
  const written: RecordedEvent[] = []
  let world: World = customerCredit(credit(emptyWorld, 10_000, atMs), 10_000, atMs)
  const write = (appends: Parameters<typeof appendTo>[1]): void => {
    for (const { stream, events } of appends)
      for (const event of events)
        written.push({
          ...structuredClone(event),
          id: `event-${written.length}`,
          stream: stream as StreamName,
          revision: written.length,
          position: written.length + 1,
          metadata: {
            correlationId: 'test',
            causationId: null,
            actor: { kind: 'system', name: 'test' },
            recordedAt: new Date(atMs).toISOString(),
          },
        })
    world = appendTo(world, appends, atMs)
  }
  write(decidePlacement(statesFor(world, order), { draft: order, cap: null }, atMs).appends)
  write(decideRefund(statesFor(world, order), 'ref_1', { kind: 'cents', cents: 700 }, atMs).appends)
  write(decideRefund(statesFor(world, order), 'ref_2', { kind: 'whole' }, atMs).appends)
  return written
}

/** The types of events that break a rule about margins, with the rule. */
const brokenBy = (events: readonly RecordedEvent[]): string[] =>
  foldInMemory(orderRules, events, [violationsTable])(violationsTable)
    .filter(({ rule }) => rule.startsWith('margin-'))
    .map(({ position, rule }) => `${events.find((event) => event.position === position)?.type} ${rule}`)

test('a sale and its refunds violate no rule', () => {
  const events = history()
  assert.deepEqual(
    events.map(({ type }) => type).filter((type) => type.startsWith('Customer')),
    ['CustomerCharged', 'CustomerRefunded', 'CustomerRefunded'],
  )
  assert.deepEqual(brokenBy(events), [])
})

// biome-ignore lint/suspicious/noExplicitAny: events are falsified freely
type Falsify = (data: any) => void

const changes: readonly (readonly [
  what: string,
  type: string,
  nth: number,
  change: Falsify,
  found: string,
])[] = [
  [
    'another price is taken than was ordered',
    'CustomerCharged',
    0,
    (data) => (data.amountMicros += 10_000),
    'CustomerCharged margin-order',
  ],
  [
    'another cost is taken than was ordered',
    'CustomerCharged',
    0,
    (data) => (data.costMicros -= 10_000),
    'CustomerCharged margin-order',
  ],
  [
    'the order is placed at another price',
    'OrderCompleted',
    0,
    (data) => (data.order.amountCents -= 1),
    'OrderCompleted margin-order',
  ],
  [
    'the order is placed at another cost',
    'OrderCompleted',
    0,
    (data) => (data.order.costCents += 1),
    'OrderCompleted margin-order',
  ],
  [
    'more of the price is decided than was paid',
    'RefundDecided',
    1,
    (data) => (data.amountCents += 1),
    'RefundDecided margin-refund',
  ],
  [
    'more of the cost is decided than was paid',
    'RefundDecided',
    1,
    (data) => (data.costCents += 1),
    'RefundDecided margin-refund',
  ],
  [
    'more of the cost comes back than was decided',
    'CustomerRefunded',
    0,
    (data) => (data.costMicros += 10_000),
    'CustomerRefunded margin-refund',
  ],
  [
    'more of the price comes back than was decided',
    'CustomerRefunded',
    0,
    (data) => (data.amountMicros += 10_000),
    'CustomerRefunded margin-refund',
  ],
  [
    'more lands than came back',
    'OrderRefunded',
    0,
    (data) => (data.costCents += 1),
    'OrderRefunded margin-refund',
  ],
  [
    'a whole refund leaves a part of the cost',
    'OrderRefunded',
    1,
    (data) => (data.costCents -= 1),
    'OrderRefunded margin-refund',
  ],
]

for (const [what, type, nth, change, found] of changes)
  test(`a violation is found when ${what}`, () => {
    const events = history()
    const changed = events.filter((event) => event.type === type)[nth]
    assert.ok(changed)
    change(changed.data)
    const broken = brokenBy(events)
    assert.equal(broken[0], found, broken.join('; '))
  })

test('an order that awaited its payment is compared with the price at payment', () => {
  const paid = (cents: number) =>
    history().map((event) => {
      if (event.type !== 'OrderCompleted') return event
      const { order, balanceCents } = event.data as { order: OrderDetails; balanceCents: number }
      const { orderId, accountId } = order
      return {
        ...event,
        type: 'OrderPaid',
        data: {
          orderId,
          accountId,
          balanceCents,
          order: { ...order, amountCents: order.amountCents + cents },
        },
      }
    })
  assert.deepEqual(brokenBy(paid(0)), [])
  assert.equal(brokenBy(paid(1))[0], 'OrderPaid margin-order')
})

test('a refund without a decision is found', () => {
  const events = history().filter((event) => event.type !== 'RefundDecided')
  assert.equal(brokenBy(events)[0], 'CustomerRefunded margin-refund')
})
