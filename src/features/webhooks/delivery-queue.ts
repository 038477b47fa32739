import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { hot } from '../../../projections/groups.ts'
import { payloadOf } from '../../../projections/webhook-queue.ts'
import type { WebhookEnqueued, WebhookEventName } from '../../domain/webhooks/events.ts'
import type { Endpoint as EndpointState } from '../../domain/webhooks/fold.ts'
import { deliveryStream, type StreamName } from '../../kernel/streams.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import type { Db } from '../../platform/work/queue-leases.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import { createEndpointStates } from './endpoint-states.ts'
import type { WebhookValues } from './webhook-vault.ts'

/** One delivery that is due, as its row tells it. */
export type DueDelivery = {
  readonly delivery_id: string
  readonly endpoint_id: string
  readonly account_id: string
  readonly event: WebhookEventName
  readonly resource: string
  readonly data: string
  readonly round: number
  readonly revision: number
  readonly attempts: number
  readonly queued_at: string
}

/** The longest wait between two attempts (docs/http-api.md, "Webhooks and notices"). */
export const maxDelayMs = 6 * 60 * 60 * 1000

/**
 * An owner is an endpoint. A delivery is sent once the read models have passed its event, so that a receiver that asks sees
 * what it was told of. What is due at the same instant, as after a redelivery of many, leaves in the order of its events.
 */
export const deliveryQueue: QueueTable = {
  name: 'webhooks',
  table: 'work.webhook_deliveries',
  key: ['delivery_id'],
  owner: 'endpoint_id',
  longestWaitMs: maxDelayMs,
  columns: ['account_id', 'event', 'resource', 'data', 'round', 'revision', 'queued_at'],
  ready: () => `d.position <= (select position from engine.checkpoints where name = '${hot.name}')`,
  order: () => 'd.due_at, d.queued_at, d.position',
  dead: "d.status = 'abandoned'",
  why: "'abandoned after ' || d.attempts || ' attempts'",
}

/** The texts of a low plan that no event has. */
const textsOf = ({ event, data }: DueDelivery): Parameters<typeof payloadOf>[1] => {
  const { label, product } = event === 'plan.low_traffic' ? JSON.parse(data) : {}
  return { label: String(label), product: String(product) }
}

/** Deliveries whose first events are held. */
const maxKnown = 2_000

/**
 * Finds a delivery in the log: SQL can add and change rows of the queue, and what is sent is signed with the receiver's
 * secret. Only the texts of a low plan that no event has, its label and the name of its
 * product, come from the row. Of each delivery only the first event is read, which never changes: those that follow soon are
 * read with it.
 * @returns null when no event enqueued it for this endpoint
 * @throws what the log throws
 */
export const createEnqueuedDeliveries = (log: Pick<EventLog, 'readStreams'>) => {
  const known = new LRUCache<StreamName, StoredEvent>({ max: maxKnown })
  const firstOf = createBatchLoader<StreamName, StoredEvent>(async (streams) => {
    const read = await log.readStreams(
      streams.map((stream) => ({ stream, from: 0 })),
      1,
    )
    for (const [stream, [first]] of read) known.set(stream, first!)
    return new Map([...read].map(([stream, events]) => [stream, events[0]!]))
  })
  const streamOf = ({ endpoint_id, event, resource }: DueDelivery): StreamName =>
    deliveryStream(endpoint_id, event, resource)
  return async (delivery: DueDelivery, next: readonly DueDelivery[]): Promise<DueDelivery | null> => {
    const { event } = delivery
    const stream = streamOf(delivery)
    const readAhead = async (): Promise<StoredEvent | undefined> => {
      const ahead = next.map(streamOf).filter((each) => !known.has(each))
      return (await Promise.all([stream, ...ahead].map(firstOf)))[0]
    }
    const first = known.get(stream) ?? (await readAhead())
    if (first?.type !== 'WebhookEnqueued') return null
    const { deliveryId, accountId, data } = JSON.parse(first.data) as WebhookEnqueued['data']
    if (deliveryId !== delivery.delivery_id) return null
    return { ...delivery, account_id: accountId, data: payloadOf({ event, data }, textsOf(delivery)) }
  }
}

/** Where to send, with what to sign. */
export type Destination = {
  readonly url: string
  readonly secret: string
  readonly previousSecret: string | null
  readonly previousUntil: string | null
}

/** An endpoint as it is set up now. */
export type Endpoint = {
  /** Whose it is; null where there is none. */
  readonly accountId: string | null
  /** The id of the URL that `destination` is; null where there is none. */
  readonly urlId: string | null
  /**
   * `removed`: the endpoint is no more. `unreadable`: nothing can be sent just now, for it is just being removed or what is
   * kept of it cannot be opened.
   */
  readonly destination: Destination | 'removed' | 'unreadable'
}

const removed: Endpoint = { accountId: null, urlId: null, destination: 'removed' }

/** An endpoint and one value that the vault has of it; null: it has none. */
type EndpointRow = {
  readonly endpoint_id: string
  readonly account_id: string
  readonly value_id: string | null
  readonly sealed: Buffer | null
}

const endpointsSql = `
  select e.endpoint_id, e.account_id, v.value_id, v.sealed
    from read.webhook_endpoints e left join vault.webhook_values v on v.endpoint_id = e.endpoint_id
   where e.endpoint_id = any ($1::text[])`

/** Reads endpoints by their ids, all at once: whose they are from the read table, and the rest from the log of that account. */
export const createDestinations = (deps: {
  readonly log: Pick<EventLog, 'readStreams'>
  readonly values: Pick<WebhookValues, 'open'>
  readonly logger: Logger
}) => {
  const { values, logger } = deps
  const endpointsOf = createEndpointStates(deps.log)

  const destinationOf = (
    endpointId: string,
    { urlId, secretId, previous }: EndpointState,
    sealed: ReadonlyMap<string, Buffer>,
  ): Endpoint['destination'] => {
    const [url, secret] = [sealed.get(urlId), sealed.get(secretId)]
    const former = previous && sealed.get(previous.secretId)
    if (url === undefined || secret === undefined) return 'unreadable'
    try {
      return {
        url: values.open(urlId, endpointId, url),
        secret: values.open(secretId, endpointId, secret),
        previousSecret: former ? values.open(previous.secretId, endpointId, former) : null,
        previousUntil: previous?.until ?? null,
      }
    } catch (error) {
      // A damaged value is its own endpoint's trouble, and not that of all that were claimed with it.
      logger.error({ err: error, endpointId }, 'what is kept of a webhook endpoint cannot be opened')
      return 'unreadable'
    }
  }

  const endpointOf = async (endpointId: string, rows: readonly EndpointRow[]): Promise<Endpoint> => {
    const accountId = rows[0]!.account_id
    const endpoint = (await endpointsOf(accountId)).state.get(endpointId)
    // It was removed a moment ago, or the row names another account.
    if (endpoint === undefined) return { accountId, urlId: null, destination: 'unreadable' }
    const sealed = new Map(rows.map((row) => [row.value_id ?? '', row.sealed!]))
    return { accountId, urlId: endpoint.urlId, destination: destinationOf(endpointId, endpoint, sealed) }
  }

  return async (db: Db, endpointIds: readonly string[]): Promise<(endpointId: string) => Endpoint> => {
    const { rows } = await db.query<EndpointRow>({
      name: 'webhooks-endpoints-with-values',
      text: endpointsSql,
      values: [endpointIds],
    })
    const byId = new Map(
      await Promise.all(
        [...Map.groupBy(rows, (row) => row.endpoint_id)].map(
          async ([endpointId, ofOne]) => [endpointId, await endpointOf(endpointId, ofOne)] as const,
        ),
      ),
    )
    return (endpointId) => byId.get(endpointId) ?? removed
  }
}
