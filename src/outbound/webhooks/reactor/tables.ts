import type pg from 'pg'
import { isoTime } from '../../../kernel/clock.ts'
import {
  int4Array,
  int8Array,
  textArray,
  timestamptzArray,
} from '../../../platform/eventstore/postgres/arrays.ts'
import type { WebhookEventName } from '../event-names.ts'
import type { LowPlan, LowPlans } from '../low-plans.ts'
import type { FinishedStatus } from '../outcomes.ts'
import { type AccountChange, type Queued, reactorVersion, type Superseded } from './step.ts'
import type { Subscriber, Subscribers } from './subscribers.ts'

type Db = Pick<pg.ClientBase, 'query'>

/** Where the reactor stands. Its tables are as of this position, whoever owns it. */
export type Place = {
  readonly logId: string
  readonly position: number
  /** The id of the event at that position; null where none is known. */
  readonly lastEvent: string | null
  readonly epoch: number
}

type PlaceRow = { log_id: string; position: number; last_event: string | null; epoch: number }

const placeOf = ({ log_id, position, last_event, epoch }: PlaceRow): Place => ({
  logId: log_id,
  position,
  lastEvent: last_event,
  epoch,
})

/**
 * Makes the place on a first start, and starts a new epoch: what a former owner still sends is refused from now on. Null
 * when it is a newer release's: then nothing is changed.
 */
export const takePlace = async (db: Db, logId: string): Promise<Place | null> => {
  await db.query(
    `insert into work.webhook_reactor (name, log_id, position, epoch) values ('webhooks', $1::text, 0, 0)
     on conflict (name) do nothing`,
    [logId],
  )
  const { rows } = await db.query<PlaceRow>(
    `update work.webhook_reactor set epoch = epoch + 1 where name = 'webhooks' and version <= $1::integer
     returning log_id, position, last_event, epoch`,
    [reactorVersion],
  )
  return rows[0] ? placeOf(rows[0]) : null
}

/**
 * Goes back to the start of the log with empty tables. The log tells what is enqueued and what is done, so folding it
 * anew asks for nothing twice; until it was folded up to `head`, the worker sends nothing.
 */
export const startOver = async (db: Db, head: number): Promise<Place> => {
  await db.query('begin')
  try {
    await db.query(`truncate work.webhook_endpoints, work.webhook_accounts, work.webhook_low_plans,
      work.webhook_fan_outs, work.webhook_fan_out_targets, work.webhook_deliveries, work.webhook_attempts,
      work.webhook_queues, work.webhook_superseded_values`)
    const { rows } = await db.query<PlaceRow>(
      `update work.webhook_reactor set position = 0, last_event = null, epoch = epoch + 1, hold_until = $1::bigint
        where name = 'webhooks' returning log_id, position, last_event, epoch`,
      [head],
    )
    await db.query('commit')
    return placeOf(rows[0]!)
  } catch (error) {
    await db.query('rollback').catch(() => undefined)
    throw error
  }
}

/** False when another owner took over, or a newer release is there. */
export const movePlace = async (
  db: Db,
  from: Place,
  to: Pick<Place, 'position' | 'lastEvent'>,
): Promise<boolean> => {
  const { rowCount } = await db.query({
    name: 'webhooks-move',
    text: `update work.webhook_reactor set position = $3::bigint, last_event = $4::uuid
            where name = 'webhooks' and epoch = $1::bigint and position = $2::bigint and version <= $5::integer`,
    values: [from.epoch, from.position, to.position, to.lastEvent, reactorVersion],
  })
  return rowCount === 1
}

export const loadSubscribers = async (db: Db): Promise<readonly Subscriber[]> => {
  const { rows } = await db.query<{
    endpoint_id: string
    account_id: string
    events: readonly WebhookEventName[] | null
    active: boolean
  }>('select endpoint_id, account_id, events, active from work.webhook_endpoints')
  return rows.map(({ endpoint_id, account_id, events, active }) => ({
    endpointId: endpoint_id,
    accountId: account_id,
    events,
    active,
  }))
}

export const loadLowPlans = async (db: Db): Promise<readonly LowPlan[]> => {
  const { rows } = await db.query<{
    plan_id: string
    account_id: string
    product_id: string
    total_bytes: number
    used_bytes: number
    expires_at: string | null
  }>('select * from work.webhook_low_plans')
  return rows.map((row) => ({
    planId: row.plan_id,
    accountId: row.account_id,
    productId: row.product_id,
    totalBytes: row.total_bytes,
    usedBytes: row.used_bytes,
    expiresAt: row.expires_at,
  }))
}

export const saveEndpoints = async (
  db: Db,
  ids: ReadonlySet<string>,
  subscribers: Subscribers,
): Promise<void> => {
  const kept = [...ids].map((id) => subscribers.get(id)).filter((each) => each !== undefined)
  const removed = [...ids].filter((id) => subscribers.get(id) === undefined)
  if (removed.length > 0)
    await db.query('delete from work.webhook_endpoints where endpoint_id = any ($1::text[])', [removed])
  if (kept.length > 0)
    await db.query(
      `insert into work.webhook_endpoints (endpoint_id, account_id, active, events)
       select e->>'endpointId', e->>'accountId', (e->>'active')::boolean,
              case when jsonb_typeof(e->'events') = 'array'
                   then array(select jsonb_array_elements_text(e->'events')) end
         from jsonb_array_elements($1::jsonb) as e
       on conflict (endpoint_id) do update set active = excluded.active, events = excluded.events`,
      [JSON.stringify(kept)],
    )
}

export const saveLowPlans = async (db: Db, ids: ReadonlySet<string>, lowPlans: LowPlans): Promise<void> => {
  const kept = [...ids].map((id) => lowPlans.get(id)).filter((each) => each !== undefined)
  const removed = [...ids].filter((id) => lowPlans.get(id) === undefined)
  if (removed.length > 0)
    await db.query('delete from work.webhook_low_plans where plan_id = any ($1::text[])', [removed])
  if (kept.length > 0)
    await db.query(
      `insert into work.webhook_low_plans (plan_id, account_id, product_id, total_bytes, used_bytes, expires_at)
       select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[])
       on conflict (plan_id) do update set total_bytes = excluded.total_bytes,
         used_bytes = excluded.used_bytes, expires_at = excluded.expires_at`,
      [
        kept.map(({ planId }) => planId),
        kept.map(({ accountId }) => accountId),
        kept.map(({ productId }) => productId),
        kept.map(({ totalBytes }) => totalBytes),
        kept.map(({ usedBytes }) => usedBytes),
        kept.map(({ expiresAt }) => expiresAt),
      ],
    )
}

export type Ended = {
  readonly deliveryId: string
  readonly status: FinishedStatus
  readonly attempts: number
  /** Of the outcome in the delivery's stream: one of an earlier round says nothing of a redelivery. */
  readonly revision: number
  readonly at: string
}

/** What is done, by the word of the log. */
export const saveOutcomes = async (db: Db, ended: readonly Ended[]): Promise<void> => {
  const of = <Value>(pick: (one: Ended) => Value): Value[] => ended.map(pick)
  await db.query({
    name: 'webhooks-outcomes',
    text: `update work.webhook_deliveries d set status = o.status, attempts = o.attempts, finished_at = o.at
             from unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::timestamptz[])
               as o (delivery_id, status, attempts, revision, at)
            where d.delivery_id = o.delivery_id and d.status = 'pending' and d.revision < o.revision`,
    values: [
      textArray(of(({ deliveryId }) => deliveryId)),
      textArray(of(({ status }) => status)),
      int4Array(of(({ attempts }) => attempts)),
      int8Array(of(({ revision }) => revision)),
      timestamptzArray(of(({ at }) => at)),
    ],
  })
}

export const saveSuperseded = async (db: Db, values: readonly Superseded[]): Promise<void> => {
  await db.query(
    `insert into work.webhook_superseded_values (value_id, erase_at)
     select * from unnest($1::text[], $2::timestamptz[]) on conflict do nothing`,
    [values.map(({ valueId }) => valueId), values.map(({ eraseAtMs }) => isoTime(eraseAtMs))],
  )
}

/** Counts, so the changes of one account in a step are added up before they are written. */
export const saveAccounts = async (db: Db, changes: readonly AccountChange[]): Promise<void> => {
  const sums = new Map<string, { reseller: boolean; keys: number }>()
  for (const { accountId, created, keys } of changes) {
    const sum = sums.get(accountId) ?? { reseller: false, keys: 0 }
    sums.set(accountId, { reseller: created?.reseller ?? sum.reseller, keys: sum.keys + keys })
  }
  const rows = [...sums]
  await db.query(
    `insert into work.webhook_accounts (account_id, reseller, active_keys)
     select * from unnest($1::text[], $2::boolean[], $3::integer[])
     on conflict (account_id) do update set active_keys = work.webhook_accounts.active_keys + excluded.active_keys`,
    [rows.map(([id]) => id), rows.map(([, sum]) => sum.reseller), rows.map(([, sum]) => sum.keys)],
  )
}

/** A delivery as the worker takes it up: `data` is the JSON text that goes over the wire. */
export type QueueRow = { readonly queued: Queued; readonly data: string }

/**
 * What the log says is to be sent, due at once. A redelivery starts the row anew. Queues are locked in the order of
 * their ids, as the worker does, so that the two never wait for each other.
 */
export const saveQueued = async (db: Db, rows: readonly QueueRow[]): Promise<void> => {
  const last = new Map(rows.map((row) => [row.queued.data.deliveryId, row]))
  const all = [...last.values()]
  const of = <Value>(pick: (row: QueueRow) => Value): Value[] => all.map(pick)
  await db.query({
    name: 'webhooks-queue',
    text: `with given as materialized (
             select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
               $7::integer[], $8::bigint[], $9::bigint[], $10::timestamptz[])
               as g (delivery_id, endpoint_id, account_id, event, resource, data, round, revision, position, at)
           ), made as (
             insert into work.webhook_deliveries as d (delivery_id, endpoint_id, account_id, event, resource, data,
               round, revision, position, status, attempts, due_at, queued_at)
             select delivery_id, endpoint_id, account_id, event, resource, data, round, revision, position,
               'pending', 0, at, at from given
             on conflict (delivery_id) do update set round = excluded.round, revision = excluded.revision,
               position = excluded.position, status = 'pending', attempts = 0, due_at = excluded.due_at,
               finished_at = null
              where d.round < excluded.round
           )
           insert into work.webhook_queues as q (endpoint_id, next_due_at)
           select endpoint_id, min(at) from given group by endpoint_id order by endpoint_id
           on conflict (endpoint_id) do update set next_due_at = least(q.next_due_at, excluded.next_due_at)`,
    values: [
      textArray(of(({ queued }) => queued.data.deliveryId)),
      textArray(of(({ queued }) => queued.data.endpointId)),
      textArray(of(({ queued }) => queued.data.accountId)),
      textArray(of(({ queued }) => queued.data.event)),
      textArray(of(({ queued }) => queued.data.resource)),
      textArray(of(({ data }) => data)),
      int4Array(of(({ queued }) => (queued.type === 'WebhookRequeued' ? queued.data.round : 1))),
      int8Array(of(({ queued }) => queued.revision)),
      int8Array(of(({ queued }) => queued.position)),
      timestamptzArray(of(({ queued }) => queued.metadata.recordedAt)),
    ],
  })
}
