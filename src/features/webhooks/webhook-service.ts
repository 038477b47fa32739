import type pg from 'pg'
import { webhookDeliveries } from '../../../projections/groups.ts'
import {
  findDelivery,
  findEndpoint,
  listEndpoints,
  type WebhookEndpointRow,
} from '../../../projections/webhooks.ts'
import { type EndpointRefusal, maxActiveEndpoints, maxEndpoints } from '../../domain/webhooks/decide.ts'
import type { Subscription } from '../../domain/webhooks/events.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { webhooksStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { TargetRefused } from '../../platform/outgoing/target.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { type Reads, ReadsBehind } from '../../platform/projections/read-your-writes.ts'
import { createEndpointStates } from './delivery-queue.ts'
import type { EndpointOwner, EndpointUpdate, WebhookResult, Webhooks } from './endpoint-service.ts'
import { createRedeliverSince, deliverNow } from './redeliver.ts'
import { type WebhookRecord, webhookRecord } from './webhook-record.ts'
import type { WebhookValues } from './webhook-vault.ts'

const notFound = () => refuse('not_found', 'no webhook has this id')

const refusal = ({ refusal }: Refused<EndpointRefusal>) =>
  refusal === 'not_found'
    ? notFound()
    : refuse(
        'webhook_limit_reached',
        `an account has at most ${maxActiveEndpoints} active webhook endpoints, and ${maxEndpoints} with disabled ones; remove one first`,
      )

/** The result; a refusal is thrown as its API error. */
const done = <Made>(result: WebhookResult<Made>) => {
  if (result.outcome === 'refused') throw refusal(result)
  return result
}

type Owner = { readonly accountId: AccountId }

export type WebhookServiceDependencies = {
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

/** Reads of an account's endpoints that include the account's own writes, whichever process took them. */
const createEndpointReads = ({ reads, log, values, db }: WebhookServiceDependencies) => {
  const endpointsOf = createEndpointStates(log)

  /**
   * Waits until the read tables include all endpoint events of the account and the position `after` that the client has
   * seen.
   */
  const settled = async ({ accountId }: Owner, after: number | null): Promise<void> => {
    const last = await log.lastOf(webhooksStream(accountId))
    await reads.settled(accountId, Math.max(after ?? 0, last?.position ?? 0))
  }

  /** @throws not_found for an absent endpoint and for another account's endpoint alike */
  const endpointOf = async (
    { accountId, endpointId }: EndpointOwner,
    after: number | null,
  ): Promise<WebhookEndpointRow> => {
    await settled({ accountId }, after)
    const row = await findEndpoint(db, accountId, endpointId)
    if (!row) throw notFound()
    return row
  }

  /** The endpoints with their URLs, by the value ids in the log. Endpoints with an erased URL are left out. */
  const recordsOf = async (
    { accountId }: Owner,
    rows: readonly WebhookEndpointRow[],
  ): Promise<readonly WebhookRecord[]> => {
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
    /** @throws not_found */
    recordOf: async (owner: EndpointOwner, after: number | null): Promise<WebhookRecord> => {
      const [record] = await recordsOf(owner, [await endpointOf(owner, after)])
      if (record === undefined) throw notFound()
      return record
    },
  }
}

/** The longest wait of a reader of deliveries for their queue, milliseconds. */
const queueWaitMs = 2_000

/**
 * Webhook endpoints and deliveries for the API and the console: checks limits first, then URLs, then the account's
 * stream. Throws the errors that the API answers. `after` is the log position that the client has seen.
 */
export const createWebhookService = (dependencies: WebhookServiceDependencies) => {
  const { webhooks, progress, log, clock, db, pool } = dependencies
  const endpoints = createEndpointReads(dependencies)
  const takeAllowance = createAllowance(dependencies)
  const redeliverSince = createRedeliverSince(dependencies)

  const checkedUrl = async (url: string): Promise<string> => {
    try {
      return (await dependencies.checkTarget(url)).href
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

    find: endpoints.recordOf,

    /** The secret is returned only here. */
    register: async (
      accountId: AccountId,
      endpointInput: { readonly url: string; readonly events: Subscription },
      cause: Cause,
    ) => {
      await takeAllowance('registration', { accountId })
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
      await endpoints.endpointOf(endpointOwner, after)
      return done(await webhooks.change(endpointOwner, { ...change, url }, cause))
    },

    remove: async (endpointOwner: EndpointOwner, cause: Cause) =>
      done(await webhooks.remove(endpointOwner, cause)),

    /** The new secret is returned only here. */
    rotateSecret: async (endpointOwner: EndpointOwner, cause: Cause, after: number | null) => {
      await endpoints.endpointOf(endpointOwner, after)
      return done(await webhooks.rotateSecret(endpointOwner, cause))
    },

    ping: async (endpointOwner: EndpointOwner, cause: Cause) => {
      await takeAllowance('test', endpointOwner)
      return done(await webhooks.ping(endpointOwner, cause))
    },

    /** After it resolves, `listDeliveries` and `deliveriesAfter` include all deliveries queued until now. */
    deliveriesReady: async (endpointOwner: EndpointOwner, after: number | null): Promise<void> => {
      await endpoints.endpointOf(endpointOwner, after)
      await queued()
    },

    /** @returns the position of the event; null when the delivery was pending and nothing was written */
    redeliver: async (
      endpointOwner: EndpointOwner,
      deliveryId: string,
      cause: Cause,
      after: number | null,
    ) => {
      const { endpointId } = endpointOwner
      await endpoints.endpointOf(endpointOwner, after)
      const delivery = await findDelivery(db, endpointId, deliveryId)
      if (!delivery) throw refuse('not_found', 'no delivery of this webhook has this id')
      await takeAllowance('redelivery', endpointOwner)
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
      await endpoints.endpointOf(endpointOwner, after)
      await takeAllowance('outage', endpointOwner)
      await queued()
      return redeliverSince(endpointOwner.endpointId, sinceMs, cause, async (position) => {
        await endpoints.settled(endpointOwner, position)
        await queued(position)
      })
    },
  }
}

export type WebhookService = ReturnType<typeof createWebhookService>

/** Allowed requests per minute, and the size of the burst. Null: no limit per endpoint. */
type PerMinute = { readonly endpoint: number | null; readonly account: number }

/**
 * Limits on the webhooks that an account requests by hand. Ordinary events are limited by purchases. Manual requests
 * are not, and they go to any registered host. A registration counts because a new endpoint receives an event for each
 * plan that is already low.
 */
export const allowances = {
  test: { endpoint: 5, account: 10 },
  redelivery: { endpoint: 30, account: 60 },
  outage: { endpoint: 5, account: 10 },
  registration: { endpoint: null, account: 20 },
} as const satisfies Readonly<Record<string, PerMinute>>

type ManualOperation = keyof typeof allowances

const operationLabels: Readonly<Record<ManualOperation, string>> = {
  test: 'pings',
  redelivery: 'redeliveries',
  outage: 'redeliveries of all that was missed',
  registration: 'registrations of webhook endpoints',
}

/**
 * Counts requests in Postgres, so that all processes share one count. The account's endpoint stream is not used: a
 * limit on repeated requests must not append an event for each of them. Losing a count with a restored backup does no
 * harm.
 * @param limited false: nothing is counted (FAREBOX_RATE_LIMIT=off)
 */
export const createAllowance =
  ({ pool, clock, limited }: Pick<WebhookServiceDependencies, 'pool' | 'clock' | 'limited'>) =>
  /** @throws rate_limited, with the seconds to wait */
  async (
    manualOperation: ManualOperation,
    { accountId, endpointId }: Owner & Partial<EndpointOwner>,
  ): Promise<void> => {
    if (!limited) return
    const { endpoint, account } = allowances[manualOperation]
    // The subject contains the account: a caller that guesses another account's endpoint id does not use up its
    // allowance.
    const rateLimits = [
      { subject: `${manualOperation} ${accountId}`, perMinute: account },
      ...(endpoint === null || endpointId === undefined
        ? []
        : [{ subject: `${manualOperation} ${accountId} ${endpointId}`, perMinute: endpoint }]),
    ]
    const { rows } = await pool.query<{ wait_ms: number }>({
      name: 'webhooks-allowance',
      text: 'select work.take_webhook_allowance($1::text[], $2::integer[], $3::timestamptz) as wait_ms',
      values: [
        rateLimits.map(({ subject }) => subject),
        rateLimits.map(({ perMinute }) => perMinute),
        isoTime(clock()),
      ],
    })
    const waitMs = rows[0]?.wait_ms ?? 0
    if (waitMs > 0)
      throw refuseWithRetryAfter(
        'rate_limited',
        `too many ${operationLabels[manualOperation]} in a minute`,
        waitMs / 1000,
      )
  }

/** Deletes buckets that are full again. */
export const deleteExpiredAllowances = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  await pool.query({
    name: 'webhooks-forget-allowances',
    text: 'delete from work.webhook_allowances where spent_until < $1::timestamptz',
    values: [isoTime(nowMs)],
  })
}
