import type pg from 'pg'
import { webhookDeliveries } from '../../../projections/groups.ts'
import {
  findDelivery,
  findEndpoint,
  listEndpoints,
  type WebhookEndpointRow,
} from '../../../projections/webhooks.ts'
import type { Subscription } from '../../domain/webhooks/events.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { webhooksStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { TargetRefused } from '../../platform/outgoing/target.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { type Reads, ReadsBehind } from '../../platform/projections/read-your-writes.ts'
import { createAllowance } from './allowance.ts'
import type { EndpointOwner, EndpointUpdate, Webhooks } from './endpoint-service.ts'
import { createEndpointStates } from './endpoint-states.ts'
import { createRedeliverSince, deliverNow } from './redeliver.ts'
import { done, notFound } from './route-fields.ts'
import { type WebhookRecord, webhookRecord } from './webhook-record.ts'
import type { WebhookValues } from './webhook-vault.ts'

type Owner = { readonly accountId: AccountId }

/** Reads of an account's endpoints that include the account's own writes, whichever process took them. */
export type EndpointReads = {
  /**
   * Waits until the read tables include all endpoint events of the account and the position `after` that the client has
   * seen.
   */
  settled(owner: Owner, after: number | null): Promise<void>
  /** @throws not_found for an absent endpoint and for another account's endpoint alike */
  endpointOf(owner: Owner, id: string, after: number | null): Promise<WebhookEndpointRow>
  /** The endpoints with their URLs, by the value ids in the log. Endpoints with an erased URL are left out. */
  recordsOf(owner: Owner, rows: readonly WebhookEndpointRow[]): Promise<readonly WebhookRecord[]>
  /** @throws not_found */
  recordOf(owner: Owner, id: string, after: number | null): Promise<WebhookRecord>
}

export const createEndpointReads = (deps: {
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'lastOf' | 'readStreams'>
  readonly values: Pick<WebhookValues, 'read'>
  readonly db: Db
}): EndpointReads => {
  const { reads, log, values, db } = deps
  const endpointsOf = createEndpointStates(log)

  const settled: EndpointReads['settled'] = async ({ accountId }, after) => {
    const last = await log.lastOf(webhooksStream(accountId))
    await reads.settled(accountId, Math.max(after ?? 0, last?.position ?? 0))
  }

  const endpointOf: EndpointReads['endpointOf'] = async (owner, id, after) => {
    await settled(owner, after)
    const row = await findEndpoint(db, owner.accountId, id)
    if (!row) throw notFound()
    return row
  }

  const recordsOf: EndpointReads['recordsOf'] = async ({ accountId }, rows) => {
    const { state } = await endpointsOf(accountId)
    const found = rows.flatMap((row) => {
      const valueId = state.get(row.endpointId)?.urlId
      return valueId === undefined ? [] : [{ row, valueId, endpointId: row.endpointId }]
    })
    const urls = await values.read(found)
    return found.flatMap(({ row, valueId }) => {
      const url = urls.get(valueId)
      return url === undefined ? [] : [webhookRecord(row, url)]
    })
  }

  return {
    settled,
    endpointOf,
    recordsOf,
    recordOf: async (owner, id, after) => {
      const [record] = await recordsOf(owner, [await endpointOf(owner, id, after)])
      if (record === undefined) throw notFound()
      return record
    },
  }
}

export type WebhookServiceDeps = {
  readonly webhooks: Webhooks
  readonly values: WebhookValues
  /** @throws TargetRefused */
  readonly checkTarget: (url: string) => Promise<URL>
  readonly progress: Pick<Progress, 'reached'>
  readonly reads: Pick<Reads, 'settled'>
  readonly log: EventLog
  readonly clock: Clock
  readonly db: Db
  readonly pool: pg.Pool
  /** Whether manual requests are rate limited. */
  readonly limited: boolean
}

/** The longest wait of a reader of deliveries for their queue, milliseconds. */
const queueWaitMs = 2_000

/**
 * Webhook endpoints and deliveries for the API and the console: checks limits first, then URLs, then the account's
 * stream. Throws the errors that the API answers. `after` is the log position that the client has seen.
 */
export const createWebhookService = (deps: WebhookServiceDeps) => {
  const { webhooks, progress, log, clock, db, pool } = deps
  const endpoints = createEndpointReads(deps)
  const takeAllowance = createAllowance(deps)
  const redeliverSince = createRedeliverSince(deps)

  const checkedUrl = async (url: string): Promise<string> => {
    try {
      return (await deps.checkTarget(url)).href
    } catch (error) {
      if (error instanceof TargetRefused) throw refuse('invalid_url', `url ${error.message}`)
      throw error
    }
  }

  /** A delivery is in the table once the queue was filled past its event. */
  const queued = async (position?: number): Promise<void> => {
    if (!(await progress.reached(webhookDeliveries.name, position ?? (await log.head()), queueWaitMs)))
      throw new ReadsBehind('the deliveries that this request must see are not queued yet; try again')
  }

  return {
    /** A page of the account's endpoints, newest first. */
    list: async (
      accountId: AccountId,
      page: { readonly limit: number; readonly offset: number },
      after: number | null,
    ): Promise<{ readonly webhooks: readonly WebhookRecord[]; readonly total: number }> => {
      await endpoints.settled({ accountId }, after)
      const found = await listEndpoints(db, accountId, page)
      return { webhooks: await endpoints.recordsOf({ accountId }, found.endpoints), total: found.total }
    },

    find: ({ accountId, endpointId }: EndpointOwner, after: number | null): Promise<WebhookRecord> =>
      endpoints.recordOf({ accountId }, endpointId, after),

    /** The secret is returned only here. */
    register: async (
      accountId: AccountId,
      endpointInput: { readonly url: string; readonly events: Subscription },
      cause: Cause,
    ) => {
      await takeAllowance('registration', accountId, null)
      const url = await checkedUrl(endpointInput.url)
      const registered = done(
        await webhooks.register({ accountId, url, events: endpointInput.events }, cause),
      )
      return { ...registered, url }
    },

    change: async (
      endpointOwner: EndpointOwner,
      change: EndpointUpdate,
      cause: Cause,
      after: number | null,
    ) => {
      const url = change.url === undefined ? undefined : await checkedUrl(change.url)
      // The URL of a missing endpoint must not be stored.
      await endpoints.endpointOf(endpointOwner, endpointOwner.endpointId, after)
      return done(await webhooks.change(endpointOwner, { ...change, url }, cause))
    },

    remove: async (endpointOwner: EndpointOwner, cause: Cause) =>
      done(await webhooks.remove(endpointOwner, cause)),

    /** The new secret is returned only here. */
    rotateSecret: async (endpointOwner: EndpointOwner, cause: Cause, after: number | null) => {
      await endpoints.endpointOf(endpointOwner, endpointOwner.endpointId, after)
      return done(await webhooks.rotateSecret(endpointOwner, cause))
    },

    ping: async (endpointOwner: EndpointOwner, cause: Cause) => {
      await takeAllowance('test', endpointOwner.accountId, endpointOwner.endpointId)
      return done(await webhooks.ping(endpointOwner, cause))
    },

    /** After it resolves, `listDeliveries` and `deliveriesAfter` include all deliveries queued until now. */
    deliveriesReady: async (endpointOwner: EndpointOwner, after: number | null): Promise<void> => {
      await endpoints.endpointOf(endpointOwner, endpointOwner.endpointId, after)
      await queued()
    },

    /** @returns the position of the event; null when the delivery was pending and nothing was written */
    redeliver: async (
      endpointOwner: EndpointOwner,
      deliveryId: string,
      cause: Cause,
      after: number | null,
    ) => {
      const { accountId, endpointId } = endpointOwner
      await endpoints.endpointOf(endpointOwner, endpointId, after)
      const delivery = await findDelivery(db, endpointId, deliveryId)
      if (!delivery) throw refuse('not_found', 'no delivery of this webhook has this id')
      await takeAllowance('redelivery', accountId, endpointId)
      const { position } = done(await webhooks.redeliver(endpointOwner, delivery, cause))
      // Nothing was written: the delivery is pending, and may wait for its next attempt.
      if (position === null) await deliverNow(pool, endpointId, [deliveryId], clock())
      return position
    },

    /** @param sinceMs events that happened at or after it */
    redeliverSince: async (
      endpointOwner: EndpointOwner,
      sinceMs: number,
      cause: Cause,
      after: number | null,
    ) => {
      await endpoints.endpointOf(endpointOwner, endpointOwner.endpointId, after)
      await takeAllowance('outage', endpointOwner.accountId, endpointOwner.endpointId)
      await queued()
      return redeliverSince(endpointOwner.endpointId, sinceMs, cause, async (position) => {
        await endpoints.settled(endpointOwner, position)
        await queued(position)
      })
    },
  }
}

export type WebhookService = ReturnType<typeof createWebhookService>
