import type pg from 'pg'
import { openSession, type Session } from '../../../projections/engine/session.ts'

/** Advisory locks of workers are a class of their own: its two numbers are this and the worker's. */
const lockClass = 72_309_001

export type Membership = { readonly worker: number; readonly session: Session }

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
    return { worker, session }
  } catch (error) {
    await session.close()
    throw error
  }
}

/** Takes queues back from workers that are gone, or that hold on for longer than any attempt takes. */
export const reapLeases = async (db: Pick<pg.ClientBase, 'query'>): Promise<number> => {
  const { rowCount } = await db.query({
    name: 'webhooks-reap',
    text: `with void as (
             select endpoint_id from work.webhook_queues q
              where lease_owner is not null and (lease_until < clock_timestamp() or not exists (
                select 1 from pg_locks l where l.locktype = 'advisory' and l.classid = ${lockClass}::oid
                   and l.objid = q.lease_owner::oid and l.objsubid = 2 and l.granted
                   and l.database = (select oid from pg_database where datname = current_database())))
              for update skip locked
           )
           update work.webhook_queues q set lease_owner = null, lease_until = null
             from void where q.endpoint_id = void.endpoint_id`,
  })
  return rowCount ?? 0
}
