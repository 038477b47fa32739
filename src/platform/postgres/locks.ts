import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { every } from '../../kernel/every.ts'
import { openSession, type Session, setIdleTimeouts } from './postgres-session.ts'

/** The session with a lock, as Postgres reports it. */
export type LockHolder = {
  /** E.g. `farebox-server`. */
  readonly application: string
  /** The client's address; null over a local socket. */
  readonly address: string | null
  /** The session's process on the server of Postgres, for `pg_stat_activity`. */
  readonly backend: number
}

/** The lock was not free in time. The message names its owner, if Postgres reports it. */
export class LockHeld extends Error {
  override readonly name = 'LockHeld'
}

const pauseMs = 250
const reportIntervalMs = 60_000

const isFree = async (client: pg.ClientBase, key: number): Promise<boolean> => {
  const { rows } = await client.query<{ taken: boolean }>(
    'select pg_try_advisory_lock($1::bigint) as taken',
    [key],
  )
  return rows[0]?.taken === true
}

const holderOf = async (client: pg.ClientBase, key: number): Promise<LockHolder | null> => {
  const { rows } = await client.query<LockHolder>(
    `select a.application_name as application, host(a.client_addr) as address, a.pid as backend
       from pg_locks l join pg_stat_activity a using (pid)
      where l.locktype = 'advisory' and l.granted and l.objsubid = 1
        and (l.classid::bigint << 32 | l.objid::bigint) = $1::bigint
        and l.database = (select oid from pg_database where datname = current_database())`,
    [key],
  )
  return rows[0] ?? null
}

const described = (holder: LockHolder | null): string =>
  holder === null
    ? 'another process'
    : `${holder.application}${holder.address === null ? '' : ` on ${holder.address}`} (backend ${holder.backend})`

export type TakeOptions = {
  /** What the owner of the lock does, for the message: `is migrating the database`. */
  readonly what: string
  /** The longest wait, milliseconds. Default: no limit. */
  readonly withinMs?: number
  /** Called with the owner when the lock is not free, and then once a minute. */
  readonly onWait?: (holder: LockHolder | null) => void
}

/**
 * Acquires a session-level advisory lock, which another process may own for minutes. It polls: a waiting statement
 * would reach the time limits of statements and locks, and could not report the owner of the lock.
 * @throws LockHeld when the time is over
 */
export const takeLock = async (client: pg.ClientBase, key: number, options: TakeOptions): Promise<void> => {
  const { what, withinMs = Number.POSITIVE_INFINITY, onWait } = options
  const startedMs = performance.now()
  let nextReportMs = startedMs
  while (!(await isFree(client, key))) {
    const nowMs = performance.now()
    const isExpired = nowMs - startedMs + pauseMs > withinMs
    if (isExpired || nowMs >= nextReportMs) {
      const holder = await holderOf(client, key)
      if (isExpired) throw new LockHeld(`${described(holder)} ${what}; try again when it is done`)
      onWait?.(holder)
      nextReportMs = nowMs + reportIntervalMs
    }
    await sleep(pauseMs)
  }
}

/** The service's session-level advisory locks in one database, by number. Each number must be unique. */
export const lockKeys = {
  /** One process at a time migrates. */
  migrating: 7_230_001,
  /** One process at a time fills an empty log, with the demo or with an import. */
  filling: 7_230_002,
  /** One process at a time probes the gateway's exits. */
  probing: 7_230_003,
} as const

/**
 * Tries to acquire a session-level advisory lock, by its name or its number. A caller polls instead of waiting in a
 * statement: a session that waits for the lock would delay the vacuum of the rows that the owner updates all the
 * time.
 */
export const tryLock = async (client: pg.ClientBase, name: string | number): Promise<boolean> => {
  if (typeof name === 'number') return isFree(client, name)
  const { rows } = await client.query<{ locked: boolean }>(
    'select pg_try_advisory_lock(hashtextextended($1::text, 0)) as locked',
    [`farebox ${name}`],
  )
  return rows[0]?.locked === true
}

export const unlock = async (client: pg.ClientBase, name: string): Promise<void> => {
  await client.query('select pg_advisory_unlock(hashtextextended($1::text, 0))', [`farebox ${name}`])
}

/** The session of this database with the lock, as text; null: none. */
export const describeHolder = async (pool: pg.Pool, name: string): Promise<string | null> => {
  const { rows } = await pool.query<LockHolder>(
    `select a.application_name as application, host(a.client_addr) as address, a.pid as backend
       from pg_locks l join pg_stat_activity a using (pid)
      where l.locktype = 'advisory' and l.granted and l.objsubid = 1
        and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended($1::text, 0)
        and l.database = (select oid from pg_database where datname = current_database())`,
    [`farebox ${name}`],
  )
  return rows[0] === undefined ? null : described(rows[0])
}

/** Whether a session of this database has the lock. */
export const isLocked = async (pool: pg.Pool, name: string): Promise<boolean> => {
  const { rows } = await pool.query<{ locked: boolean }>(
    `select exists (
       select from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory' and l.objsubid = 1 and l.granted
          and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended($1::text, 0)) as locked`,
    [`farebox ${name}`],
  )
  return rows[0]?.locked === true
}

export type SessionLoop = {
  readonly pool: pg.Pool
  /** The name of the session in Postgres. */
  readonly applicationName: string
  /** The longest silence of Postgres while an answer is due, or of this process, milliseconds. */
  readonly answerTimeoutMs: number
  readonly stop: AbortSignal
  /** Receives each failure and returns the pause before the next session, milliseconds. */
  readonly onError: (error: unknown) => number
}

/**
 * Runs `work` with one session after another until `stop` is aborted. After each lost connection and each error it
 * starts again with a new session. Locks belong to the session, so a suspended process does not block the others.
 */
export const runWithSession = async (
  { pool, applicationName, answerTimeoutMs, stop, onError }: SessionLoop,
  work: (session: Session, signal: AbortSignal) => Promise<void>,
): Promise<void> => {
  while (!stop.aborted) {
    let session: Session | null = null
    let pauseMs = 0
    try {
      session = await openSession(pool, applicationName, answerTimeoutMs)
      await setIdleTimeouts(session.client, answerTimeoutMs)
      await work(session, AbortSignal.any([stop, session.ended]))
      session.ended.throwIfAborted()
    } catch (error) {
      if (!stop.aborted) pauseMs = onError(error)
    } finally {
      await session?.close().catch(() => undefined) // this releases its locks, even if it fails
    }
    await sleep(pauseMs, undefined, { signal: stop }).catch(() => undefined)
  }
}

/** How often a standby checks whether the leader is gone, milliseconds. */
const defaultStandbyMs = 500

/**
 * Runs the work in one process at a time: the process with the advisory lock. A suspended leader sends nothing over
 * its session, so Postgres ends the session, and another process gets the lock.
 */
export const runAsLeader = (
  loop: SessionLoop & {
    readonly lock: string | number
    /** How often a standby tries to get the lock, milliseconds; well below `answerTimeoutMs`. Default 500. */
    readonly standbyMs?: number
  },
  work: (session: Session, signal: AbortSignal) => Promise<void>,
): Promise<void> =>
  runWithSession(loop, async (session, signal) => {
    while (!(await tryLock(session.client, loop.lock))) {
      await sleep(loop.standbyMs ?? defaultStandbyMs, undefined, { signal })
      signal.throwIfAborted()
    }
    // An ended session aborts its signal by itself.
    const ping = (): void => void session.client.query('select').catch(() => undefined)
    const stopPinging = every(loop.answerTimeoutMs / 3, ping)
    try {
      await work(session, signal)
    } finally {
      stopPinging()
    }
  })
