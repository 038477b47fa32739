import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { afterRunning } from '../../kernel/every.ts'
import { isDatabaseOutage, StartRefused } from './errors.ts'

/** The settings do not point to a Farebox. The message says what to do. */
export class FareboxNotInstalled extends Error {
  override readonly name = 'FareboxNotInstalled'
}

const creationHint = 'A new one is made by "npm start", "farebox backup restore" and "farebox ledger import"'

/** The error for a directory without a Farebox. */
export const notInstalledIn = (dataDir: string): FareboxNotInstalled =>
  new FareboxNotInstalled(
    `${dataDir} holds no Farebox. Set FAREBOX_DATA to the directory that holds yours. ${creationHint}; nothing was made.`,
  )

/** Without user and password. */
export const placeOf = (url: string): string => {
  const { host, pathname } = new URL(url)
  return `the database ${pathname.slice(1)} on ${host}`
}

/**
 * Rejects a database that was never migrated, e.g. of another program. A renamed table does not make it another
 * program's: `ledger verify` reports it.
 * @param url the address of the database; the message contains only its host, port and name
 * @throws FareboxNotInstalled
 */
export const requireInstalled = async (pool: pg.Pool, url: string): Promise<void> => {
  const { rows } = await pool.query<{ made: boolean }>(
    `select to_regclass('public.farebox_migration') is not null
         or count(*) >= 2 as made from pg_namespace where nspname in ('log', 'engine', 'vault')`,
  )
  if (rows[0]?.made === true) return
  throw new FareboxNotInstalled(
    `${placeOf(url)} holds no Farebox. Is DATABASE_URL right? ${creationHint}; nothing was made.`,
  )
}

/** No connection in time. The message names the database, the time and the last error. */
export class DatabaseUnreachable extends Error {
  override readonly name = 'DatabaseUnreachable'
}

const pauseMs = 250
const reportIntervalMs = 5_000

/** For a failure over several addresses node-postgres throws an AggregateError without a message. */
const reasonOf = (error: unknown): string => {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(', ')
  return error instanceof Error ? error.message : String(error)
}

/** Reasons of the server's refusal by code. Waiting does not help. */
const refused: Readonly<Record<string, (url: URL) => string>> = {
  '28000': ({ username }) => `does not take the user "${username}"`,
  '28P01': ({ username }) => `refuses the user "${username}" or its password`,
  '3D000': ({ pathname }) => `has no database "${pathname.slice(1)}"`,
}

const refusalOf = (error: unknown, url: URL, setting: string): StartRefused | null => {
  const code = String((error as { code?: unknown } | null)?.code)
  const describe = Object.hasOwn(refused, code) ? refused[code] : undefined
  if (describe === undefined) return null
  return new StartRefused(`the Postgres on ${url.host} ${describe(url)}. Is ${setting} right?`, {
    cause: error,
  })
}

/** Errors that only pass on their cause. Others have judged it. */
const passesOnCause: ReadonlySet<string> = new Set([
  'Error',
  'LogUnavailable',
  'OutcomeUnknown',
  'CommandOverload',
])

const diskFull = '53100'

/**
 * Whether the error means that the database is away or slow for a while. A full disk is not: its message says what to
 * do. An overload without a cause is a command without an answer in time.
 */
const isAway = (error: unknown): boolean => {
  if (!(error instanceof Error) || error instanceof DatabaseUnreachable) return false
  if (isDatabaseOutage(error)) return (error as { code?: unknown }).code !== diskFull
  if (error.name === 'CommandOverload' && error.cause === undefined) return true
  return passesOnCause.has(error.name) && isAway(error.cause)
}

export type DatabaseWaitOptions = {
  /** Called at the first failure of an outage, and then every five seconds. */
  readonly onWait?: ((reason: string, waitedMs: number) => void) | undefined
  /** Ends the wait: an outage is thrown. */
  readonly signal?: AbortSignal | undefined
}

/** Repeats an attempt until it ends without an outage of the database. Only for attempts that can be repeated. */
export type DatabaseWait = <Value>(attempt: () => Promise<Value>) => Promise<Value>

export const createDatabaseWait = ({ onWait, signal }: DatabaseWaitOptions): DatabaseWait => {
  let awaySinceMs: number | null = null
  let reportedMs = Number.NEGATIVE_INFINITY

  const report = (error: unknown): void => {
    const nowMs = performance.now()
    awaySinceMs ??= nowMs
    if (nowMs - reportedMs < reportIntervalMs) return
    reportedMs = nowMs
    onWait?.(reasonOf(error), nowMs - awaySinceMs)
  }

  return async (attempt) => {
    for (;;) {
      try {
        const value = await attempt()
        awaySinceMs = null
        return value
      } catch (error) {
        if (signal?.aborted || !isAway(error)) throw error
        report(error)
        await sleep(pauseMs, undefined, { signal }).catch(() => {
          throw error
        })
      }
    }
  }
}

/**
 * The database is there and slow: no answer in time, it replays its log after a crash (57P03), or it has no connection
 * left (53300).
 */
const slowCodes: ReadonlySet<unknown> = new Set(['ETIMEDOUT', '57P03', '53300'])

/**
 * Waits until the database accepts connections: it may be starting (e.g. as a service of the same composition), or
 * the machine may be busy.
 * @param options.isPatient whether a database that is there and slow is waited for without a time limit
 * @throws DatabaseUnreachable when the time is over; other errors at once, e.g. StartRefused for a wrong password
 */
export const waitForDatabase = async (
  pool: pg.Pool,
  options: DatabaseWaitOptions & {
    /** The address of the database. Messages contain only its host, port and name. */
    readonly url: string
    /** Milliseconds in which this process runs. */
    readonly withinMs: number
    /** The source of the address, for messages; default `DATABASE_URL`. */
    readonly setting?: string
    readonly isPatient?: boolean
  },
): Promise<void> => {
  const { url, withinMs, setting = 'DATABASE_URL', isPatient = false } = options
  let isOver = false
  const startLimit = () =>
    afterRunning(withinMs, () => {
      isOver = true
    })
  let stopLimit = startLimit()
  const attempt = async (): Promise<void> => {
    try {
      await pool.query('select')
    } catch (error) {
      const refusal = refusalOf(error, new URL(url), setting)
      if (refusal !== null) throw refusal
      if (isPatient && slowCodes.has((error as { code?: unknown }).code)) {
        stopLimit()
        isOver = false
        stopLimit = startLimit()
      }
      if (isOver && isDatabaseOutage(error))
        throw new DatabaseUnreachable(
          `${placeOf(url)} gave no connection within ${Math.round(withinMs / 1000)} s (${reasonOf(error)}). Is it running, and is ${setting} right?`,
          { cause: error },
        )
      throw error
    }
  }
  try {
    await createDatabaseWait(options)(attempt)
  } finally {
    stopLimit()
  }
}

/**
 * Makes a pool wait for the database: an attempt to connect that fails is repeated, until `signal` is aborted. No
 * statement is repeated. For a start: a server that serves answers its requests instead.
 */
export const connectWhileAway = (
  pool: pg.Pool,
  options: DatabaseWaitOptions & { readonly signal: AbortSignal },
): void => {
  const wait = createDatabaseWait(options)
  const connectOnce = pool.connect.bind(pool) as () => Promise<pg.PoolClient>
  const connect = (callback?: (error: unknown, client?: pg.PoolClient, release?: () => void) => void) => {
    const connecting = wait(connectOnce)
    if (callback === undefined) return connecting
    connecting.then(
      (client) => callback(null, client, client.release),
      (error) => callback(error, undefined, () => undefined),
    )
    return undefined
  }
  pool.connect = connect as typeof pool.connect
  options.signal.addEventListener('abort', () => Reflect.deleteProperty(pool, 'connect'), { once: true })
}
