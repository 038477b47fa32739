import type pg from 'pg'
import { openSession, type Session } from '../../../platform/postgres/session.ts'

/** Advisory locks of workers are a class of their own: its two numbers are this and the worker's. */
const lockClass = 72_309_001

/** One query after the other, as a connection takes them. */
export type Db = { query<Row extends pg.QueryResultRow>(query: pg.QueryConfig): Promise<pg.QueryResult<Row>> }

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
  const session = await openSession(pool, 'farebox webhook worker')
  try {
    const { rows } = await session.client.query<{ worker: number }>(
      "select nextval('work.webhook_workers')::integer as worker",
    )
    const { worker } = rows[0]!
    await session.client.query('select pg_advisory_lock($1::integer, $2::integer)', [lockClass, worker])
    return { worker, session, db: inTurn(session.client) }
  } catch (error) {
    await session.close()
    throw error
  }
}

/** Takes queues back from workers that are gone, or that hold on for longer than any attempt takes. */
export const reapLeases = async (db: Db): Promise<number> => {
  const { rowCount } = await db.query({
    name: 'webhooks-reap',
    text: `with dead as materialized (
             select lease_owner from work.webhook_queues where lease_owner is not null
             except
             select l.objid::bigint::integer from pg_locks l
              where l.locktype = 'advisory' and l.classid = ${lockClass}::oid and l.objsubid = 2 and l.granted
                and l.database = (select oid from pg_database where datname = current_database())
           ), void as (
             select endpoint_id from work.webhook_queues
              where lease_owner is not null
                and (lease_until < clock_timestamp() or lease_owner = any (array(select lease_owner from dead)))
              for update skip locked
           )
           update work.webhook_queues q set lease_owner = null, lease_until = null
             from void where q.endpoint_id = void.endpoint_id`,
  })
  return rowCount ?? 0
}
