import {
  decideChange,
  decideDisabling,
  decideEnqueue,
  decideRedelivery,
  decideRegistration,
  decideRemoval,
  decideRotation,
  type EndpointDecision,
} from '../../src/domain/webhooks/decide.ts'
import type { DeliveryOutcome } from '../../src/domain/webhooks/events.ts'
import { deliveryFold, type EndpointsState, endpointsFold } from '../../src/domain/webhooks/fold.ts'
import { type AccountId, deriveId } from '../../src/kernel/ids.ts'
import { deliveryStream, webhooksStream } from '../../src/kernel/streams.ts'
import type { History } from './history.ts'

const commitment = 'c0ffee00'.repeat(8)

/** Three endpoints that are changed, disabled and removed, and deliveries with each outcome. */
export const makeWebhooks = (
  { fact, state, now }: History,
  { accountId, orderId }: { readonly accountId: AccountId; readonly orderId: string },
): void => {
  const stream = webhooksStream(accountId)
  const endpoints = (): EndpointsState => state(stream, endpointsFold)
  const put = (decide: (endpoints: EndpointsState) => EndpointDecision): void => {
    const decision = decide(endpoints())
    if (decision.outcome === 'refused') throw new Error(decision.refusal)
    fact(stream, ...decision.events)
  }
  const ref = (endpointId: string) => ({ endpointId, accountId })
  const register = (endpointId: string, events: Parameters<typeof decideRegistration>[1]['events']): void =>
    put((all) =>
      decideRegistration(all, {
        ...ref(endpointId),
        events,
        urlId: `url_${endpointId}`,
        secretId: `sec_${endpointId}`,
        urlCommitment: commitment,
        secretCommitment: commitment,
      }),
    )
  register('whs_golden_kept', null)
  register('whs_golden_gone', ['order.fulfilled', 'plan.low_traffic'])
  register('whs_golden_removed', ['order.fulfilled'])

  const event = 'order.fulfilled'
  const delivery = (endpointId: string) => deliveryStream(endpointId, event, orderId)
  const enqueue = (endpointId: string): void => {
    const deliveryId = deriveId('dlv', [endpointId, event, orderId])
    const data = {
      orderId,
      status: 'completed',
      productId: 'residential-premium',
      quantity: 5,
      amountCents: 1_500,
      currency: 'USD',
      createdAt: '2026-11-21T00:00:30.000Z',
      fulfilledAt: '2026-11-21T00:00:30.000Z',
    }
    fact(
      delivery(endpointId),
      ...decideEnqueue(state(delivery(endpointId), deliveryFold), {
        deliveryId,
        ...ref(endpointId),
        event,
        resource: orderId,
        data,
      }),
    )
  }
  const end = (endpointId: string, outcome: (which: DeliveryOutcome['data']) => DeliveryOutcome): void => {
    const { deliveryId } = state(delivery(endpointId), deliveryFold)!.enqueued
    fact(delivery(endpointId), outcome({ deliveryId, endpointId, attempts: 1 } as DeliveryOutcome['data']))
  }
  for (const id of ['whs_golden_kept', 'whs_golden_gone', 'whs_golden_removed']) enqueue(id)
  const succeed = () =>
    end('whs_golden_kept', (which) => ({ type: 'DeliverySucceeded', data: { ...which, status: 204 } }))
  succeed()
  fact(delivery('whs_golden_kept'), ...decideRedelivery(state(delivery('whs_golden_kept'), deliveryFold)))
  succeed()
  end('whs_golden_gone', (which) => ({ type: 'DeliveryAbandoned', data: { ...which, reason: 'gone' } }))
  put((all) => decideDisabling(all, ref('whs_golden_gone'), { reason: 'gone' }))
  put((all) => decideRemoval(all, ref('whs_golden_removed')))
  end('whs_golden_removed', (which) => ({
    type: 'DeliveryCanceled',
    data: { ...which, attempts: 0, reason: 'endpoint_removed' },
  }))
  const changes = {
    events: ['order.refunded', 'ping'],
    urlId: 'url_golden_second',
    urlCommitment: commitment,
  } as const
  put((all) => decideChange(all, ref('whs_golden_kept'), changes))
  put((all) =>
    decideRotation(
      all,
      { ...ref('whs_golden_kept'), secretId: 'sec_golden_second', secretCommitment: commitment },
      now(),
    ),
  )
}
