import type { RecordedEvent } from '../../kernel/event.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { PlanEvent } from '../plans/events.ts'
import { type OrderDetails, walletCents } from '../shared/order-terms.ts'
import type { StockEvent } from '../stock/events.ts'

/*
 * Revenue is booked when an order is paid. This is what of it was not delivered yet at an instant: the rest of the time
 * of rentals and plans of time, and the unused bytes of plans of traffic. It is derived from the log alone.
 */

/** The paid time of a rental or a plan, milliseconds. `holder` is its id. */
type Paid = { readonly holder: string; readonly startMs: number; readonly endMs: number }

type Order = {
  readonly productId: string
  /** What the service earned, less refunds that took back no rental and no traffic. Micro-dollars. */
  priceMicros: number
  paid: readonly Paid[]
  /** Bought traffic with the part that a refund took back, bytes; null for other orders. */
  traffic: { readonly planId: string; readonly boughtBytes: number; bytes: number } | null
  isFulfilled: boolean
}

type Plan = {
  /** In the order in which their traffic is used up. */
  readonly orderIds: string[]
  endMs: number
  usedBytes: number
}

/** What a product still owes to its buyers. */
export type DeferredLine = {
  readonly productId: string
  /** Orders that are not delivered completely. */
  readonly orders: number
  readonly deferredMicros: bigint
  /** The sum over rentals and plans, milliseconds. */
  readonly remainingMs: number
  readonly unusedBytes: number
}

/** Whether events of this stream change what is delivered. Others need not be decoded. */
export const concernsDelivery = (stream: StreamName): boolean =>
  ['ledger-', 'order-', 'plan-', 'stock-'].some((prefix) => stream.startsWith(prefix))

export const createDeferredRevenue = () => {
  const orders = new Map<string, Order>()
  const plans = new Map<string, Plan>()
  /** Each rental: its end in milliseconds, and the orders that paid for it. */
  const rentals = new Map<string, { readonly endMs: number; readonly orderIds: readonly string[] }>()
  /** Refunds that took back rentals or traffic: they do not lower the price of the rest. */
  const returns = new Set<string>()
  /** The refunds of traffic are recorded after the money: what they took off the price. */
  const refunds = new Map<string, number>()

  const sell = (order: OrderDetails): void => {
    const priceMicros = centsToMicros(walletCents(order))
    const { orderId, productId } = order
    orders.set(orderId, { productId, priceMicros, paid: [], traffic: null, isFulfilled: false })
  }

  const refund = (orderId: string | null, refundId: string, micros: number): void => {
    const order = orderId === null ? undefined : orders.get(orderId)
    if (order === undefined || returns.has(refundId)) return
    order.priceMicros -= micros
    refunds.set(refundId, micros)
  }

  const deliver = (orderId: string, paid: readonly Paid[]): void => {
    const order = orders.get(orderId)
    if (order) Object.assign(order, { paid, isFulfilled: true })
  }

  const addTraffic = (planId: string, orderId: string, boughtBytes: number): void => {
    const order = orders.get(orderId)
    if (order)
      Object.assign(order, { traffic: { planId, boughtBytes, bytes: boughtBytes }, isFulfilled: true })
    plans.get(planId)?.orderIds.push(orderId)
  }

  /** The rentals of an order end: what is left of them is given back. */
  const giveBack = (proxyIds: ReadonlySet<string>): void => {
    const orderIds = new Set([...proxyIds].flatMap((proxyId) => rentals.get(proxyId)?.orderIds ?? []))
    for (const orderId of orderIds) {
      const order = orders.get(orderId)
      if (order)
        order.paid = order.paid.map((each) =>
          proxyIds.has(each.holder) ? { ...each, endMs: each.startMs } : each,
        )
    }
  }

  const take = (
    event: RecordedEvent & (LedgerEvent | OrderEvent | PlanEvent | StockEvent),
    id: string,
  ): void => {
    switch (event.type) {
      case 'WalletDebited':
      case 'CustomerCharged':
        sell(event.data.order)
        return
      case 'WalletCredited':
        if (event.data.source === 'refund')
          refund(event.data.orderId, event.data.reference, event.data.amountMicros)
        return
      case 'CustomerRefunded':
        refund(event.data.orderId, event.data.reference, event.data.costMicros)
        return
      case 'RefundDecided':
        if (event.data.proxyIds.length > 0) returns.add(event.data.refundId)
        return
      case 'AddressesAllocated': {
        const { orderId, allocations, allocatedAt, expiresAt } = event.data
        const endMs = Date.parse(expiresAt)
        for (const { proxyId } of allocations) rentals.set(proxyId, { endMs, orderIds: [orderId] })
        const startMs = Date.parse(allocatedAt)
        deliver(
          orderId,
          allocations.map(({ proxyId }) => ({ holder: proxyId, startMs, endMs })),
        )
        return
      }
      case 'AddressesExtended': {
        const { orderId, extensions, extendedAt } = event.data
        const paid = extensions.map(({ proxyId, expiresAt }) => ({
          holder: proxyId,
          startMs: rentals.get(proxyId)?.endMs ?? Date.parse(extendedAt),
          endMs: Date.parse(expiresAt),
        }))
        for (const { holder, endMs } of paid) {
          const orderIds = rentals.get(holder)?.orderIds ?? []
          rentals.set(holder, { endMs, orderIds: [...orderIds, orderId] })
        }
        deliver(orderId, paid)
        return
      }
      case 'AddressesReleased':
        if (event.data.reason !== 'expired')
          giveBack(new Set(event.data.releases.map(({ proxyId }) => proxyId)))
        return
      case 'PlanActivated': {
        const { planId, orderId, bytes, startedAt, expiresAt } = event.data
        const endMs = expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt)
        plans.set(planId, { orderIds: [], endMs, usedBytes: 0 })
        if (bytes !== null) addTraffic(planId, orderId, bytes)
        else deliver(orderId, [{ holder: planId, startMs: Date.parse(startedAt), endMs }])
        return
      }
      case 'PlanToppedUp':
        addTraffic(id, event.data.orderId, event.data.bytes)
        return
      case 'PlanUnitsWithdrawn': {
        const { orderId, refundId, bytes } = event.data
        const order = orders.get(orderId)
        if (order?.traffic) order.traffic.bytes -= bytes
        else if (order) order.paid = order.paid.map((each) => ({ ...each, endMs: each.startMs }))
        returns.add(refundId)
        if (order) order.priceMicros += refunds.get(refundId) ?? 0
        return
      }
      case 'TrafficMetered': {
        const plan = plans.get(id)
        if (plan) plan.usedBytes = event.data.usedBytes
        return
      }
      case 'PlanExpired': {
        const plan = plans.get(id)
        if (plan) plan.endMs = Math.min(plan.endMs, Date.parse(event.data.expiredAt))
        return
      }
    }
  }

  /** The unused bytes of each order with traffic: the oldest traffic of a plan is used first. */
  const unusedAt = (atMs: number): ReadonlyMap<string, number> => {
    const unused = new Map<string, number>()
    for (const { orderIds, endMs, usedBytes } of plans.values()) {
      let left = usedBytes
      for (const orderId of orderIds) {
        const bytes = orders.get(orderId)?.traffic?.bytes ?? 0
        const used = Math.min(bytes, left)
        left -= used
        unused.set(orderId, atMs >= endMs ? 0 : bytes - used)
      }
    }
    return unused
  }

  return {
    /** The next event of the log, in its order. */
    take: (event: RecordedEvent): void =>
      take(event as Parameters<typeof take>[0], event.stream.slice(event.stream.indexOf('-') + 1)),

    /** What is not delivered at an instant after the last event, by product. */
    at: (atMs: number): readonly DeferredLine[] => {
      const unused = unusedAt(atMs)
      const lines = new Map<string, DeferredLine>()
      for (const [orderId, { productId, priceMicros, paid, traffic, isFulfilled }] of orders) {
        const price = BigInt(Math.max(priceMicros, 0))
        let [deferredMicros, remainingMs, unusedBytes] = [isFulfilled ? 0n : price, 0, 0]
        for (const { startMs, endMs } of paid) {
          const leftMs = Math.max(0, endMs - Math.max(atMs, startMs))
          if (leftMs === 0) continue
          remainingMs += leftMs
          deferredMicros += (price * BigInt(leftMs)) / (BigInt(endMs - startMs) * BigInt(paid.length))
        }
        if (traffic !== null) {
          unusedBytes = unused.get(orderId) ?? 0
          deferredMicros += (price * BigInt(unusedBytes)) / BigInt(traffic.boughtBytes)
        }
        if (deferredMicros === 0n && remainingMs === 0 && unusedBytes === 0) continue
        const line = lines.get(productId)
        lines.set(productId, {
          productId,
          orders: (line?.orders ?? 0) + 1,
          deferredMicros: (line?.deferredMicros ?? 0n) + deferredMicros,
          remainingMs: (line?.remainingMs ?? 0) + remainingMs,
          unusedBytes: (line?.unusedBytes ?? 0) + unusedBytes,
        })
      }
      return [...lines.values()].sort((a, b) => (a.productId < b.productId ? -1 : 1))
    },
  }
}
