import { Map as ImmutableMap } from 'immutable'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { allocationOwnerOf } from '../../domain/orders/decide-placement.ts'
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
const maxCachedTexts = 2_000

/**
 * Parses the text of a row and caches the value by the row's key, because the next event about a row mostly finds the
 * same text. Callers must not change the value.
 */
export const createParsedTextCache = <Value>(
  parse: (text: string) => Value,
): ((key: string, text: string) => Value) => {
  const cache = new Map<string, { readonly text: string; readonly value: Value }>()
  return (key, text) => {
    const cached = cache.get(key)
    if (cached?.text === text) return cached.value
    const value = parse(text)
    if (cache.size >= maxCachedTexts) cache.clear()
    cache.set(key, { text, value })
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

type FulfilmentEvent = Extract<
  RecordedEvent<StockEvent | PlanEvent>,
  { readonly type: 'AddressesAllocated' | 'AddressesExtended' | 'PlanActivated' | 'PlanToppedUp' }
>
type FulfilmentRuleEvent = RecordedEvent<LedgerEvent | OrderEvent> | FulfilmentEvent
type Report = (rule: string, problem: string) => void

const orderIdIn = (recorded: RecordedEvent): string | null => {
  const event = recorded as FulfilmentRuleEvent
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
  const stockedEvent = { type: 'AddressesStocked', data: { productId, country, addresses } } as const
  return stockFold.evolve(stockFold.initial, { ...stockedEvent, revision: 0, recordedAtMs: 0 })
}

/** The event that the allocation owner would decide for the order at that time; null when it refuses. */
const expectedEvent = (event: FulfilmentEvent, order: OrderDetails, rows: Rows): DomainEvent | null => {
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
const fulfilledAt = ({ type, data, metadata }: FulfilmentEvent): string => {
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

const rentalsIn = (event: FulfilmentEvent): readonly string[] => {
  if (event.type === 'AddressesAllocated') return event.data.allocations.map(({ proxyId }) => proxyId)
  return event.type === 'AddressesExtended' ? event.data.extensions.map(({ proxyId }) => proxyId) : []
}

const checkFulfilment = (event: FulfilmentEvent, row: DueRow, rows: Rows, report: Report): void => {
  const order = paidOf(row.order_id, row.paid)
  const { stream } = allocationOwnerOf(order)
  if (event.stream !== stream)
    report('goods-elsewhere', `order ${row.order_id} gets its goods from ${stream}`)
  const expected = expectedEvent(event, order, rows)
  if (expected === null || expected.type !== event.type)
    report(
      'goods',
      `order ${row.order_id} paid for ${expected === null ? 'nothing that could be given' : expected.type}`,
    )
  else if (!isSameJson(expected.data, event.data))
    report(
      'goods',
      `it is not what order ${row.order_id} paid for: ${describeDifferences(event.data, expected.data as object)}`,
    )
  if (Math.abs(Date.parse(fulfilledAt(event)) - Date.parse(event.metadata.recordedAt)) > staleMs)
    report('goods-time', `it says ${fulfilledAt(event)} and was recorded at ${event.metadata.recordedAt}`)
  rows.put(dueTable, { ...row, proxy_ids: JSON.stringify(rentalsIn(event)) })
}

/** Checks that the order on the order's own stream is the paid order. */
const checkPaid = (row: DueRow, order: OrderDetails, report: Report): void => {
  const paid = paidOf(row.order_id, row.paid)
  if (!isSameJson(paid, order))
    report('order-changed', `it is not the order that was paid: ${describeDifferences(order, paid)}`)
}

const checkRecorded = (
  row: DueRow,
  { proxyIds, planId }: { readonly proxyIds: readonly string[]; readonly planId?: string | null },
  report: Report,
): void => {
  const recordedIds = row.proxy_ids ?? '[]'
  if (JSON.stringify(proxyIds) !== recordedIds)
    report('goods-named', `order ${row.order_id} got ${recordedIds}, not ${JSON.stringify(proxyIds)}`)
  const expectedPlanId = paidOf(row.order_id, row.paid).planId
  if (planId !== undefined && planId !== expectedPlanId)
    report(
      'goods-named',
      `order ${row.order_id} is for plan ${expectedPlanId ?? 'none'}, not ${planId ?? 'none'}`,
    )
}

const isFulfilment = (event: FulfilmentRuleEvent): event is FulfilmentEvent =>
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
    const event = recorded as FulfilmentRuleEvent
    const report: Report = (rule, problem) => recordViolation(rows, event, rule, problem)
    const row = rows.get(dueTable, [orderId])
    if (event.type === 'WalletDebited' || event.type === 'CustomerCharged') {
      rows.put(dueTable, { order_id: orderId, paid: JSON.stringify(event.data.order), proxy_ids: null })
      return
    }
    if (row === undefined) {
      if (isFulfilment(event))
        report('goods-undue', `no order ${orderId} that was paid waits for these goods`)
      return
    }
    if (isFulfilment(event)) {
      checkFulfilment(event, row, rows, report)
      return
    }
    if ('order' in event.data) checkPaid(row, event.data.order as OrderDetails, report)
    if (event.type === 'OrderCompleted' || event.type === 'OrderFulfilled')
      checkRecorded(row, event.data, report)
    const isEnded =
      event.type === 'OrderCompleted' ||
      event.type === 'OrderFulfilled' ||
      (event.type === 'OrderRefunded' && event.data.complete)
    if (isEnded) rows.remove(dueTable, [orderId])
  },
}
