import type pg from 'pg'
import { openSession, type Session } from '../postgres/postgres-session.ts'
import { ownerOf, type QueueItem, type QueueTable } from './queue-table.ts'

/** An owner that is leased to this worker until it is released or the worker ends. */
export type ClaimedOwner = {
  readonly owner: string
  /** No pending item of the owner is due before this time. */
  readonly since: string
  /** The memory of the queue about the owner; null at first. */
  readonly memory: unknown
}

/** The result of a lease that is written on release. */
export type Released = {
  readonly owner: string
  readonly memory: unknown
  /** No item of the owner starts before this time, ISO 8601. */
  readonly holdUntil: string | null
}

/** The statements of one queue. Times are in the service's clock, ISO 8601; leases are in the clock of Postgres. */
export type Leases<Item> = {
  /** Leases owners with due items to this worker only. At most `owners`, those that wait longest first. */
  claim(
    db: Db,
    options: {
      readonly worker: number
      readonly now: string
      readonly owners: number
      readonly leaseMs: number
      /** Owners to skip. */
      readonly except: readonly string[]
    },
  ): Promise<readonly ClaimedOwner[]>
  /**
   * The due items of each owner, at most `limit` each. A separate statement, because the snapshot of a claim may be
   * older than its locks.
   */
  due(
    db: Db,
    owners: readonly Pick<ClaimedOwner, 'owner' | 'since'>[],
    options: { readonly now: string; readonly limit: number },
  ): Promise<ReadonlyMap<string, readonly Item[]>>
  /**
   * Sets the time of the next attempt and counts the attempt. Has no effect on an item that is finished or was tried
   * in the meantime.
   */
  postpone(db: Db, item: Item, dueAt: string): Promise<void>
  /** Releases owners. Each is due again when its earliest item is due. */
  release(db: Db, worker: number, owners: readonly Released[]): Promise<void>
}

export const createLeases = <Item extends QueueItem>(queue: QueueTable): Leases<Item> => {
  const { name, table, key, owner, columns } = queue
  const ready = (now: string): string => (queue.ready ? `and (${queue.ready(now)})` : '')
  const order = queue.order?.('$3::timestamptz') ?? 'd.due_at'
  const read = [...new Set([...key, owner, ...columns, 'attempts'])].map((column) => `d.${column}`).join(', ')
  return {
    claim: async (db, { worker, now, owners, leaseMs, except }) => {
      const { rows } = await db.query<ClaimedOwner>({
        name: `${name}-claim`,
        text: `with chosen as (
                 select q.owner from work.queue_owners q
                  where q.queue = $1::text and q.next_due_at <= $2::timestamptz and q.lease_worker is null
                    and (q.hold_until is null or q.hold_until <= $2::timestamptz)
                    and q.owner <> all ($6::text[])
                    and exists (select from ${table} d
                                 where d.${owner} = q.owner and d.status = 'pending'
                                   and d.due_at between q.next_due_at and $2::timestamptz ${ready('$2::timestamptz')})
                  order by q.next_due_at limit $3::integer for update of q skip locked
               )
               update work.queue_owners q
                  set lease_worker = $4::integer,
                      lease_until = clock_timestamp() + make_interval(secs => $5::float8)
                 from chosen where q.queue = $1::text and q.owner = chosen.owner
               returning q.owner, q.next_due_at as since, q.memory`,
        values: [name, now, owners, worker, leaseMs / 1000, except],
      })
      return rows
    },
    due: async (db, owners, { now, limit }) => {
      const { rows } = await db.query<Item>({
        name: `${name}-due`,
        text: `select ${read}
                 from unnest($1::text[], $2::timestamptz[]) as c (owner, since)
                cross join lateral (
                  select * from ${table} d
                   where d.${owner} = c.owner and d.status = 'pending'
                     and d.due_at between c.since and $3::timestamptz ${ready('$3::timestamptz')}
                   order by ${order} limit $4::integer) d`,
        values: [owners.map((each) => each.owner), owners.map(({ since }) => since), now, limit],
      })
      return Map.groupBy(rows, (item) => ownerOf(queue, item))
    },
    postpone: async (db, item, dueAt) => {
      await db.query({
        name: `${name}-postpone`,
        text: `update ${table} d set attempts = d.attempts + 1, due_at = $1::timestamptz
                where ${key.map((column, n) => `d.${column} = $${n + 3}::text`).join(' and ')}
                  and d.status = 'pending' and d.attempts = $2::integer`,
        values: [
          dueAt,
          item.attempts,
          ...key.map((column) => (item as Readonly<Record<string, unknown>>)[column]),
        ],
      })
    },
    release: async (db, worker, owners) => {
      await db.query({
        name: 'queues-release',
        text: `select work.release_queue_owners($1::text, $2::regclass, $3::text, $4::integer, $5::text[],
                 $6::timestamptz[], $7::jsonb[])`,
        values: [
          name,
          table,
          owner,
          worker,
          owners.map((each) => each.owner),
          owners.map(({ holdUntil }) => holdUntil),
          owners.map(({ memory }) => (memory === null ? null : JSON.stringify(memory))),
        ],
      })
    },
  }
}

/** Advisory locks of workers have their own class: the two numbers of a lock are this one and the worker's number. */
const lockClass = 72_309_002

/** Runs queries one after another on one connection. */
export type Db = { query<Row extends pg.QueryResultRow>(query: pg.QueryConfig): Promise<pg.QueryResult<Row>> }

/** The registration of a process as a worker of queues. */
export type Membership = {
  readonly worker: number
  /** The worker's own connection. Its commits do not wait for the disk: leases that a crash loses are claimed again. */
  readonly db: Db
  readonly session: Session
}

const inTurn = (client: pg.ClientBase): Db => {
  let last: Promise<unknown> = Promise.resolve()
  return {
    query: (query) => {
      const next = last.then(() => client.query<never>(query))
      last = next.catch(() => undefined)
      return next
    },
  }
}

/** The name of the connection of a process that works on queues. */
export const workerSession = 'farebox queue worker'

/**
 * Assigns a number to this worker that is unique while its connection is open. Postgres releases the lock when the
 * process ends in any way, so a lease of an ended process is detected within a second.
 */
export const joinWorkers = async (pool: pg.Pool): Promise<Membership> => {
  const session = await openSession(pool, workerSession)
  try {
    const { rows } = await session.client.query<{ worker: number }>(
      "select nextval('work.queue_workers')::integer as worker",
    )
    const { worker } = rows[0]!
    await session.client.query('select pg_advisory_lock($1::integer, $2::integer)', [lockClass, worker])
    return { worker, session, db: inTurn(session.client) }
  } catch (error) {
    await session.close()
    throw error
  }
}

/**
 * Releases the leases of workers that have ended, and expired leases.
 * @returns the queues whose owners are free again
 */
export const sweepLeases = async (db: Db): Promise<ReadonlySet<string>> => {
  const { rows } = await db.query<{ queue: string }>({
    name: 'queues-sweep',
    text: `with dead as materialized (
             select lease_worker from work.queue_owners where lease_worker is not null
             except
             select l.objid::bigint::integer from pg_locks l
              where l.locktype = 'advisory' and l.classid = ${lockClass}::oid and l.objsubid = 2 and l.granted
                and l.database = (select oid from pg_database where datname = current_database())
           ), void as (
             select queue, owner from work.queue_owners
              where lease_worker is not null
                and (lease_until < clock_timestamp() or lease_worker = any (array(select lease_worker from dead)))
              for update skip locked
           )
           update work.queue_owners q set lease_worker = null, lease_until = null
             from void where q.queue = void.queue and q.owner = void.owner
           returning q.queue`,
  })
  return new Set(rows.map(({ queue }) => queue))
}
