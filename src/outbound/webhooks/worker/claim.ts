import type { Logger } from 'pino'
import type { WebhookEventName } from '../event-names.ts'
import type { WebhookValues } from '../vault.ts'
import type { Db } from './membership.ts'

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

/** Where to send, with what to sign. */
export type Destination = {
  readonly url: string
  readonly secret: string
  readonly previousSecret: string | null
  readonly previousUntil: string | null
}

/** What an endpoint has shown so far; the worker that has its lease changes it. */
export type Standing = {
  /** Attempts that failed in a row. */
  readonly failures: number
  /** When the first of these failed, by the service's clock, ISO 8601. */
  readonly failingSince: string | null
  /** The URL that it answered 2xx at: another one has to prove itself anew. */
  readonly provenUrlId: string | null
  /** It is left alone until then. */
  readonly holdUntil: string | null
}

/** The queue of one endpoint, held by this worker alone until it is released or its process ends. */
export type Lease = {
  readonly endpointId: string
  readonly standing: Standing
  /** The id of the URL that `destination` is; null where there is none. */
  readonly urlId: string | null
  /**
   * `removed`: the endpoint is no more. `unreadable`: nothing can be sent just now, for it is just being removed or what is
   * kept of it cannot be opened.
   */
  readonly destination: Destination | 'removed' | 'unreadable'
  readonly deliveries: readonly DueDelivery[]
}

const leaseSeconds = 40

/**
 * An endpoint is claimed whole, not its deliveries one by one: that is the bound on how many run at once at one receiver,
 * over all processes; a backlog of one endpoint is one row here, and costs the others nothing.
 */
const claimSql = `
  with passed as (
    select min(position) as position from engine.checkpoints where name = any ($1::text[])
  ), chosen as (
    select q.endpoint_id from work.webhook_queues q, passed p
     where q.next_due_at <= $2::timestamptz and q.lease_owner is null
       and (q.hold_until is null or q.hold_until <= $2::timestamptz)
       and exists (select 1 from work.webhook_deliveries d where d.endpoint_id = q.endpoint_id
                      and d.status = 'pending' and d.due_at between q.next_due_at and $2::timestamptz
                      and d.position <= p.position)
     order by q.next_due_at limit $3::integer for update of q skip locked
  )
  update work.webhook_queues q
     set lease_owner = $4::integer, lease_until = clock_timestamp() + interval '${leaseSeconds} seconds'
    from chosen, passed
   where q.endpoint_id = chosen.endpoint_id
  returning q.endpoint_id, q.failures, q.failing_since, q.proven_url_id, q.hold_until, q.next_due_at, passed.position`

/**
 * In its own statement: the claim's snapshot may be older than its locks. Nothing pending is due before its queue says, so
 * what is over already is not looked through. What is due at the same instant, as after a redelivery of many, leaves in
 * the order of its events.
 */
const dueSql = `
  select d.delivery_id, d.endpoint_id, d.account_id, d.event, d.resource, d.data, d.round, d.revision, d.attempts,
         d.queued_at
    from unnest($1::text[], $2::timestamptz[]) as c (endpoint_id, since)
   cross join lateral (
     select * from work.webhook_deliveries d
      where d.endpoint_id = c.endpoint_id and d.status = 'pending'
        and d.due_at between c.since and $3::timestamptz and d.position <= $4::bigint
      order by d.due_at, d.queued_at, d.position limit $5::integer) d`

const destinationsSql = `
  select e.endpoint_id, e.url_id, e.secret_id, e.previous_secret_id, e.previous_until,
         u.sealed as url, s.sealed as secret, p.sealed as previous
    from read.webhook_endpoints e
    left join vault.webhook_values u on u.value_id = e.url_id
    left join vault.webhook_values s on s.value_id = e.secret_id
    left join vault.webhook_values p on p.value_id = e.previous_secret_id
   where e.endpoint_id = any ($1::text[])`

type DestinationRow = {
  readonly endpoint_id: string
  readonly url_id: string
  readonly secret_id: string
  readonly previous_secret_id: string | null
  readonly previous_until: string | null
  readonly url: Buffer | null
  readonly secret: Buffer | null
  readonly previous: Buffer | null
}

type ClaimedRow = {
  readonly endpoint_id: string
  readonly failures: number
  readonly failing_since: string | null
  readonly proven_url_id: string | null
  readonly hold_until: string | null
  readonly next_due_at: string
  readonly position: number
}

type Released = { readonly endpointId: string; readonly standing: Standing }

/** Gives queues back; each is due again when its earliest delivery is. */
export const release = async (db: Db, worker: number, queues: readonly Released[]): Promise<void> => {
  const of = <Value>(pick: (standing: Standing) => Value): Value[] =>
    queues.map(({ standing }) => pick(standing))
  await db.query({
    name: 'webhooks-release',
    text: `select work.release_webhook_queues($1::integer, $2::text[], $3::integer[], $4::text[], $5::timestamptz[],
             $6::timestamptz[])`,
    values: [
      worker,
      queues.map(({ endpointId }) => endpointId),
      of(({ failures }) => failures),
      of(({ provenUrlId }) => provenUrlId),
      of(({ holdUntil }) => holdUntil),
      of(({ failingSince }) => failingSince),
    ],
  })
}

const standingOf = (row: ClaimedRow): Standing => ({
  failures: row.failures,
  failingSince: row.failing_since,
  provenUrlId: row.proven_url_id,
  holdUntil: row.hold_until,
})

export type Claim = (options: {
  readonly worker: number
  /** Due times are the service's clock, ISO 8601. */
  readonly now: string
  readonly endpoints: number
  readonly perEndpoint: number
}) => Promise<readonly Lease[]>

export const createClaim = (deps: {
  readonly db: Db
  readonly values: Pick<WebhookValues, 'open'>
  readonly logger: Logger
  /** The groups of read models that must have passed a delivery before it is sent. */
  readonly groups: readonly string[]
}): Claim => {
  const { db, values, groups, logger } = deps

  const opened = (row: DestinationRow, url: Buffer, secret: Buffer): Destination => {
    const { previous, previous_secret_id: previousId } = row
    const hasPrevious = previousId !== null && previous !== null
    return {
      url: values.open(row.url_id, url),
      secret: values.open(row.secret_id, secret),
      previousSecret: hasPrevious ? values.open(previousId, previous) : null,
      previousUntil: row.previous_until,
    }
  }

  const destinationOf = (row: DestinationRow | undefined): Lease['destination'] => {
    if (row === undefined) return 'removed'
    const { endpoint_id: endpointId, url, secret } = row
    if (url === null || secret === null) return 'unreadable'
    try {
      return opened(row, url, secret)
    } catch (error) {
      // A damaged value is its own endpoint's trouble, and not that of all that were claimed with it.
      logger.error({ err: error, endpointId }, 'what is kept of a webhook endpoint cannot be opened')
      return 'unreadable'
    }
  }

  const readLeases = async (
    claimed: readonly ClaimedRow[],
    now: string,
    perEndpoint: number,
  ): Promise<readonly Lease[]> => {
    const ids = claimed.map(({ endpoint_id }) => endpoint_id)
    const due = await db.query<DueDelivery>({
      name: 'webhooks-due',
      text: dueSql,
      values: [ids, claimed.map(({ next_due_at }) => next_due_at), now, claimed[0]!.position, perEndpoint],
    })
    const destinations = await db.query<DestinationRow>({
      name: 'webhooks-destinations',
      text: destinationsSql,
      values: [ids],
    })
    const byEndpoint = Map.groupBy(due.rows, ({ endpoint_id }) => endpoint_id)
    const rows = new Map(destinations.rows.map((row) => [row.endpoint_id, row]))
    return claimed.map((row) => ({
      endpointId: row.endpoint_id,
      standing: standingOf(row),
      urlId: rows.get(row.endpoint_id)?.url_id ?? null,
      destination: destinationOf(rows.get(row.endpoint_id)),
      deliveries: byEndpoint.get(row.endpoint_id) ?? [],
    }))
  }

  return async ({ worker, now, endpoints, perEndpoint }) => {
    const { rows: claimed } = await db.query<ClaimedRow>({
      name: 'webhooks-claim',
      text: claimSql,
      values: [groups, now, endpoints, worker],
    })
    if (claimed.length === 0) return []
    try {
      return await readLeases(claimed, now, perEndpoint)
    } catch (error) {
      await release(
        db,
        worker,
        claimed.map((row) => ({ endpointId: row.endpoint_id, standing: standingOf(row) })),
      )
      throw error
    }
  }
}
