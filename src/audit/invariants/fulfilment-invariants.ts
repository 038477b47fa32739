import { Map as ImmutableMap } from 'immutable'
import { allocationOwnerOf } from '../../domain/orders/decide-placement.ts'
import { decidePlanOrder } from '../../domain/plans/decide.ts'
import type { PlanEvent } from '../../domain/plans/events.ts'
import { planFold } from '../../domain/plans/fold.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { decideAllocation, decideExtension } from '../../domain/stock/decide.ts'
import { stockFold } from '../../domain/stock/fold.ts'
import type { FoldedEvent } from '../../kernel/decider.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import { column, nullable, type RowOf, type Rows, readTable } from '../../platform/projections/read-model.ts'
import {
  type Context,
  describeDifferences,
  differenceFromDecision,
  invariant,
  isSameJson,
  orderIdOf,
  type Recorded,
  recordedMs,
  staleMs,
  subjectOf,
} from './invariant.ts'
import { rentalsTable } from './stock-invariants.ts'

/** The state of each plan in the log. Verifications also compare the traffic counters with it. */
export const plansTable = readTable({
  name: 'audit_plans',
  columns: {
    planId: column.text(),
    totalBytes: nullable(column.bigint()),
    usedBytes: column.bigint(),
    /** The event that opened the plan, in the form for the fold. */
    activated: column.jsonb<FoldedEvent<PlanEvent>>(),
  },
  key: ['planId'],
})

type PlanRow = RowOf<typeof plansTable>

const checkKnownPlan = (
  event: { readonly stream: string },
  plan: PlanRow | undefined,
  { report }: Context,
) => {
  if (plan === undefined) report('plan-unknown', `plan ${subjectOf(event)} was never opened`)
}

/** A plan is opened once, its traffic adds up, and no more bytes are withdrawn than it has. */
export const planRules = invariant({
  name: 'audit-plans',
  version: 3,
  table: plansTable,
  kind: 'plan-',
  key: subjectOf,
  on: {
    PlanActivated: (event, plan, { report }) => {
      const planId = subjectOf(event)
      if (plan !== undefined) report('plan-twice', `plan ${planId} was opened before`)
      const { type, data, revision } = event
      const activated = { type, data, revision, recordedAtMs: recordedMs(event) }
      return { planId, totalBytes: data.bytes, usedBytes: 0, activated }
    },
    PlanToppedUp: (event, plan, context) => {
      checkKnownPlan(event, plan, context)
      return plan && { ...plan, totalBytes: (plan.totalBytes ?? 0) + event.data.bytes }
    },
    PlanUnitsWithdrawn: (event, plan, context) => {
      checkKnownPlan(event, plan, context)
      if (plan === undefined) return
      const totalBytes = (plan.totalBytes ?? 0) - event.data.bytes
      if (totalBytes < 0)
        context.report('plan-below-zero', `plan ${plan.planId} is left with ${totalBytes} bytes`)
      return { ...plan, totalBytes }
    },
    TrafficMetered: (event, plan, context) => {
      checkKnownPlan(event, plan, context)
      if (plan === undefined) return
      const { bytes, usedBytes } = event.data
      if (bytes < 0 || plan.usedBytes + bytes !== usedBytes)
        context.report(
          'traffic',
          `${plan.usedBytes} and ${bytes} bytes are not the ${usedBytes} that it says`,
        )
      return { ...plan, usedBytes }
    },
    PlanRanLow: checkKnownPlan,
    PlanExhausted: checkKnownPlan,
    PlanExpired: checkKnownPlan,
    PlanCredentialRotated: checkKnownPlan,
  },
})

/** A paid order that is not finished. */
const dueTable = readTable({
  name: 'audit_due_goods',
  columns: {
    orderId: column.text(),
    /** The order as it was paid. */
    paid: column.jsonb<OrderDetails>(),
    /** The rentals that the order received; null before the answer of its allocation owner. */
    proxyIds: nullable(column.jsonb<readonly string[]>()),
  },
  key: ['orderId'],
})
type DueRow = RowOf<typeof dueTable>

type Fulfilment = Recorded<'AddressesAllocated' | 'AddressesExtended' | 'PlanActivated' | 'PlanToppedUp'>

/** The event that the allocation owner would decide for the order at that time; null when it refuses. */
const decidedFulfilment = (
  event: Fulfilment,
  order: OrderDetails,
  rows: Rows,
): DomainEvent<string, object> | undefined => {
  switch (event.type) {
    case 'AddressesAllocated': {
      // A stock with exactly the addresses that the event allocates.
      const { productId, country, allocations, allocatedAt } = event.data
      const addresses = allocations.map(({ proxyId: _, rotationMinutes: _rotation, ...address }) => address)
      const stocked = { type: 'AddressesStocked', data: { productId, country, addresses } } as const
      const state = stockFold.evolve(stockFold.initial, { ...stocked, revision: 0, recordedAtMs: 0 })
      return decideAllocation(state, order, Date.parse(allocatedAt)).events[0]
    }
    case 'AddressesExtended': {
      const rentals = order.proxyIds.flatMap((proxyId) => {
        const row = rows.get(rentalsTable, [proxyId])
        if (!row?.open) return []
        const { ip, orderId, accountId, expiresMs: expiresAtMs } = row
        return [[proxyId, { ip, orderId, accountId, expiresAtMs }] as const]
      })
      const state = { ...stockFold.initial, rentals: ImmutableMap<string, (typeof rentals)[0][1]>(rentals) }
      return decideExtension(state, order, Date.parse(event.data.extendedAt)).events[0]
    }
    case 'PlanActivated':
      return decidePlanOrder(planFold.initial, order, Date.parse(event.data.startedAt)).events[0]
    default: {
      const plan = rows.get(plansTable, [subjectOf(event)])
      if (plan === undefined) return
      const state = planFold.evolve(planFold.initial, plan.activated)
      return decidePlanOrder(state, order, recordedMs(event)).events[0]
    }
  }
}

/** The time of the fulfilment according to the event. */
const fulfilledAt = ({ type, data, metadata }: Fulfilment): string => {
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

const rentalsIn = ({ type, data }: Fulfilment): readonly string[] => {
  if (type === 'AddressesAllocated') return data.allocations.map(({ proxyId }) => proxyId)
  return type === 'AddressesExtended' ? data.extensions.map(({ proxyId }) => proxyId) : []
}

const startDue = ({ data: { order } }: Recorded<'WalletDebited' | 'CustomerCharged'>): DueRow => ({
  orderId: order.orderId,
  paid: order,
  proxyIds: null,
})

const checkFulfilment = (event: Fulfilment, row: DueRow | undefined, { rows, report }: Context) => {
  const { orderId } = event.data
  if (row === undefined) {
    report('goods-undue', `no order ${orderId} that was paid waits for this fulfilment`)
    return
  }
  const { stream } = allocationOwnerOf(row.paid)
  if (event.stream !== stream) report('goods-elsewhere', `order ${orderId} is fulfilled by ${stream}`)
  const decided = decidedFulfilment(event, row.paid, rows) ?? null
  const difference = differenceFromDecision(event, decided)
  if (difference === 'another')
    report(
      'goods',
      `order ${orderId} paid for ${decided === null ? 'nothing that could be given' : decided.type}`,
    )
  else if (difference !== null)
    report('goods', `it differs from the paid order ${orderId}: ${difference.fields}`)
  const at = fulfilledAt(event)
  if (Math.abs(Date.parse(at) - recordedMs(event)) > staleMs)
    report('goods-time', `it says ${at} and was recorded at ${event.metadata.recordedAt}`)
  return { ...row, proxyIds: rentalsIn(event) }
}

/** Checks that the order on the order's own stream is the paid order. */
const checkPaid = (
  { data: { order } }: { readonly data: { readonly order: OrderDetails } },
  row: DueRow | undefined,
  { report }: Context,
): void => {
  if (row !== undefined && !isSameJson(row.paid, order))
    report('order-changed', `it is not the order that was paid: ${describeDifferences(order, row.paid)}`)
}

/** Checks the fulfilment that the order's own stream records; the order is then over. */
const checkRecorded = (
  { data }: Recorded<'OrderCompleted' | 'OrderFulfilled'>,
  row: DueRow | undefined,
  { report }: Context,
): null | undefined => {
  if (row === undefined) return
  const { orderId, proxyIds: received, paid } = row
  const [statedIds, receivedIds] = [JSON.stringify(data.proxyIds), JSON.stringify(received ?? [])]
  if (statedIds !== receivedIds)
    report('goods-named', `order ${orderId} got ${receivedIds}, not ${statedIds}`)
  if ('planId' in data && data.planId !== undefined && data.planId !== paid.planId)
    report(
      'goods-named',
      `order ${orderId} is for plan ${paid.planId ?? 'none'}, not ${data.planId ?? 'none'}`,
    )
  return null
}

/**
 * The fulfilment of an order equals the decision of its allocation owner for the paid order: the number of addresses of
 * the product, country, carrier and rotation, and their days; the extended rentals, from their own end; the bytes; the
 * speed. The order's own stream has the same order and fulfilment.
 */
export const fulfilmentRules = invariant({
  name: 'audit-goods',
  version: 2,
  table: dueTable,
  key: orderIdOf,
  on: {
    WalletDebited: startDue,
    CustomerCharged: startDue,
    AddressesAllocated: checkFulfilment,
    AddressesExtended: checkFulfilment,
    PlanActivated: checkFulfilment,
    PlanToppedUp: checkFulfilment,
    OrderPlaced: checkPaid,
    OrderPaid: checkPaid,
    OrderCompleted: (event, row, context) => {
      checkPaid(event, row, context)
      return checkRecorded(event, row, context)
    },
    OrderFulfilled: checkRecorded,
    OrderRefunded: ({ data }, row) => (row !== undefined && data.complete ? null : undefined),
  },
})
