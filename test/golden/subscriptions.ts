import { orderFold } from '../../src/domain/orders/fold.ts'
import { decideMetering } from '../../src/domain/plans/decide.ts'
import { planFold } from '../../src/domain/plans/fold.ts'
import { graceMs } from '../../src/domain/shared/billing-interval.ts'
import {
  decideCancellation,
  decidePaid,
  decideRefused,
  decideScheduledEnd,
} from '../../src/domain/subscriptions/decide.ts'
import { orderIdOfPeriod, type Subscription, subscriptionFold } from '../../src/domain/subscriptions/fold.ts'
import { type AccountId, type KeyId, planIdOfOrder, type SubscriptionId } from '../../src/kernel/ids.ts'
import { orderStream, planStream, subscriptionStream } from '../../src/kernel/streams.ts'
import { planOrder } from '../support/world.ts'
import type { Acts } from './acts.ts'
import type { History } from './history.ts'

/** One subscription that is renewed and expires, one that is canceled at its period's end, and a plan that runs low. */
export const makeSubscriptions = (history: History, { place }: Acts, accountId: AccountId): void => {
  const { fact, state, now, wait } = history
  const stateOf = (id: SubscriptionId) => state(subscriptionStream(id), subscriptionFold) as Subscription
  const until = (iso: string): void => wait(Date.parse(iso) - now())

  const pay = (subscriptionId: SubscriptionId, periodStart: string | null): void => {
    const orderId = orderIdOfPeriod(subscriptionId, periodStart)
    const period = { unit: 'month', count: 1 } as const
    const planId = planIdOfOrder(orderIdOfPeriod(subscriptionId, null))
    const kind = 'order' as const
    const subscription = { subscriptionId, interval: 'month', period, periodStart } as const
    place(planOrder(orderId, { accountId, keyId: 'key_golden' as KeyId, kind, planId, subscription }))
    const order = state(orderStream(orderId), orderFold)!
    fact(subscriptionStream(subscriptionId), ...decidePaid(stateOf(subscriptionId), order)!)
  }

  const lasting = 'sub_golden_lasting' as SubscriptionId
  pay(lasting, null)
  const stopped = 'sub_golden_stopped' as SubscriptionId
  pay(stopped, null)
  fact(subscriptionStream(stopped), ...decideCancellation(stateOf(stopped), now()))

  const planId = stateOf(lasting).planId!
  const stream = planStream(planId as Parameters<typeof planStream>[0])
  const used = { usedBytes: 4_600_000_000 }
  fact(stream, ...decideMetering(state(stream, planFold), used, now()))

  until(stateOf(stopped).currentPeriodEnd)
  fact(subscriptionStream(stopped), ...decideScheduledEnd(stateOf(stopped), now()))
  pay(lasting, stateOf(lasting).currentPeriodEnd)
  const { currentPeriodEnd: periodStart } = stateOf(lasting)
  until(periodStart)
  wait(graceMs)
  const refused = { periodStart, reason: 'insufficient_balance', orderExists: false }
  fact(subscriptionStream(lasting), ...decideRefused(stateOf(lasting), refused, now()))
}
