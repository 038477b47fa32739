import { Map as ImmutableMap } from 'immutable'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { allocationOwnerOf } from '../../domain/orders/allocation-owner.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { decidePlanOrder } from '../../domain/plans/decide.ts'
import type { PlanEvent } from '../../domain/plans/events.ts'
import { planFold } from '../../domain/plans/fold.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { decideAllocation, decideExtension } from '../../domain/stock/decide.ts'
import type { AddressesAllocated, StockEvent } from '../../domain/stock/events.ts'
import { stockFold } from '../../domain/stock/fold.ts'
import type { DomainEvent, RecordedEvent } from '../../kernel/event.ts'
import type { ReadModel, RowKey, Rows, Table } from '../../platform/projections/read-model.ts'
import { plansTable } from './plan-invariants.ts'
import { staleMs } from './priced-catalog.ts'
import { rentalsTable } from './stock-invariants.ts'
import { describeDifferences, isSameJson, recordViolation } from './violation.ts'

/** The maximum number of cached keys. Each entry has a text and its value, about 2 KiB. */
const most = 2_000

/**
 * Parses the text of a row and caches the value by the row's key, because the next event about a row mostly finds the
 * same text. Callers must not change the value.
 */
export const createParsedTextCache = <Value>(
  read: (text: string) => Value,
): ((key: string, text: string) => Value) => {
  const known = new Map<string, { readonly text: string; readonly value: Value }>()
  return (key, text) => {
    const before = known.get(key)
    if (before?.text === text) return before.value
    const value = read(text)
    if (known.size >= most) known.clear()
    known.set(key, { text, value })
    return value
  }
}

/** A paid order that is not finished. */
type DueRow = {
  order_id: string
  /** JSON: the order as it was paid. */
  paid: string
  /** JSON: the rentals that the order received; null before the answer of its allocation owner. */
  proxy_ids: string | null
}

const dueTable: Table<DueRow> = {
  name: 'audit_due_goods',
  columns: {
    order_id: { type: 'text' },
    paid: { type: 'text' },
    proxy_ids: { type: 'text', nullable: true },
  },
  key: ['order_id'],
  indexes: [],
}

const paidOf = createParsedTextCache((text) => JSON.parse(text) as OrderDetails)
/** The state of a plan after its first event. */
const openedOf = createParsedTextCache((text) => planFold.evolve(planFold.initial, JSON.parse(text)))

type Given = Extract<
  RecordedEvent<StockEvent | PlanEvent>,
  { readonly type: 'AddressesAllocated' | 'AddressesExtended' | 'PlanActivated' | 'PlanToppedUp' }
>
type Known = RecordedEvent<LedgerEvent | OrderEvent> | Given
type Say = (rule: string, problem: string) => void

const orderIdIn = (recorded: RecordedEvent): string | null => {
  const event = recorded as Known
  switch (event.type) {
    case 'WalletDebited':
    case 'CustomerCharged':
    case 'OrderCompleted':
    case 'OrderPlaced':
    case 'OrderPaid':
      return event.data.order.orderId
    case 'AddressesAllocated':
    case 'AddressesExtended':
    case 'PlanActivated':
    case 'PlanToppedUp':
    case 'OrderFulfilled':
    case 'OrderRefunded':
      return event.data.orderId
    default:
      return null
  }
}

const planPrefix = 'plan-'

/** A stock with exactly the addresses that an event allocates. */
const stockOf = (event: RecordedEvent<AddressesAllocated>) => {
  const { productId, country, allocations } = event.data
  const addresses = allocations.map(({ proxyId: _, rotationMinutes: _rotation, ...address }) => address)
  const stocked = { type: 'AddressesStocked', data: { productId, country, addresses } } as const
  return stockFold.evolve(stockFold.initial, { ...stocked, revision: 0, recordedAtMs: 0 })
}

/** The event that the allocation owner would decide for the order at that time; null when it refuses. */
const dueOf = (event: Given, order: OrderDetails, rows: Rows): DomainEvent | null => {
  switch (event.type) {
    case 'AddressesAllocated':
      return decideAllocation(stockOf(event), order, Date.parse(event.data.allocatedAt)).events[0] ?? null
    case 'AddressesExtended': {
      const rentals = order.proxyIds.flatMap((proxyId) => {
        const row = rows.get(rentalsTable, [proxyId])
        if (row === undefined || !row.open) return []
        const { ip, order_id: orderId, account_id: accountId, expires_ms: expiresAtMs } = row
        return [[proxyId, { ip, orderId, accountId, expiresAtMs }] as const]
      })
      const state = { ...stockFold.initial, rentals: ImmutableMap<string, (typeof rentals)[0][1]>(rentals) }
      return decideExtension(state, order, Date.parse(event.data.extendedAt)).events[0] ?? null
    }
    case 'PlanActivated':
      return decidePlanOrder(planFold.initial, order, Date.parse(event.data.startedAt)).events[0] ?? null
    case 'PlanToppedUp': {
      const plan = rows.get(plansTable, [event.stream.slice(planPrefix.length)])
      if (plan === undefined) return null
      const state = openedOf(plan.plan_id, plan.activated)
      return decidePlanOrder(state, order, Date.parse(event.metadata.recordedAt)).events[0] ?? null
    }
    default:
      return event satisfies never
  }
}

/** The time of the fulfilment according to the event. */
const givenAt = ({ type, data, metadata }: Given): string => {
  switch (type) {
    case 'AddressesAllocated':
      return data.allocatedAt
    case 'AddressesExtended':
      return data.extendedAt
    case 'PlanActivated':
      return data.startedAt
    default:
      return metadata.recordedAt
  }
}

const rentalsIn = (event: Given): readonly string[] => {
  if (event.type === 'AddressesAllocated') return event.data.allocations.map(({ proxyId }) => proxyId)
  return event.type === 'AddressesExtended' ? event.data.extensions.map(({ proxyId }) => proxyId) : []
}

const give = (event: Given, row: DueRow, rows: Rows, say: Say): void => {
  const order = paidOf(row.order_id, row.paid)
  const { stream } = allocationOwnerOf(order)
  if (event.stream !== stream) say('goods-elsewhere', `order ${row.order_id} gets its goods from ${stream}`)
  const due = dueOf(event, order, rows)
  if (due === null || due.type !== event.type)
    say('goods', `order ${row.order_id} paid for ${due === null ? 'nothing that could be given' : due.type}`)
  else if (!isSameJson(due.data, event.data))
    say(
      'goods',
      `it is not what order ${row.order_id} paid for: ${describeDifferences(event.data, due.data as object)}`,
    )
  if (Math.abs(Date.parse(givenAt(event)) - Date.parse(event.metadata.recordedAt)) > staleMs)
    say('goods-time', `it says ${givenAt(event)} and was recorded at ${event.metadata.recordedAt}`)
  rows.put(dueTable, { ...row, proxy_ids: JSON.stringify(rentalsIn(event)) })
}

/** Checks that the order on the order's own stream is the paid order. */
const checkPaid = (row: DueRow, order: OrderDetails, say: Say): void => {
  const paid = paidOf(row.order_id, row.paid)
  if (!isSameJson(paid, order))
    say('order-changed', `it is not the order that was paid: ${describeDifferences(order, paid)}`)
}

const checkGot = (
  row: DueRow,
  { proxyIds, planId }: { readonly proxyIds: readonly string[]; readonly planId?: string | null },
  say: Say,
): void => {
  const got = row.proxy_ids ?? '[]'
  if (JSON.stringify(proxyIds) !== got)
    say('goods-named', `order ${row.order_id} got ${got}, not ${JSON.stringify(proxyIds)}`)
  const due = paidOf(row.order_id, row.paid).planId
  if (planId !== undefined && planId !== due)
    say('goods-named', `order ${row.order_id} is for plan ${due ?? 'none'}, not ${planId ?? 'none'}`)
}

const isGiven = (event: Known): event is Given =>
  event.type === 'AddressesAllocated' ||
  event.type === 'AddressesExtended' ||
  event.type === 'PlanActivated' ||
  event.type === 'PlanToppedUp'

/**
 * The fulfilment of an order equals the decision of its allocation owner for the paid order: the number of addresses of
 * the product, country, carrier and rotation, and their days; the extended rentals, from their own end; the bytes; the
 * speed. The order's own stream has the same order and fulfilment.
 */
export const fulfilmentRules: ReadModel = {
  name: 'audit-goods',
  version: 1,
  tables: [dueTable],
  takes: {
    types: new Set([
      'WalletDebited',
      'CustomerCharged',
      'OrderCompleted',
      'OrderPlaced',
      'OrderPaid',
      'AddressesAllocated',
      'AddressesExtended',
      'PlanActivated',
      'PlanToppedUp',
      'OrderFulfilled',
      'OrderRefunded',
    ]),
  },
  reads: (event): RowKey[] => {
    const orderId = orderIdIn(event)
    return orderId === null ? [] : [{ table: dueTable.name, key: [orderId] }]
  },
  apply: (recorded, rows) => {
    const orderId = orderIdIn(recorded)
    if (orderId === null) return
    const event = recorded as Known
    const say: Say = (rule, problem) => recordViolation(rows, event, rule, problem)
    const row = rows.get(dueTable, [orderId])
    if (event.type === 'WalletDebited' || event.type === 'CustomerCharged') {
      rows.put(dueTable, { order_id: orderId, paid: JSON.stringify(event.data.order), proxy_ids: null })
      return
    }
    if (row === undefined) {
      if (isGiven(event)) say('goods-undue', `no order ${orderId} that was paid waits for these goods`)
      return
    }
    if (isGiven(event)) {
      give(event, row, rows, say)
      return
    }
    if ('order' in event.data) checkPaid(row, event.data.order as OrderDetails, say)
    if (event.type === 'OrderCompleted' || event.type === 'OrderFulfilled') checkGot(row, event.data, say)
    const over =
      event.type === 'OrderCompleted' ||
      event.type === 'OrderFulfilled' ||
      (event.type === 'OrderRefunded' && event.data.complete)
    if (over) rows.remove(dueTable, [orderId])
  },
}
