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

/**
 * A lock of a session: an advisory lock, by its name or its number, or a row of `engine.auditor_locks`. Every role can take
 * every advisory lock, so the locks of the auditor are rows, which only its role may write.
 */
export type LockName = string | number | { readonly auditor: string }

/** The key of an advisory lock. */
const advisoryKey = (name: string | number): readonly [sql: string, value: string | number] =>
  typeof name === 'number' ? ['$1::bigint', name] : ['hashtextextended($1::text, 0)', `farebox ${name}`]

/** The session of the row's lock. Postgres shows the start of a session to members of its role only. */
const isHolder = `a.pid = l.backend and a.usesysid = l.role and a.datname = current_database()
  and coalesce(a.backend_start = l.started_at, true)`

const holderOf = async (client: pg.ClientBase | pg.Pool, name: LockName): Promise<LockHolder | null> => {
  const [sessions, value] =
    typeof name === 'object'
      ? [
          `engine.auditor_locks l join pg_stat_activity a on ${isHolder} where l.name = $1::text`,
          name.auditor,
        ]
      : [
          `pg_locks l join pg_stat_activity a using (pid)
            where l.locktype = 'advisory' and l.granted and l.objsubid = 1
              and (l.classid::bigint << 32 | l.objid::bigint) = ${advisoryKey(name)[0]}
              and l.database = (select oid from pg_database where datname = current_database())`,
          advisoryKey(name)[1],
        ]
  const { rows } = await client.query<LockHolder>(
    `select a.application_name as application, host(a.client_addr) as address, a.pid as backend from ${sessions}`,
    [value],
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
  while (!(await tryLock(client, key))) {
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

/** Takes the lock of a row unless the session in it, another than this one, is still connected. */
const tryRow = async (client: pg.ClientBase, name: string): Promise<boolean> => {
  const holder = await holderOf(client, { auditor: name })
  const { rows } = await client.query<{ pid: number; role: number; started: string }>(
    'select pid, usesysid as role, backend_start::text as started from pg_stat_activity where pid = pg_backend_pid()',
  )
  const { pid, role, started } = rows[0]!
  // A standby process writes nothing.
  if (holder !== null && holder.backend !== pid) return false
  // A statement reads pg_stat_activity once: here, after it has waited for the row.
  const { rowCount } = await client.query(
    `insert into engine.auditor_locks as l (name, backend, role, started_at)
     values ($1::text, $2::integer, $3::oid, $4::timestamptz)
     on conflict (name) do update
       set backend = excluded.backend, role = excluded.role, started_at = excluded.started_at
       where not exists (select from pg_stat_activity a where ${isHolder} and a.pid <> excluded.backend)`,
    [name, pid, role, started],
  )
  return rowCount === 1
}

/**
 * Tries to acquire a lock until the session ends. A caller polls instead of waiting in a statement: a session that waits
 * for the lock would delay the vacuum of the rows that the owner updates all the time.
 */
export const tryLock = async (client: pg.ClientBase, name: LockName): Promise<boolean> => {
  if (typeof name === 'object') return tryRow(client, name.auditor)
  const [key, value] = advisoryKey(name)
  const { rows } = await client.query<{ locked: boolean }>(`select pg_try_advisory_lock(${key}) as locked`, [
    value,
  ])
  return rows[0]?.locked === true
}

export const unlock = async (client: pg.ClientBase, name: LockName): Promise<void> => {
  if (typeof name === 'object') {
    await client.query(
      'delete from engine.auditor_locks where name = $1::text and backend = pg_backend_pid()',
      [name.auditor],
    )
    return
  }
  const [key, value] = advisoryKey(name)
  await client.query(`select pg_advisory_unlock(${key})`, [value])
}

/** The session of this database with the lock, as text; null: none. */
export const describeHolder = async (pool: pg.Pool, name: LockName): Promise<string | null> => {
  const holder = await holderOf(pool, name)
  return holder === null ? null : described(holder)
}

/** Whether a session of this database has the lock. */
export const isLocked = async (pool: pg.Pool, name: LockName): Promise<boolean> =>
  (await holderOf(pool, name)) !== null

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
 * Runs the work in one process at a time: the process with the lock. A suspended leader sends nothing over
 * its session, so Postgres ends the session, and another process gets the lock.
 */
export const runAsLeader = (
  loop: SessionLoop & {
    readonly lock: LockName
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
