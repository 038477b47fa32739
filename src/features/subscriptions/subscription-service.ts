import type { Order } from '../../domain/orders/fold.ts'
import { decideCancellation, decidePaid } from '../../domain/subscriptions/decide.ts'
import {
  orderIdOfPeriod,
  type Subscription,
  type SubscriptionState,
  subscriptionAfter,
  subscriptionIdOf,
  subscriptionRef,
  subscriptionsActor,
} from '../../domain/subscriptions/fold.ts'
import { decided, refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import {
  type AccountId,
  deriveId,
  newId,
  type OrderId,
  type PlanId,
  type SubscriptionId,
} from '../../kernel/ids.ts'
import { orderStream, subscriptionStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, readState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { IdempotentResult } from '../../platform/http/route.ts'
import {
  type CompanionAppend,
  orRefusal,
  type Payer,
  type PlaceOrder,
  type PriceSources,
  refundOrder,
} from '../orders/index.ts'
import { prepareFirstPeriod, type SubscriptionInput } from './prepare-subscription.ts'

/** `position` of the subscription's last event. */
export type Started = IdempotentResult & { readonly subscription: Subscription }

export type Subscriptions = {
  /** Whether the account has a subscription under the key. Its first order's stream decides this. */
  known(account: AccountId, idempotencyKey: string): Promise<boolean>
  /**
   * Pays the first period and starts the subscription, or returns the existing one of the key.
   * @throws ApiError: refusals of `prepareFirstPeriod` and `placeOrder`; CommandOverload
   */
  start(request: {
    readonly caller: Payer
    readonly requestId: string
    readonly idempotencyKey: string | null
    readonly fingerprint: string
    readonly input: SubscriptionInput
  }): Promise<Started>
  /** Cancels at the end of the paid period; null for an unknown subscription. An ended one is not changed. */
  cancel(
    request: Cause & { readonly accountId: AccountId; readonly subscriptionId: SubscriptionId },
  ): Promise<{ readonly subscription: Subscription; readonly position: number | null } | null>
  read(subscriptionId: SubscriptionId): Promise<SubscriptionState>
  /**
   * Records an order that paid a period in its subscription, after a crash on a log without atomic items. If the period
   * is no longer due, the order is refunded whole. Doing it twice changes nothing.
   */
  finish(order: Order): Promise<void>
  /** Decides an order together with its subscription: see `CompanionAppend`. */
  companion(subscriptionId: SubscriptionId): CompanionAppend<SubscriptionState>
}

export const createSubscriptions = (deps: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly placeOrder: PlaceOrder
  readonly market: PriceSources
  readonly settleTraffic: (planId: PlanId) => Promise<void>
}): Subscriptions => {
  const { log, runner, placeOrder, market } = deps

  const read: Subscriptions['read'] = (subscriptionId) =>
    readState(
      runner,
      { name: 'read-subscription', actor: subscriptionsActor, correlationId: newId('run') },
      subscriptionRef(subscriptionId),
    )

  const companion: Subscriptions['companion'] = (subscriptionId) => ({
    ...subscriptionRef(subscriptionId),
    decide: decidePaid,
  })

  const finish: Subscriptions['finish'] = async (order) => {
    const { orderId, accountId, subscription } = order.details
    // An order that was refunded since still counts for the period, as if it had been recorded at once.
    if (!subscription || order.fulfilledAt === null) return
    const cause = { actor: subscriptionsActor, correlationId: newId('run'), account: accountId }
    const recorded = await handle(
      runner,
      { ...cause, name: 'record-period' },
      subscriptionRef(subscription.subscriptionId as SubscriptionId),
      (state) => {
        const events = decidePaid(state, order)
        return events === null ? refused('period_not_due') : decided(...events)
      },
    )
    if (recorded.outcome === 'done') return
    const refundId = deriveId('ref', [orderId, 'subscription'])
    await refundOrder(deps, { orderId, refundId, request: { kind: 'whole' }, ...cause })
  }

  return {
    known: async (account, idempotencyKey) => {
      const subscriptionId = subscriptionIdOf(account, idempotencyKey)
      const order = orderStream(orderIdOfPeriod(subscriptionId, null))
      return (await log.lastOf(order)) !== null
    },

    start: async ({ caller, requestId, idempotencyKey: clientKey, fingerprint, input }) => {
      const idempotencyKey = clientKey ?? newId('auto')
      const subscriptionId = subscriptionIdOf(caller.accountId, idempotencyKey)
      const orderId: OrderId = orderIdOfPeriod(subscriptionId, null)
      const order = await orRefusal(prepareFirstPeriod(market, caller, input, { subscriptionId, orderId }))
      const placed = await placeOrder({
        caller,
        requestId,
        idempotencyKey: clientKey,
        orderId,
        fingerprint,
        item: { kind: 'quoted', order },
        companion: companion(subscriptionId),
      })
      if (
        placed.order.status === 'failed' ||
        (placed.order.status === 'refunded' && placed.order.failureReason)
      )
        throw refuse(
          'out_of_stock',
          'the first order found nothing left and was refunded; send a new Idempotency-Key to try again',
        )
      // After a crash the order may be complete without its subscription.
      let subscription = await read(subscriptionId)
      if (!subscription) {
        await finish(placed.order)
        subscription = await read(subscriptionId)
      }
      if (!subscription) throw new Error(`${orderId} was paid and ${subscriptionId} did not start`)
      const last = await log.lastOf(subscriptionStream(subscriptionId))
      return {
        subscription,
        replayed: placed.replayed,
        idempotencyKey,
        position: last?.position ?? placed.position,
      }
    },

    cancel: async ({ accountId, subscriptionId, actor, correlationId }) => {
      const result = await handle(
        runner,
        { name: 'cancel-subscription', actor, correlationId, account: accountId },
        subscriptionRef(subscriptionId),
        (state, { nowMs }) => {
          if (state?.terms.accountId !== accountId) return refused('not_found')
          const events = decideCancellation(state, nowMs)
          return { ...decided(...events), subscription: subscriptionAfter(state, events) }
        },
      )
      return result.outcome === 'refused' ? null : result
    },
    read,
    finish,
    companion,
  }
}
