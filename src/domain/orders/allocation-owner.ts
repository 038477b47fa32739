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

/** What the arbiter told an order. */
export type AllocationResult =
  | { readonly outcome: 'fulfilled'; readonly at: string; readonly proxyIds: readonly ProxyId[] }
  | {
      readonly outcome: 'refused'
      readonly reason: AllocationRefusalReason
      /** As in `StockAnswer`. */
      readonly free?: number
    }

export type AllocationDecision = {
  /** None when the verdict stands already, or when it is a refusal that nobody put on record. */
  readonly events: readonly DomainEvent[]
  readonly verdict: AllocationResult
  /** The verdict is on record. */
  readonly isRecorded: boolean
}

/** The stream that alone decides whether an order is fulfilled (docs/architecture.md, "An order"). */
export type AllocationOwner<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: stock and plan events meet only inside their own arbiter
  readonly fold: Fold<State, any>
  decide(state: State, nowMs: number): AllocationDecision
  /** Puts a refusal on record, before the order is failed and refunded. */
  recordRefusal(reason: AllocationRefusalReason): DomainEvent
  /** Of the goods that a refund takes back, those that other orders have paid for since, and these orders. */
  paidForSince(
    state: State,
    refund: Pick<Refund, 'proxyIds'>,
    nowMs: number,
  ): ReadonlyMap<ProxyId, readonly string[]>
  /** Takes back what a refund pays for. */
  takeBack(state: State, refund: Refund, whole: boolean, nowMs: number): readonly DomainEvent[]
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
    // A refunded extension gives money back and leaves the rentals as they are: they may have been extended since.
    takeBack: (state, refund, _whole, nowMs) =>
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
    takeBack: (state, refund, whole, nowMs) =>
      whole ? decideWithdrawal(state, { order, refundId: refund.refundId }, nowMs) : [],
  }
}

/** The arbiter of an order: the stock of its product and country, or its plan. */
// biome-ignore lint/suspicious/noExplicitAny: callers hand an arbiter only states of its own stream
export const allocationOwnerOf = (order: OrderDetails): AllocationOwner<any> =>
  order.delivery === 'addresses' ? stockAllocationOwner(order) : planAllocationOwner(order)

/** The streams that an order is decided on, as a command names them. They are written in this order. */
export const orderStreams = (order: Omit<OrderDetails, 'createdAt'>) => {
  // When it was made names no stream.
  const { stream, fold } = allocationOwnerOf(order as OrderDetails)
  return {
    ledger: ledgerRef(order.accountId),
    allocationOwner: { stream, fold },
    order: orderRef(order.orderId),
  }
}
