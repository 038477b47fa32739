import type { Fold } from '../../kernel/decider.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { findRemembered } from '../../kernel/recent-ids.ts'
import { planStream, type StreamName, stockStream } from '../../kernel/streams.ts'
import { ledgerRef } from '../ledger/fold.ts'
import { decidePlanOrder, decideWithdrawal, recordRefusal as refusePlan } from '../plans/decide.ts'
import { type PlanState, planFold } from '../plans/fold.ts'
import type { OrderDetails } from '../shared/order-terms.ts'
import {
  decideAllocation,
  decideExtension,
  decideRelease,
  extensionsOf,
  recordRefusal as refuseStock,
} from '../stock/decide.ts'
import { type StockState, stockFold } from '../stock/fold.ts'
import type { AllocationRefusalReason } from './events.ts'
import { orderRef, type Refund } from './fold.ts'

/** What the allocation owner answered to an order. */
export type AllocationResult =
  | { readonly outcome: 'fulfilled'; readonly at: string; readonly proxyIds: readonly ProxyId[] }
  | {
      readonly outcome: 'refused'
      readonly reason: AllocationRefusalReason
      /** As in `StockAnswer`. */
      readonly free?: number
    }

export type AllocationDecision = {
  /** Empty if the verdict is already recorded, and for a refusal that is not recorded. */
  readonly events: readonly DomainEvent[]
  readonly verdict: AllocationResult
  /** Whether the allocation owner's stream has the verdict. */
  readonly isRecorded: boolean
}

/** The stream that alone decides whether an order is fulfilled (docs/architecture.md, "An order"). */
export type AllocationOwner<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: stock and plan events occur only in their own allocation owner
  readonly fold: Fold<State, any>
  decide(state: State, nowMs: number): AllocationDecision
  /** The event that records a refusal. It is appended before the order fails and is refunded. */
  recordRefusal(reason: AllocationRefusalReason): DomainEvent
  /**
   * Of the rentals that a refund would end, those that later orders have paid for, with the ids of these orders.
   * `nowMs` is in milliseconds since the epoch.
   */
  paidForSince(
    state: State,
    refund: Pick<Refund, 'proxyIds'>,
    nowMs: number,
  ): ReadonlyMap<ProxyId, readonly string[]>
  /** The events that take back what the refund pays for. `isFullRefund`: the refund leaves nothing of the order. */
  takeBack(state: State, refund: Refund, isFullRefund: boolean, nowMs: number): readonly DomainEvent[]
}

const stockAllocationOwner = (order: OrderDetails): AllocationOwner<StockState> => {
  if (!order.target) throw new Error(`order ${order.orderId} has no target`)
  const decide = order.kind === 'extension' ? decideExtension : decideAllocation
  return {
    stream: stockStream(order.productId, order.target.country),
    fold: stockFold,
    decide: (state, nowMs) => {
      const { events, answer } = decide(state, order, nowMs)
      const verdict: AllocationResult =
        answer.outcome === 'fulfilled'
          ? { outcome: 'fulfilled', at: answer.at, proxyIds: answer.proxyIds }
          : answer
      return { events, verdict, isRecorded: findRemembered(state.answers, order.orderId) !== undefined }
    },
    recordRefusal: (reason) =>
      refuseStock(order.orderId, reason === 'plan_expired' ? 'out_of_stock' : reason),
    paidForSince: (state, refund, nowMs) =>
      order.kind === 'extension' ? new Map() : extensionsOf(state, refund.proxyIds, nowMs),
    // A refunded extension leaves the rentals as they are, because they may have been extended since.
    takeBack: (state, refund, _isFullRefund, nowMs) =>
      order.kind === 'extension' ? [] : decideRelease(state, refund.proxyIds, 'refunded', nowMs),
  }
}

const planAllocationOwner = (order: OrderDetails): AllocationOwner<PlanState> => {
  if (order.planId === null) throw new Error(`order ${order.orderId} names no plan`)
  return {
    stream: planStream(order.planId),
    fold: planFold,
    decide: (state, nowMs) => {
      const { events, answer } = decidePlanOrder(state, order, nowMs)
      const verdict: AllocationResult =
        answer.outcome === 'fulfilled' ? { outcome: 'fulfilled', at: answer.at, proxyIds: [] } : answer
      return { events, verdict, isRecorded: findRemembered(state.answers, order.orderId) !== undefined }
    },
    recordRefusal: () => refusePlan(order.orderId),
    paidForSince: () => new Map(),
    takeBack: (state, refund, isFullRefund, nowMs) =>
      isFullRefund ? decideWithdrawal(state, { order, refundId: refund.refundId }, nowMs) : [],
  }
}

/** The allocation owner of an order: the stock of its product and country, or its plan. */
// biome-ignore lint/suspicious/noExplicitAny: callers pass an allocation owner only states of its own stream
export const allocationOwnerOf = (order: OrderDetails): AllocationOwner<any> =>
  order.delivery === 'addresses' ? stockAllocationOwner(order) : planAllocationOwner(order)

/** The streams that an order is decided on, keyed as in the command. Events are appended in this order of streams. */
export const orderStreams = (order: Omit<OrderDetails, 'createdAt'>) => {
  // No stream name depends on `createdAt`.
  const { stream, fold } = allocationOwnerOf(order as OrderDetails)
  return {
    ledger: ledgerRef(order.accountId),
    allocationOwner: { stream, fold },
    order: orderRef(order.orderId),
  }
}
