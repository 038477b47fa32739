import type pg from 'pg'
import { type Clock, type MonotonicClock, maxSkewMs } from '../kernel/clock.ts'

/** The time for all decisions, timestamps and age limits of a process. */
export type PostgresClock = {
  /**
   * The machine's clock while it agrees with Postgres's. Otherwise Postgres's time as of the last comparison, advanced
   * by the monotonic clock. Milliseconds.
   */
  readonly now: Clock
  /** How far the machine's clock was ahead of Postgres's at the last comparison, milliseconds; negative: behind. */
  aheadMs(): number
  /** How far the machine's clock has leapt since the last comparison, milliseconds. */
  leaptMs(): number
  /** Compares the clocks now. @returns `aheadMs` */
  compare(): Promise<number>
}

/**
 * The longest trusted step of the monotonic clock between two reads. A process reads it every few seconds. So a longer
 * step is a leap of that clock, or the process was stopped. Then only Postgres has the right time.
 */
const maxStepMs = 30_000

/**
 * How far a clock is ahead of an answer. It read `before` and `after` the query. The duration of the query counts as
 * tolerance.
 */
const ahead = (nowMs: number, before: number, after: number): number =>
  nowMs < before ? before - nowMs : nowMs > after ? after - nowMs : 0

/**
 * Postgres's time in this process. A wrong or leaping machine clock does not affect it.
 * @throws when Postgres does not answer the first comparison
 */
export const openPostgresClock = async (deps: {
  readonly pool: Pick<pg.Pool, 'query'>
  readonly systemClock: Clock
  readonly monotonicMs: MonotonicClock
}): Promise<PostgresClock> => {
  const { pool, systemClock, monotonicMs } = deps
  /** Postgres's time at the monotonic time `sinceMs`. */
  let postgresMs = systemClock()
  let sinceMs = monotonicMs()
  let aheadMs = 0

  const postgresNowMs = (): number => {
    const nowMs = monotonicMs()
    postgresMs += Math.min(nowMs - sinceMs, maxStepMs)
    sinceMs = nowMs
    return postgresMs
  }

  const compare = async (): Promise<number> => {
    const before = [systemClock(), postgresNowMs()] as const
    const { rows } = await pool.query<{ now: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now',
    )
    const after = [systemClock(), postgresNowMs()] as const
    const nowMs = rows[0]?.now ?? 0
    aheadMs = ahead(nowMs, before[0], after[0])
    postgresMs -= ahead(nowMs, before[1], after[1])
    return aheadMs
  }

  await compare()
  return {
    now: () => {
      const machineMs = systemClock()
      const postgresTimeMs = postgresNowMs()
      return Math.abs(machineMs - postgresTimeMs) <= maxSkewMs ? machineMs : Math.round(postgresTimeMs)
    },
    aheadMs: () => aheadMs,
    leaptMs: () => Math.round(systemClock() - postgresNowMs() - aheadMs),
    compare,
  }
}
