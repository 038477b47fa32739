import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { every } from '../../kernel/every.ts'
import { tryLock } from './locks.ts'
import { openSession, type Session, setIdleTimeouts } from './postgres-session.ts'

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
