import type { SubscriptionEvent } from '../../../src/domain/subscriptions/events.ts'
import type { SubscriptionId } from '../../../src/kernel/ids.ts'
import { subscriptionStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { type Customer, done } from '../../support/app-actions.ts'
import type { TestApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

export const dayMs = 86_400_000
export const path = '/api/v1/subscriptions'

/** Common requests of subscriptions. */
export const subscriptionsOf = ({ client, core }: TestApp) => {
  let keys = 0
  const get = async (who: Customer, at: string) => (await done(client.get(at, { key: who.key }))).body
  const read = (who: Customer, id: string) => get(who, `${path}/${id}`)
  /** Reads the subscription once it is as it should become. */
  const becomes = (
    who: Customer,
    id: string,
    fits: (record: Record<string, unknown>) => boolean,
    what: string,
  ) =>
    until(
      async () => {
        const record = await read(who, id)
        return fits(record) ? record : null
      },
      { timeoutMs: 20_000, what },
    )
  return {
    start: async (who: Customer, body: object, key?: string) => {
      keys += 1
      const headers = { 'Idempotency-Key': key ?? `start-${keys}` }
      return (await done(client.post(path, body, { key: who.key, headers }))).body
    },
    read,
    list: (who: Customer, query: string) => get(who, `${path}${query}`),
    becomes,
    /** Reads the subscription once its next period has begun. */
    renewed: (
      who: Customer,
      {
        subscriptionId,
        currentPeriodEnd,
      }: { readonly subscriptionId: string; readonly currentPeriodEnd: string },
    ) =>
      becomes(
        who,
        subscriptionId,
        ({ currentPeriodStart }) => currentPeriodStart === currentPeriodEnd,
        'a renewal',
      ),
    eventsOf: async (id: string): Promise<readonly SubscriptionEvent[]> => {
      const events: SubscriptionEvent[] = []
      for await (const stored of core.log.readStream(subscriptionStream(id as SubscriptionId)))
        events.push(decode(stored) as SubscriptionEvent)
      return events
    },
    orders: async (who: Customer) => (await get(who, '/api/v1/orders?limit=100')).orders,
  }
}
