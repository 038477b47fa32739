import pg from 'pg'
import { DatabaseClient } from './client.ts'
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

// What Postgres prints under `timezone=UTC` and `datestyle=ISO`: 2026-11-21 02:30:00.123456+00
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
 * How column values are read: int8 as a number that is asserted to be safe, timestamptz as ISO 8601 UTC text with
 * milliseconds (finer digits are cut), arrays of both alike; everything else as `pg` does, so numeric stays text.
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

/** An answered write is on disk, whatever the server, the database or the role has as its default. The address may say otherwise. */
const durableOptions = '-c synchronous_commit=on'

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

/** The connections of a pool are replaced no more often, milliseconds: the fault may last. */
const replaceEveryMs = 1_000

/**
 * A pool of connections with the settings of `clientConfig`. End it with `pool.end()`.
 *
 * When one session answers that its database is read-only, that its role may not do something, or that the table of a prepared
 * statement was exchanged, all sessions that were opened before are replaced: each of them has the settings and the statements
 * of its own past.
 */
export const createPool = (options: PoolOptions): pg.Pool => {
  const config = clientConfig(options)
  const pool = new pg.Pool({
    ...config,
    options: `${durableOptions} ${config.options}`,
    Client: DatabaseClient,
    max: options.max ?? 10,
    idleTimeoutMillis: 60_000,
  })
  const open = new Set<pg.PoolClient>()
  let replacedAtMs = Number.NEGATIVE_INFINITY
  const replaceAll = (): void => {
    if (performance.now() - replacedAtMs < replaceEveryMs) return
    replacedAtMs = performance.now()
    for (const client of open) releaseForGood(client)
    // Those that are idle are taken out, so that nobody else is given one.
    for (let idle = pool.idleCount; idle > 0; idle -= 1)
      pool.connect().then(
        (client) => client.release(),
        () => undefined,
      )
  }
  // Without listeners a connection that breaks would end the process: while it is idle, and while it is lent. Then the
  // pool has none on it, and the query under way says what happened.
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
