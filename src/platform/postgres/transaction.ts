import type pg from 'pg'

/** What a transaction sees; left out: what is committed before each of its statements. */
export type Snapshot = 'isolation level repeatable read' | 'isolation level repeatable read read only'

/**
 * Runs the work in a transaction of this connection: committed when it resolves, rolled back when it rejects.
 * @throws what the work throws; its error is what matters, also where rolling back fails
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
 * The same on a connection of the pool, which closes one whose work threw: it may be what broke.
 * @throws what the pool and the work throw
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
