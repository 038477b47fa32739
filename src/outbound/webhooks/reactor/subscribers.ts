import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import { isSubscribed, type Subscription, type WebhookEventName } from '../event-names.ts'
import type { EndpointEvent } from '../events.ts'

export type Subscriber = {
  readonly endpointId: string
  readonly accountId: string
  readonly events: Subscription
  readonly active: boolean
}

export const endpointEvents: ReadonlySet<string> = new Set<EndpointEvent['type']>([
  'EndpointRegistered',
  'EndpointChanged',
  'EndpointDisabled',
  'EndpointRemoved',
  'SecretRotated',
])

export const isEndpointEvent = (event: RecordedEvent): event is RecordedEvent<EndpointEvent> =>
  endpointEvents.has(event.type)

/** What a fact did to an endpoint; `after` is null once it is removed. */
export type Changed = { readonly before: Subscriber | null; readonly after: Subscriber | null }

/**
 * Every endpoint as of a position, folded in log order: "subscribed at that moment" is asked of it, never of a read
 * model that is elsewhere in the log.
 */
export const createSubscribers = (initial: Iterable<Subscriber>) => {
  const byId = new Map<string, Subscriber>()
  const byAccount = new Map<string, Map<string, Subscriber>>()

  const put = (subscriber: Subscriber): void => {
    byId.set(subscriber.endpointId, subscriber)
    const known = byAccount.get(subscriber.accountId)
    if (known) known.set(subscriber.endpointId, subscriber)
    else byAccount.set(subscriber.accountId, new Map([[subscriber.endpointId, subscriber]]))
  }
  const remove = ({ endpointId, accountId }: Subscriber): void => {
    byId.delete(endpointId)
    const known = byAccount.get(accountId)
    known?.delete(endpointId)
    if (known?.size === 0) byAccount.delete(accountId)
  }
  for (const subscriber of initial) put(subscriber)

  const afterOf = (event: RecordedEvent<EndpointEvent>, before: Subscriber | null): Subscriber | null => {
    if (event.type === 'EndpointRegistered') {
      const { endpointId, accountId, events } = event.data
      return { endpointId, accountId, events, active: true }
    }
    // A removal that a crash interrupted is folded already and comes once more.
    if (event.type === 'EndpointRemoved') return null
    if (!before) throw new Error(`${event.type} on the endpoint ${event.data.endpointId}, which is not there`)
    switch (event.type) {
      case 'EndpointChanged': {
        const { events = before.events, status } = event.data
        return { ...before, events, active: status === undefined ? before.active : status === 'active' }
      }
      case 'EndpointDisabled':
        return { ...before, active: false }
      case 'SecretRotated':
        return before
      default:
        throw new Error(`unknown endpoint event ${JSON.stringify(event satisfies never)}`)
    }
  }

  return {
    fold(event: RecordedEvent<EndpointEvent>): Changed {
      const before = byId.get(event.data.endpointId) ?? null
      const after = afterOf(event, before)
      if (after) put(after)
      else if (before) remove(before)
      return { before, after }
    },
    get: (endpointId: string): Subscriber | undefined => byId.get(endpointId),
    /** The account's active endpoints that listen to the event. */
    of(accountId: string, event: WebhookEventName): readonly Subscriber[] {
      const known = byAccount.get(accountId)
      if (!known) return []
      return [...known.values()].filter(({ active, events }) => active && isSubscribed(events, event))
    },
  }
}

export type Subscribers = ReturnType<typeof createSubscribers>

/** Whether an endpoint listens to an event since this fact and did not before it. */
export const startsListening = ({ before, after }: Changed, event: WebhookEventName): boolean => {
  const listens = (subscriber: Subscriber | null): boolean =>
    subscriber?.active === true && isSubscribed(subscriber.events, event)
  return listens(after) && !listens(before)
}
