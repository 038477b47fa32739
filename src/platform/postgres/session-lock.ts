import type pg from 'pg'

/**
 * Takes a session-level advisory lock if it is free. It is asked for again and again where it is not: a session that
 * blocks on it would hold back the vacuum of the very rows that the owner updates all the time.
 */
export const tryLock = async (client: pg.ClientBase, name: string): Promise<boolean> => {
  const { rows } = await client.query<{ locked: boolean }>(
    'select pg_try_advisory_lock(hashtextextended($1::text, 0)) as locked',
    [`farebox ${name}`],
  )
  return rows[0]?.locked === true
}

export const unlock = async (client: pg.ClientBase, name: string): Promise<void> => {
  await client.query('select pg_advisory_unlock(hashtextextended($1::text, 0))', [`farebox ${name}`])
}

/** Whether some session of this database holds it. */
export const isLocked = async (pool: pg.Pool, name: string): Promise<boolean> => {
  const { rows } = await pool.query<{ locked: boolean }>(
    `select exists (
       select from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory' and l.objsubid = 1 and l.granted
          and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended($1::text, 0)) as locked`,
    [`farebox ${name}`],
  )
  return rows[0]?.locked === true
}
