import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { every } from '../../kernel/every.ts'
import { tryLock } from './locks.ts'
import { openSession, type Session, setIdleTimeouts } from './postgres-session.ts'

export type SessionLoop = {
  readonly pool: pg.Pool
  /** What Postgres calls the session. */
  readonly applicationName: string
  /** How long the session may be without a word from Postgres that it waits for, or from this process, milliseconds. */
  readonly answerTimeoutMs: number
  readonly stop: AbortSignal
  /** Told of each failure; gives the pause before the next session, milliseconds. */
  readonly onError: (error: unknown) => number
}

/**
 * Works over one session after another until the signal: each connection that is lost, and each error, starts over with a
 * new one. Locks live and die with the session, so a process that stands still keeps none from the others.
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
      await session?.close().catch(() => undefined) // its locks go with it, however it ends
    }
    await sleep(pauseMs, undefined, { signal: stop }).catch(() => undefined)
  }
}

/** A standby asks this often whether the leader is gone. */
const defaultStandbyMs = 500

/**
 * Of all processes one at a time does the work: the one that holds an advisory lock. A leader that stands still says
 * nothing over its session, and Postgres gives its lock to another.
 */
export const runAsLeader = (
  loop: SessionLoop & {
    readonly lock: string | number
    /** How often a process that stands by asks for the lock, milliseconds; well below `answerTimeoutMs`. Default 500. */
    readonly standbyMs?: number
  },
  work: (session: Session, signal: AbortSignal) => Promise<void>,
): Promise<void> =>
  runWithSession(loop, async (session, signal) => {
    while (!(await tryLock(session.client, loop.lock))) {
      await sleep(loop.standbyMs ?? defaultStandbyMs, undefined, { signal })
      signal.throwIfAborted()
    }
    // A session that ended tells so by itself.
    const say = (): void => void session.client.query('select').catch(() => undefined)
    const stopSaying = every(loop.answerTimeoutMs / 3, say)
    try {
      await work(session, signal)
    } finally {
      stopSaying()
    }
  })
