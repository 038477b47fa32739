import type pg from 'pg'

/**
 * Removes the last events from the log, and ends every connection to it: like a fail-over to a standby that
 * lagged, or the restore of an older backup, for running processes.
 */
export const setBack = async (pool: pg.Pool, toPosition: number): Promise<void> => {
  const client = await pool.connect()
  try {
    await client.query('begin; set local session_replication_role = replica')
    await client.query('delete from log.events where position > $1::bigint', [toPosition])
    await client.query('update log.head set last_position = $1::bigint', [toPosition])
    await client.query('commit')
    await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
    )
  } finally {
    client.release()
  }
}
