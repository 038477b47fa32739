import pg from 'pg'
import { breakWhenSilent } from './silence.ts'
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
  /**
   * A connection over which nothing comes for so long while a query waits is broken, milliseconds; default 5,000 more than
   * a query may run, or no bound where that has none. 0 sets none.
   */
  readonly answerTimeoutMs?: number
  /** How long to wait for a free or a new connection, milliseconds; default 5,000. */
  readonly connectTimeoutMs?: number
  /** Told of an idle connection that broke (the pool replaces it); without it such an error is dropped. */
  readonly onError?: (error: Error) => void
}

/**
 * How Postgres notices that this machine is gone, whatever the system's own settings say (two hours, mostly): until then
 * it keeps the session, and with it the locks that another process waits for. A minute at most.
 */
const aliveOptions =
  '-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 -c tcp_user_timeout=60000'

/**
 * Every statement here is short or reads much from indexes: none is worth a compiler, which Postgres starts for whatever
 * it believes to be dear. The address may say otherwise.
 */
const planOptions = '-c jit=off'

const sessionOptions = (url: string): string => {
  const given = new URL(url).searchParams.get('options')
  return [aliveOptions, planOptions, given, '-c timezone=UTC', '-c datestyle=ISO'].filter(Boolean).join(' ')
}

const withoutOptions = (url: string): string => {
  const parsed = new URL(url)
  parsed.searchParams.delete('options')
  return parsed.toString()
}

/** How long a transaction may idle before the server ends its session. */
const idleInTransactionTimeoutMs = 30_000

/**
 * The settings of one connection, for the few places that need a client of their own (LISTEN, long advisory locks).
 * int8 is read as a safe number, timestamptz as ISO 8601 UTC text with milliseconds; numeric stays text.
 */
export const clientConfig = (options: PoolOptions): pg.ClientConfig => ({
  connectionString: withoutOptions(options.url),
  application_name: options.applicationName,
  options: sessionOptions(options.url),
  statement_timeout: options.statementTimeoutMs ?? 30_000,
  idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
  connectionTimeoutMillis: options.connectTimeoutMs ?? 5_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 30_000,
  types: registerTypes(),
})

const answerTimeoutOf = ({ answerTimeoutMs, statementTimeoutMs = 30_000 }: PoolOptions): number =>
  answerTimeoutMs ?? (statementTimeoutMs === 0 ? 0 : statementTimeoutMs + 5_000)

/** A pool of connections with the settings of `clientConfig`. End it with `pool.end()`. */
export const createPool = (options: PoolOptions): pg.Pool => {
  const pool = new pg.Pool({ ...clientConfig(options), max: options.max ?? 10, idleTimeoutMillis: 60_000 })
  // Without listeners a connection that breaks would end the process: while it is idle, and while it is lent. Then the
  // pool has none on it, and the query under way says what happened.
  pool.on('error', (error) => options.onError?.(error))
  const answerTimeoutMs = answerTimeoutOf(options)
  pool.on('connect', (client) => {
    client.on('error', () => undefined)
    breakWhenSilent(client, answerTimeoutMs)
  })
  return pool
}
