import pg from 'pg'
import { type ClientConfig, DatabaseClient } from './client.ts'
import { isFaultOfSession } from './errors.ts'
import { destroyWhenSilent, onErrorAnswer, releaseForGood } from './postgres-session.ts'

const int8 = 20
const int8Array = 1016
const timestamptz = 1184
const timestamptzArray = 1185

const safeNumber = (text: string): number => {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`bigint ${text} is not a safe integer`)
  return value
}

// The output of Postgres under `timezone=UTC` and `datestyle=ISO`: 2026-11-21 02:30:00.123456+00
const utcText = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00$/

const isoText = (text: string): string => {
  const parts = utcText.exec(text)
  if (!parts) throw new RangeError(`timestamptz ${text} is not a time in UTC between the years 0001 and 9999`)
  return `${parts[1]}T${parts[2]}.${(parts[3] ?? '').slice(0, 3).padEnd(3, '0')}Z`
}

const arrayOf =
  <Value>(parse: (text: string) => Value) =>
  (text: string): (Value | null)[] =>
    text === '{}'
      ? []
      : text
          .slice(1, -1)
          .split(',')
          .map((item) => (item === 'NULL' ? null : parse(item.replaceAll('"', ''))))

/**
 * How column values are read: int8 as a number (an unsafe one is an error), timestamptz as ISO 8601 UTC text with
 * milliseconds (more digits are cut), arrays of both alike. All other types as in `pg`, so numeric remains text.
 */
export const registerTypes = (): pg.CustomTypesConfig => {
  const types = new pg.TypeOverrides()
  types.setTypeParser(int8, safeNumber)
  types.setTypeParser(int8Array, arrayOf(safeNumber))
  types.setTypeParser(timestamptz, isoText)
  types.setTypeParser(timestamptzArray, arrayOf(isoText))
  return types
}

export type PoolOptions = {
  /** A `postgres://` address. */
  readonly url: string
  /** Shown in `pg_stat_activity`, e.g. `farebox-http`. */
  readonly applicationName: string
  /** The most connections; default 10. */
  readonly max?: number
  /** The longest time of a query on the server, milliseconds; default 30,000. 0: no limit. */
  readonly statementTimeoutMs?: number
  /**
   * A connection is closed if nothing arrives for this long while a query waits, milliseconds. Default: 5,000 more
   * than the time limit of a query, or no limit if a query has none. 0: no limit.
   */
  readonly answerTimeoutMs?: number
  /** The longest wait for a free or a new connection, milliseconds; default 5,000. */
  readonly connectTimeoutMs?: number
  /** Called when an idle connection breaks (the pool replaces it). Without it the error is ignored. */
  readonly onError?: (error: Error) => void
}

/**
 * How Postgres detects within a minute that this machine is gone, independent of the system's settings (mostly two
 * hours). Until then Postgres keeps the session and its locks, for which another process may wait.
 */
const aliveOptions =
  '-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 -c tcp_user_timeout=60000'

/**
 * Every statement here is short or reads much from indexes. None is worth the JIT compiler, which Postgres uses for
 * every plan with a high estimated cost. The address may override it.
 */
const planOptions = '-c jit=off'

/** An answered write is on disk, whatever the default of server, database or role is. The address may override it. */
const durableOptions = '-c synchronous_commit=on'

/**
 * Every statement names the schema of what it uses. So a function or operator that another role makes with the name of one
 * of Postgres is never called.
 */
export const pathOptions = '-c search_path=pg_catalog,pg_temp'

const sessionOptions = (url: string): string => {
  const urlOptions = new URL(url).searchParams.get('options')
  return [aliveOptions, planOptions, urlOptions, pathOptions, '-c timezone=UTC', '-c datestyle=ISO']
    .filter(Boolean)
    .join(' ')
}

/** The address for the driver, which by itself gives `sslmode` a meaning other than that of libpq. */
const driverUrl = (url: string): string => {
  const parsed = new URL(url)
  parsed.searchParams.delete('options')
  if (parsed.searchParams.has('sslmode')) parsed.searchParams.set('uselibpqcompat', 'true')
  return parsed.toString()
}

const defaultConnectTimeoutMs = 5_000

/** The longest idle time in a transaction before the server ends the session. */
const idleInTransactionTimeoutMs = 30_000

/**
 * The settings of one connection, for the few places that need their own client (LISTEN, long advisory locks). int8
 * is read as a safe number, timestamptz as ISO 8601 UTC text with milliseconds; numeric remains text.
 */
export const clientConfig = (options: PoolOptions): ClientConfig => ({
  connectionString: driverUrl(options.url),
  application_name: options.applicationName,
  options: sessionOptions(options.url),
  statement_timeout: options.statementTimeoutMs ?? 30_000,
  idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
  connectTimeoutMs: options.connectTimeoutMs ?? defaultConnectTimeoutMs,
  keepAlive: true,
  keepAliveInitialDelayMillis: 30_000,
  types: registerTypes(),
})

const answerTimeoutOf = ({ answerTimeoutMs, statementTimeoutMs = 30_000 }: PoolOptions): number =>
  answerTimeoutMs ?? (statementTimeoutMs === 0 ? 0 : statementTimeoutMs + 5_000)

/** The pool's time limit is for callers that wait for a free connection. A new client has a limit of its own. */
const leaveLimitToClient = (pool: pg.Pool): void => {
  const internals = pool as unknown as {
    readonly options: { connectionTimeoutMillis: number }
    newClient(waiting: unknown): void
  }
  const { options, newClient } = internals
  const { connectionTimeoutMillis } = options
  internals.newClient = (waiting) => {
    options.connectionTimeoutMillis = 0
    newClient.call(pool, waiting)
    options.connectionTimeoutMillis = connectionTimeoutMillis
  }
}

/** The shortest time between two replacements of a pool's connections, milliseconds: the fault may last. */
const replaceEveryMs = 1_000

/**
 * A pool of connections with the settings of `clientConfig`. End it with `pool.end()`.
 *
 * If one session answers that its database is read-only, that its role has no privilege, or that the table of a
 * prepared statement was replaced, all sessions that are open are replaced, because each of them may have outdated
 * settings and statements.
 */
export const createPool = (options: PoolOptions): pg.Pool => {
  const config = clientConfig(options)
  const pool = new pg.Pool({
    ...config,
    options: `${durableOptions} ${config.options}`,
    Client: DatabaseClient,
    max: options.max ?? 10,
    connectionTimeoutMillis: options.connectTimeoutMs ?? defaultConnectTimeoutMs,
    idleTimeoutMillis: 60_000,
  })
  leaveLimitToClient(pool)
  const open = new Set<pg.PoolClient>()
  let replacedAtMs = Number.NEGATIVE_INFINITY
  const replaceAll = (): void => {
    if (performance.now() - replacedAtMs < replaceEveryMs) return
    replacedAtMs = performance.now()
    for (const client of open) releaseForGood(client)
    // Idle connections are removed at once, so that no caller gets one.
    for (let idle = pool.idleCount; idle > 0; idle -= 1)
      pool.connect().then(
        (client) => client.release(),
        () => undefined,
      )
  }
  // Without listeners a connection that breaks would end the process, both while it is idle and while it is checked
  // out. The pool has no listener on a connection that is checked out; the query in progress reports the error.
  pool.on('error', (error) => options.onError?.(error))
  const answerTimeoutMs = answerTimeoutOf(options)
  pool.on('connect', (client) => {
    open.add(client)
    client.on('error', () => undefined)
    destroyWhenSilent(client, answerTimeoutMs)
    onErrorAnswer(client, (error) => {
      if (isFaultOfSession(error)) replaceAll()
    })
  })
  pool.on('remove', (client) => open.delete(client))
  return pool
}
