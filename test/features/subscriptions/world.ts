import type { TestContext } from 'node:test'
import type { SubscriptionEvent } from '../../../src/domain/subscriptions/events.ts'
import type { SubscriptionId } from '../../../src/kernel/ids.ts'
import { subscriptionStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { type Customer, done, openStage, type Stage } from '../../contract/stage.ts'
import { until } from '../../support/until.ts'

export const dayMs = 86_400_000
export const path = '/api/v1/subscriptions'

/** The service with a clock that can be moved, and common requests of subscriptions. */
export const openYear = async (t: TestContext, settings: Readonly<Record<string, string>> = {}) => {
  let offsetMs = Number(settings.FAREBOX_CLOCK_OFFSET_MS ?? 0)
  const stage: Stage = await openStage(t, settings)
  const { core, projecting } = stage.farebox
  // The service's own clock moves, the system's does not.
  Object.defineProperty(stage.farebox.config, 'clockOffsetMs', { get: () => offsetMs })
  const { client } = stage
  let keys = 0
  const read = async (who: Customer, id: string) =>
    (await done(client.get(`${path}/${id}`, { key: who.key }))).body
  return {
    ...stage,
    now: () => core.clock(),
    wait: (ms: number) => {
      offsetMs += ms
    },
    /** Moves the clock to an instant. */
    until: (iso: string) => {
      offsetMs += Date.parse(iso) - core.clock()
    },
    start: async (who: Customer, body: object, key?: string) => {
      keys += 1
      const headers = { 'Idempotency-Key': key ?? `start-${keys}` }
      return (await done(client.post(path, body, { key: who.key, headers }))).body
    },
    read,
    list: async (who: Customer, query: string) =>
      (await done(client.get(`${path}${query}`, { key: who.key }))).body,
    /** Reads the subscription once it is as it should become. */
    becomes: (who: Customer, id: string, fits: (record: Record<string, unknown>) => boolean, what: string) =>
      until(
        async () => {
          const record = await read(who, id)
          return fits(record) ? record : null
        },
        { timeoutMs: 20_000, what },
      ),
    eventsOf: async (id: string): Promise<readonly SubscriptionEvent[]> => {
      const events: SubscriptionEvent[] = []
      for await (const stored of core.log.readStream(subscriptionStream(id as SubscriptionId)))
        events.push(decode(stored) as SubscriptionEvent)
      return events
    },
    caughtUp: () => projecting.caughtUp(10_000),
    orders: async (who: Customer) =>
      (await done(client.get('/api/v1/orders?limit=100', { key: who.key }))).body.orders,
  }
}
