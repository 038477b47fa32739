import type pg from 'pg'
import { type Clock, type MonotonicClock, maxSkewMs } from '../kernel/clock.ts'

/** What time it is for everything that a process decides, sets, or deletes by age. */
export type PostgresClock = {
  /**
   * The machine's clock while it agrees with Postgres's. Otherwise Postgres's time: as of the last comparison, carried on by
   * the monotonic clock.
   */
  readonly now: Clock
  /** How far the machine's clock was ahead of Postgres's at the last comparison, in milliseconds; below zero behind. */
  aheadMs(): number
  /** How far the machine's clock moved since then without time passing, in milliseconds. */
  leaptMs(): number
  /** Compares the clocks now. @returns `aheadMs` */
  compare(): Promise<number>
}

/**
 * How far the monotonic clock is trusted between two looks at it. A process looks every few seconds, so more than this is a
 * leap of that clock too, or a process that was stopped: only Postgres can tell.
 */
const maxCarriedMs = 30_000

/** How far a clock that read `before` and `after` a question is ahead of the answer; the question's time counts in its favour. */
const ahead = (nowMs: number, before: number, after: number): number =>
  nowMs < before ? before - nowMs : nowMs > after ? after - nowMs : 0

/**
 * Postgres's time in this process. A machine's clock that is wrong or leaps changes nothing that is computed from it.
 * @throws when Postgres does not answer the first comparison
 */
export const openPostgresClock = async (deps: {
  readonly pool: Pick<pg.Pool, 'query'>
  readonly systemClock: Clock
  readonly monotonicMs: MonotonicClock
}): Promise<PostgresClock> => {
  const { pool, systemClock, monotonicMs } = deps
  /** Postgres's time when the monotonic clock read `sinceMs`. */
  let postgresMs = systemClock()
  let sinceMs = monotonicMs()
  let aheadMs = 0

  const carriedMs = (): number => {
    const nowMs = monotonicMs()
    postgresMs += Math.min(nowMs - sinceMs, maxCarriedMs)
    sinceMs = nowMs
    return postgresMs
  }

  const compare = async (): Promise<number> => {
    const before = [systemClock(), carriedMs()] as const
    const { rows } = await pool.query<{ now: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now',
    )
    const after = [systemClock(), carriedMs()] as const
    const nowMs = rows[0]?.now ?? 0
    aheadMs = ahead(nowMs, before[0], after[0])
    postgresMs -= ahead(nowMs, before[1], after[1])
    return aheadMs
  }

  await compare()
  return {
    now: () => {
      const machineMs = systemClock()
      const carried = carriedMs()
      return Math.abs(machineMs - carried) <= maxSkewMs ? machineMs : Math.round(carried)
    },
    aheadMs: () => aheadMs,
    leaptMs: () => Math.round(systemClock() - carriedMs() - aheadMs),
    compare,
  }
}
