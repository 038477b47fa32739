import pg from 'pg'
import { type Outcome, ok, wrong } from './finding.ts'

const connections = 3
const rounds = 3

const readSession = async (client: pg.Client): Promise<number> => {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]!.pid
}

/**
 * Whether each connection has its own session. A pooler in transaction mode assigns any session to each transaction:
 * two connections share one, or one connection gets several.
 */
const keepSessions = async (clients: readonly pg.Client[]): Promise<boolean> => {
  const sessionIds: number[] = []
  for (const client of clients) sessionIds.push(await readSession(client))
  if (new Set(sessionIds).size < clients.length) return false
  for (let round = 1; round < rounds; round += 1)
    for (const [index, client] of clients.entries())
      if ((await readSession(client)) !== sessionIds[index]) return false
  return true
}

/** No finding if the database does not accept three connections: the database check reports that. */
export const checkSessions = async (databaseUrl: string): Promise<readonly Outcome[]> => {
  const clients = Array.from({ length: connections }, () => {
    const client = new pg.Client({
      connectionString: databaseUrl,
      connectionTimeoutMillis: 5_000,
      query_timeout: 5_000,
    })
    // A broken connection rejects its waiting query, so the event needs no handling.
    client.on('error', () => undefined)
    return client
  })
  try {
    await Promise.all(clients.map((client) => client.connect()))
    return [
      (await keepSessions(clients))
        ? ok('each connection to the database has a session of its own')
        : wrong(
            'DATABASE_URL leads to a connection pooler in transaction mode: locks, notifications and prepared statements are lost between transactions',
            'let DATABASE_URL lead to Postgres itself, or set the pooler to session mode (pool_mode = session in PgBouncer)',
          ),
    ]
  } catch {
    return []
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()))
  }
}
