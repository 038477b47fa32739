import type pg from 'pg'
import { openSession, type Session } from '../../postgres/session.ts'

/** Advisory locks of workers are a class of their own: its two numbers are this and the worker's. */
const lockClass = 72_309_002

/** One query after the other, as a connection takes them. */
export type Db = { query<Row extends pg.QueryResultRow>(query: pg.QueryConfig): Promise<pg.QueryResult<Row>> }

/** A process's place among those that work off queues. */
export type Membership = {
  readonly worker: number
  /** The worker's own connection, whose commits do not wait for the disk: leases that a crash loses are taken again. */
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

/**
 * A number for this worker that is its own for as long as its connection lives: Postgres lets go of the lock when the
 * process dies, however it dies, so a lease is known to be void within a second of that.
 */
export const joinWorkers = async (pool: pg.Pool): Promise<Membership> => {
  const session = await openSession(pool, 'farebox queue worker')
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
 * Takes owners back from workers that are gone, or whose lease is over.
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
