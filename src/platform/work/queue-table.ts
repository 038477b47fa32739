import type pg from 'pg'

/** Receives events of the queues of a process. `src/app/metrics.ts` counts them. */
export type WorkMetrics = {
  /** The process works on this queue. `inFlight` is the number of its running items. */
  running(queue: string, inFlight: () => number): void
  /** The outcome of an item: `again` will be tried again, `dead` will not. */
  ended(queue: string, outcome: 'done' | 'again' | 'dead'): void
}

/** A row of a queue's table for a handler: its columns with their names in Postgres. */
export type QueueItem = {
  /** The number of previous attempts. */
  readonly attempts: number
}

/** A table that is a queue (see `work.add_queue` in migrations.ts). Its names are constants of the program. */
export type QueueTable = {
  /** Its name for operators and in metrics. */
  readonly name: string
  /** The table's name with its schema. */
  readonly table: string
  /** The columns of its primary key, all text. */
  readonly key: readonly string[]
  /** The column of the owner, text. Owners take turns: items of one owner do not wait for items of another. */
  readonly owner: string
  /** The longest wait of an item for its next attempt, milliseconds. A later due time was set by a wrong clock. */
  readonly longestWaitMs: number
  /** The longest pause of an owner on purpose, milliseconds: its items are not overdue meanwhile. Default: 0, none. */
  readonly longestPauseMs?: number
  /** More columns that the handler needs. */
  readonly columns: readonly string[]
  /** Another condition for a due item, over the item `d` and the time `now`. Default: none. */
  readonly ready?: (now: string) => string
  /** The order of an owner's due items: expressions over the item `d` and the time `now`. Default: by due time. */
  readonly order?: (now: string) => string
  /** For items that are tried again: whether the last attempt failed, a condition over the item `d`. Default: true. */
  readonly failed?: string
  /** Which items are dead and need an operator: a condition over the item `d`. */
  readonly dead?: string
  /** Why an item is dead: an expression over the item `d`. Default: its `result`. */
  readonly why?: string
}

/** The item's key as one text, for lists and logs. */
export const keyOf = ({ key }: QueueTable, item: object): string =>
  key.map((column) => (item as Readonly<Record<string, unknown>>)[column]).join(' ')

const ownerOf = ({ owner }: QueueTable, item: object): string =>
  String((item as Readonly<Record<string, unknown>>)[owner])

export const deadCondition = ({ dead = "d.status = 'dead'" }: QueueTable): string => dead

/** The name of the connection of a process that works on queues. */
export const workerSession = 'farebox queue worker'

/** Runs queries one after another on one connection. */
export type Db = { query<Row extends pg.QueryResultRow>(query: pg.QueryConfig): Promise<pg.QueryResult<Row>> }

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
  readonly pausedUntil: string | null
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
          owners.map(({ pausedUntil }) => pausedUntil),
          owners.map(({ memory }) => (memory === null ? null : JSON.stringify(memory))),
        ],
      })
    },
  }
}
