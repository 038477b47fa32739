import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'
import { pluralize } from '../../kernel/formats.ts'
import type { Db } from './queue-table.ts'
import { deadCondition, keyOf, type QueueTable } from './queue-table.ts'

/** The status of a queue. */
export type Depth = {
  readonly queue: string
  /** Pending items. */
  readonly waiting: number
  /** Pending items that are due now. */
  readonly due: number
  /** When the oldest due item was due, ISO 8601; null if there is none. */
  readonly oldestDueAt: string | null
  /** Owners that are leased to a process. */
  readonly owners: number
  /** Dead items. */
  readonly dead: number
}

type DepthRow = {
  readonly waiting: number
  readonly due: number
  readonly oldest_due_at: string | null
  readonly owners: number
  readonly dead: number
}

export const depthOf = async (pool: pg.Pool, queue: QueueTable, nowMs: number): Promise<Depth> => {
  const { name, table, owner } = queue
  const { rows } = await pool.query<DepthRow>({
    name: `${name}-depth`,
    text: `select p.waiting, p.due, p.oldest_due_at,
                  (select count(*) from work.queue_owners
                    where queue = $1::text and lease_worker is not null) as owners,
                  (select count(*) from ${table} d where ${deadCondition(queue)}) as dead
             from (select count(*) as waiting, count(*) filter (where d.due_at <= $2::timestamptz) as due,
                          min(d.due_at) filter (where d.due_at <= $2::timestamptz) as oldest_due_at
                     from work.queue_owners q
                     join ${table} d on d.${owner} = q.owner and d.due_at >= q.next_due_at
                    where q.queue = $1::text and d.status = 'pending') p`,
    values: [name, isoTime(nowMs)],
  })
  const { waiting, due, oldest_due_at: oldestDueAt, owners, dead } = rows[0]!
  return { queue: name, waiting, due, oldestDueAt, owners, dead }
}

/**
 * Items that are due later than the longest wait of the queue, because a wrong clock set that time, and due items that
 * no process claims, because their owner is missing or is due later than they are. A condition over the item `d` and
 * the time `$1`.
 */
const tooLateCondition = ({ name, owner, longestWaitMs }: QueueTable): string =>
  `d.status = 'pending'
     and (d.due_at > $1::timestamptz + make_interval(secs => ${longestWaitMs / 1000 + lateGraceS}::float8)
       or d.due_at < $1::timestamptz - interval '${lateGraceS} seconds' and not exists (
         select from work.queue_owners q where q.queue = '${name}' and q.owner = d.${owner}
            and (q.lease_worker is not null or q.next_due_at <= d.due_at)))`
/** Tolerance for the differences of the processes' clocks, seconds. */
const lateGraceS = 60

/** A process pauses an owner for about a second after an error, and longer on purpose only. */
const longestPause = ({ longestPauseMs = 0 }: QueueTable): string =>
  `make_interval(secs => ${longestPauseMs / 1000 + lateGraceS}::float8)`

export const countTooLate = async (
  pool: Pick<pg.Pool, 'query'>,
  queue: QueueTable,
  nowMs: number,
): Promise<number> => {
  const { rows } = await pool.query<{ items: number }>(
    `select count(*)::integer as items from ${queue.table} d where ${tooLateCondition(queue)}`,
    [isoTime(nowMs)],
  )
  return rows[0]?.items ?? 0
}

/** Makes these items due now, also for their owners, whose rows a trigger changes. @returns the number of items */
export const bringForward = async (db: Db, queue: QueueTable, nowMs: number): Promise<number> => {
  const { rowCount } = await db.query({
    name: `${queue.name}-bring-forward`,
    text: `with owners as (
             update work.queue_owners d set hold_until = null
              where d.queue = '${queue.name}' and d.hold_until > $1::timestamptz + ${longestPause(queue)}
           )
           update ${queue.table} d set due_at = least(d.due_at, $1::timestamptz) where ${tooLateCondition(queue)}`,
    values: [isoTime(nowMs)],
  })
  return rowCount ?? 0
}

/** An item that is due for longer is overdue: processes check for due items every few seconds. */
const overdueAfter = `interval '5 minutes'`
const manyAttempts = 3

/** The delays of a queue, by the clock of Postgres. */
export type QueueDelay = {
  readonly queue: string
  /** Pending items that were due more than five minutes ago. */
  readonly overdue: number
  /** When the oldest of these was due, ISO 8601; null if there is none. */
  readonly overdueSince: string | null
  /** No item of the queue was finished since the oldest overdue item was due. */
  readonly stuck: boolean
  /** Pending items with three or more attempts whose last attempt failed. */
  readonly failing: number
  /** Items that were given up. */
  readonly dead: number
}

/**
 * Counts the items themselves, so that a queue whose owners have a wrong due time is reported as late, too. Items of
 * an owner that is paused on purpose, or was paused until a moment ago, do not count in queues that pause owners.
 */
export const delayOf = async (pool: pg.Pool, queue: QueueTable): Promise<QueueDelay> => {
  const { name, table, owner, longestPauseMs = 0, ready, failed = 'true' } = queue
  const { rows } = await pool.query<{
    overdue: number
    since: string | null
    stuck: boolean
    failing: number
    dead: number
  }>(
    `select p.overdue, p.since, p.failing, (select count(*) from ${table} d where ${deadCondition(queue)}) as dead,
            p.overdue > 0 and not exists (select from ${table} f where f.finished_at >= p.since) as stuck
       from (select count(*) filter (where is_overdue) as overdue, min(due_at) filter (where is_overdue) as since,
                    count(*) filter (where attempts >= ${manyAttempts} and has_failed) as failing
               from (select d.due_at, d.attempts, ${failed} as has_failed, d.due_at < now() - ${overdueAfter} and q.hold_until is null
                              ${ready ? `and ${ready('now()')}` : ''} as is_overdue
                       from ${table} d
                       left join work.queue_owners q on q.queue = '${name}' and q.owner = d.${owner}
                         and ${longestPauseMs > 0}
                         and q.hold_until between now() - ${overdueAfter} and now() + ${longestPause(queue)}
                      where d.status = 'pending') w) p`,
  )
  const { overdue, since, stuck, failing, dead } = rows[0]!
  return { queue: name, overdue, overdueSince: since, stuck, failing, dead }
}

/** The delay as a message; null if no item is overdue. */
export const delayText = ({ queue, overdue, overdueSince, stuck }: QueueDelay): string | null =>
  overdue === 0
    ? null
    : `${queue}: ${overdue} overdue, the oldest due at ${overdueSince}${stuck ? ', and none finished since: it is stuck' : ''}`

/** The failed items as a message; null if there is none. */
export const deadText = ({ queue, dead }: QueueDelay): string | null =>
  dead === 0 ? null : `${queue}: ${pluralize(dead, 'failed item')}`

/** `keyOf` as an SQL expression over the item `d`. */
const nameOf = ({ key }: QueueTable): string =>
  `concat_ws(' ', ${key.map((column) => `d.${column}`).join(', ')})`

export type DeadItem = {
  /** The values of its key, separated by spaces. */
  readonly item: string
  readonly owner: string
  readonly attempts: number
  readonly finishedAt: string
  readonly result: string | null
}

/**
 * Dead items, the latest first.
 * @param after returns only items after this one; null: from the latest
 */
export const listDead = async (
  pool: pg.Pool,
  queue: QueueTable,
  limit: number,
  after: Pick<DeadItem, 'item' | 'finishedAt'> | null = null,
): Promise<readonly DeadItem[]> => {
  const { table, key, owner } = queue
  const name = nameOf(queue)
  const { rows } = await pool.query(
    `select ${key.map((column) => `d.${column}`).join(', ')}, d.${owner} as owner_of_item, d.attempts, d.finished_at,
            ${queue.why ?? 'd.result'} as result
       from ${table} d where ${deadCondition(queue)}
        and ($2::timestamptz is null or d.finished_at < $2::timestamptz
             or (d.finished_at = $2::timestamptz and ${name} > $3::text))
      order by d.finished_at desc, ${name} limit $1::integer`,
    [limit, after?.finishedAt ?? null, after?.item ?? null],
  )
  return rows.map((row) => ({
    item: keyOf(queue, row),
    owner: row.owner_of_item,
    attempts: row.attempts,
    finishedAt: row.finished_at,
    result: row.result,
  }))
}

/**
 * Makes dead items pending and due now, with zero attempts.
 * @param items their keys as `listDead` returns them; null: all dead items
 * @returns the number of items
 */
export const retryDead = async (
  pool: pg.Pool,
  queue: QueueTable,
  items: readonly string[] | null,
  nowMs: number,
): Promise<number> => {
  const { rowCount } = await pool.query(
    `update ${queue.table} d set status = 'pending', attempts = 0, due_at = $1::timestamptz, finished_at = null
      where ${deadCondition(queue)}
        and ($2::text[] is null or ${nameOf(queue)} = any ($2::text[]))`,
    [isoTime(nowMs), items],
  )
  return rowCount ?? 0
}
