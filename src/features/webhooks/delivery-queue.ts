import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { hot } from '../../../projections/groups.ts'
import { type PayloadTexts, payloadOf } from '../../../projections/webhook-queue.ts'
import type { WebhookEnqueued, WebhookEventName } from '../../domain/webhooks/events.ts'
import {
  type Endpoint as EndpointState,
  type EndpointsState,
  endpointsFold,
} from '../../domain/webhooks/fold.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { deliveryStream, type StreamName, webhooksStream } from '../../kernel/streams.ts'
import { createLogStates, type LogStates } from '../../platform/commands/log-states.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import type { Db, QueueTable } from '../../platform/work/queue-table.ts'
import type { WebhookValues } from './webhook-vault.ts'

/** A due delivery, as stored in its row. */
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

/** The longest delay between two attempts (docs/reference/api.md, "Webhooks and notices"). */
export const maxDelayMs = 6 * 60 * 60 * 1000

/** The longest pause of an endpoint that never answered. */
export const maxPauseMs = 60_000

/**
 * The queue owner is the endpoint. A delivery is sent once the read models include its event, so that a receiver can
 * read what it was notified of. Deliveries that are due at the same instant, e.g. after a bulk redelivery, are sent in
 * event order.
 */
export const deliveryQueue: QueueTable = {
  name: 'webhooks',
  table: 'work.webhook_deliveries',
  key: ['delivery_id'],
  owner: 'endpoint_id',
  longestWaitMs: maxDelayMs,
  longestPauseMs: maxPauseMs,
  columns: ['account_id', 'event', 'resource', 'data', 'round', 'revision', 'queued_at'],
  ready: () => `d.position <= (select position from engine.checkpoints where name = '${hot.name}')`,
  order: () => 'd.due_at, d.queued_at, d.position',
  dead: "d.status = 'abandoned'",
  why: "'abandoned after ' || d.attempts || ' attempts'",
}

const textsOf = ({ event, data }: DueDelivery): PayloadTexts => {
  const hasTexts = event === 'plan.low_traffic' || event === 'customer.traffic'
  const { label, product, customer } = hasTexts ? JSON.parse(data) : {}
  return {
    label: String(label),
    product: String(product),
    customer: typeof customer === 'string' ? customer : null,
  }
}

/** Deliveries whose first event is cached. */
const maxCachedEvents = 2_000

/**
 * Finds a delivery in the log. SQL can add and change rows of the queue, and the webhook is signed with the receiver's
 * secret. Only texts that no event has come from the row: the label and the product's name of a low plan, and the
 * reseller's own id of a customer. Only the first event of a delivery is read. It never changes. The first events of deliveries that are due
 * soon are read with it.
 * @returns null when no event enqueued it for this endpoint
 * @throws errors of the log
 */
export const createEnqueuedDeliveries = (log: Pick<EventLog, 'readStreams'>) => {
  const firstEvents = new LRUCache<StreamName, StoredEvent>({ max: maxCachedEvents })
  const firstOf = createBatchLoader<StreamName, StoredEvent>(async (streams) => {
    const read = await log.readStreams(
      streams.map((stream) => ({ stream, from: 0 })),
      1,
    )
    for (const [stream, [first]] of read) firstEvents.set(stream, first!)
    return new Map([...read].map(([stream, events]) => [stream, events[0]!]))
  })
  const streamOf = ({ endpoint_id, event, resource }: DueDelivery): StreamName =>
    deliveryStream(endpoint_id, event, resource)
  return async (delivery: DueDelivery, next: readonly DueDelivery[]): Promise<DueDelivery | null> => {
    const { event } = delivery
    const stream = streamOf(delivery)
    const readAhead = async (): Promise<StoredEvent | undefined> => {
      const ahead = next.map(streamOf).filter((each) => !firstEvents.has(each))
      return (await Promise.all([stream, ...ahead].map(firstOf)))[0]
    }
    const first = firstEvents.get(stream) ?? (await readAhead())
    if (first?.type !== 'WebhookEnqueued') return null
    const { deliveryId, accountId, data } = JSON.parse(first.data) as WebhookEnqueued['data']
    if (deliveryId !== delivery.delivery_id) return null
    return { ...delivery, account_id: accountId, data: payloadOf({ event, data }, textsOf(delivery)) }
  }
}

/** The target URL and the signing secrets. */
export type Destination = {
  readonly url: string
  readonly secret: string
  readonly previousSecret: string | null
  readonly previousUntil: string | null
}

/** The current configuration of an endpoint. */
export type Endpoint = {
  /** Its account; null if the endpoint does not exist. */
  readonly accountId: string | null
  /** The id of the URL in `destination`; null if there is none. */
  readonly urlId: string | null
  /**
   * `removed`: the endpoint was removed. `unreadable`: nothing can be sent now, because it is being removed or its
   * stored values cannot be decrypted.
   */
  readonly destination: Destination | 'removed' | 'unreadable'
}

const removed: Endpoint = { accountId: null, urlId: null, destination: 'removed' }

/** An endpoint and one of its vault values; null: it has none. */
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

/** Reads endpoints by id, all at once: the account from the read table, the rest from the account's stream. */
export const createDestinations = (dependencies: {
  readonly log: Pick<EventLog, 'readStreams'>
  readonly values: Pick<WebhookValues, 'open'>
  readonly logger: Logger
}) => {
  const { values, logger } = dependencies
  const endpointsOf = createEndpointStates(dependencies.log)

  const destinationOf = (
    endpointId: string,
    { urlId, secretId, previous }: EndpointState,
    sealed: ReadonlyMap<string, Buffer>,
  ): Endpoint['destination'] => {
    const [url, secret] = [sealed.get(urlId), sealed.get(secretId)]
    const sealedPrevious = previous && sealed.get(previous.secretId)
    if (url === undefined || secret === undefined) return 'unreadable'
    try {
      return {
        url: values.open(urlId, endpointId, url),
        secret: values.open(secretId, endpointId, secret),
        previousSecret: sealedPrevious ? values.open(previous.secretId, endpointId, sealedPrevious) : null,
        previousUntil: previous?.until ?? null,
      }
    } catch (error) {
      // A damaged value affects its own endpoint only, not all deliveries of the batch.
      logger.error({ err: error, endpointId }, 'the URL or secret of a webhook endpoint cannot be decrypted')
      return 'unreadable'
    }
  }

  const endpointOf = async (endpointId: string, rows: readonly EndpointRow[]): Promise<Endpoint> => {
    const accountId = rows[0]!.account_id
    const endpoint = (await endpointsOf(accountId)).state.get(endpointId)
    // It was just removed, or the row names another account.
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
          async ([endpointId, endpointRows]) =>
            [endpointId, await endpointOf(endpointId, endpointRows)] as const,
        ),
      ),
    )
    return (endpointId) => byId.get(endpointId) ?? removed
  }
}

/** Accounts whose state is cached. */
const maxCachedStates = 5_000

/**
 * The endpoints of accounts, folded from the log. The ids of an endpoint's URL and secrets are read here, because SQL
 * can change `read.webhook_endpoints`.
 */
export const createEndpointStates = (log: Pick<EventLog, 'readStreams'>): LogStates<EndpointsState> =>
  createLogStates(
    log,
    (account) => ({ stream: webhooksStream(account as AccountId), fold: endpointsFold }),
    maxCachedStates,
  )
