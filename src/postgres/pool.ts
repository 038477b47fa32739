import pg from 'pg'
import { registerTypes } from './types.ts'

export type PoolOptions = {
  /** A `postgres://` address. */
  readonly url: string
  /** Shown in `pg_stat_activity`, e.g. `farebox-http`. */
  readonly applicationName: string
  /** At most this many connections; default 10. */
  readonly max?: number
  /** How long a query may run on the server, milliseconds; default 30,000. 0 sets no limit. */
  readonly statementTimeoutMs?: number
  /** How long to wait for a free or a new connection, milliseconds; default 5,000. */
  readonly connectTimeoutMs?: number
  /** How long a transaction may idle before the server ends its session, milliseconds; default 30,000. */
  readonly idleInTransactionTimeoutMs?: number
  /** Told of an idle connection that broke (the pool replaces it); without it such an error is dropped. */
  readonly onError?: (error: Error) => void
}

const sessionOptions = (url: string): string => {
  const given = new URL(url).searchParams.get('options')
  return [given, '-c timezone=UTC', '-c datestyle=ISO'].filter(Boolean).join(' ')
}

const withoutOptions = (url: string): string => {
  const parsed = new URL(url)
  parsed.searchParams.delete('options')
  return parsed.toString()
}

/**
 * The settings of one connection, for the few places that need a client of their own (LISTEN, long advisory locks).
 * int8 is read as a safe number, timestamptz as ISO 8601 UTC text with milliseconds; numeric stays text.
 */
export const clientConfig = (options: PoolOptions): pg.ClientConfig => ({
  connectionString: withoutOptions(options.url),
  application_name: options.applicationName,
  options: sessionOptions(options.url),
  statement_timeout: options.statementTimeoutMs ?? 30_000,
  idle_in_transaction_session_timeout: options.idleInTransactionTimeoutMs ?? 30_000,
  connectionTimeoutMillis: options.connectTimeoutMs ?? 5_000,
  keepAlive: true,
  types: registerTypes(),
})

/** A pool of connections with the settings of `clientConfig`. End it with `pool.end()`. */
export const createPool = (options: PoolOptions): pg.Pool => {
  const pool = new pg.Pool({ ...clientConfig(options), max: options.max ?? 10, idleTimeoutMillis: 60_000 })
  // Without listeners a connection that breaks would end the process: while it is idle, and while it is lent. Then the
  // pool has none on it, and the query under way says what happened.
  pool.on('error', (error) => options.onError?.(error))
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}
