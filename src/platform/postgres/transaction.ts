import type pg from 'pg'

/** The snapshot of a transaction. Without it, each statement sees what was committed before it. */
export type Snapshot = 'isolation level repeatable read' | 'isolation level repeatable read read only'

/**
 * Runs the work in a transaction of this connection. Commits when it resolves, rolls back when it rejects.
 * @throws the error of the work, even if the rollback fails
 */
export const transact = async <Value>(
  client: pg.ClientBase,
  work: () => Promise<Value>,
  snapshot?: Snapshot,
): Promise<Value> => {
  await client.query(snapshot === undefined ? 'begin' : `begin ${snapshot}`)
  try {
    const value = await work()
    await client.query('commit')
    return value
  } catch (error) {
    await client.query('rollback').catch(() => undefined)
    throw error
  }
}

/**
 * As `transact`, on a connection of the pool. If the work throws, the connection is closed, because it may be broken.
 * @throws the errors of the pool and the work
 */
export const inTransaction = async <Value>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<Value>,
  snapshot?: Snapshot,
): Promise<Value> => {
  const client = await pool.connect()
  let failed = true
  try {
    const value = await transact(client, () => work(client), snapshot)
    failed = false
    return value
  } finally {
    client.release(failed)
  }
}
