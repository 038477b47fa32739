import pg from 'pg'
import { clientConfig } from './pool.ts'

const connections = 3
const rounds = 3

const readSession = async (client: pg.Client): Promise<number> => {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]!.pid
}

const haveOwnSessions = async (clients: readonly pg.Client[]): Promise<boolean> => {
  const sessionIds: number[] = []
  for (const client of clients) sessionIds.push(await readSession(client))
  if (new Set(sessionIds).size < clients.length) return false
  for (let round = 1; round < rounds; round += 1)
    for (const [index, client] of clients.entries())
      if ((await readSession(client)) !== sessionIds[index]) return false
  return true
}

/**
 * Whether each connection has its own session. A pooler in transaction mode assigns any session to each transaction:
 * two connections share one, or one connection gets several. Null if the database does not accept three connections.
 */
export const hasOwnSessions = async (url: string): Promise<boolean | null> => {
  const clients = Array.from({ length: connections }, () => {
    const options = clientConfig({ url, applicationName: 'farebox-session-check', statementTimeoutMs: 5_000 })
    const client = new pg.Client({ ...options, connectionTimeoutMillis: 5_000, query_timeout: 5_000 })
    // A broken connection rejects its waiting query, so the event needs no handling.
    client.on('error', () => undefined)
    return client
  })
  try {
    await Promise.all(clients.map((client) => client.connect()))
    return await haveOwnSessions(clients)
  } catch {
    return null
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()))
  }
}

export const poolerProblem =
  'DATABASE_URL leads to a connection pooler in transaction mode: locks, notifications and prepared statements are lost between transactions'
export const poolerRemedy =
  'let DATABASE_URL lead to Postgres itself, or set the pooler to session mode (pool_mode = session in PgBouncer)'
