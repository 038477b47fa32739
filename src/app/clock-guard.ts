import type pg from 'pg'
import { type Clock, type MonotonicClock, maxSkewMs } from '../kernel/clock.ts'
import type { Scheduler } from '../platform/work/scheduler.ts'
import { worker } from '../platform/work/worker.ts'

export type ClockGuard = {
  /** Null while the clock is right, else what is wrong with it: then nothing is decided here. */
  problem(): string | null
  /** Looks now; keeps the last finding when Postgres does not answer. */
  check(): Promise<void>
  stop(): Promise<void>
}

export const clockComparison = worker({
  name: 'clock-guard',
  about: "Compares the clock with Postgres's",
  trigger: { everyMs: 5_000, or: 'the clock leaps' },
  per: 'process',
  process: 'server',
})

/**
 * How far a clock is ahead of Postgres's, in milliseconds; below zero behind. The time that the question takes is counted in
 * the clock's favour.
 */
export const aheadOfPostgres = async (pool: pg.Pool, systemClock: Clock): Promise<number> => {
  const before = systemClock()
  const { rows } = await pool.query<{ now: number }>(
    'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now',
  )
  const after = systemClock()
  const now = rows[0]?.now ?? 0
  return now < before ? before - now : now > after ? after - now : 0
}

/** What is wrong with a clock that is so far ahead, or null. */
export const skewProblem = (aheadMs: number): string | null =>
  Math.abs(aheadMs) > maxSkewMs
    ? `the clock is ${Math.abs(aheadMs)} ms ${aheadMs > 0 ? 'ahead of' : 'behind'} Postgres's, ${maxSkewMs} are allowed`
    : null

/**
 * Compares this process's clock (before any development offset) with Postgres's: now, every 5 seconds, and as soon as it is
 * seen to have leapt. After a leap it counts as wrong until it was compared: an order decided a day ahead would stay in the
 * log, with caps forgotten and rentals over.
 */
export const startClockGuard = async (deps: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly systemClock: Clock
  readonly monotonicMs: MonotonicClock
  readonly onChange: (problem: string | null) => void
}): Promise<ClockGuard> => {
  const { scheduler, pool, systemClock, monotonicMs, onChange } = deps
  let problem: string | null = null
  /** The clock less the one that does not leap, when it was compared. */
  let comparedMs = 0

  const compare = async (): Promise<void> => {
    const standsMs = systemClock() - monotonicMs()
    const found = skewProblem(await aheadOfPostgres(pool, systemClock))
    if ((found === null) !== (problem === null)) onChange(found)
    problem = found
    comparedMs = standsMs
  }
  const leap = (): string | null => {
    const leaptMs = Math.round(systemClock() - monotonicMs() - comparedMs)
    if (Math.abs(leaptMs) <= maxSkewMs) return null
    comparing.wake()
    return `the clock leapt by ${leaptMs} ms, and was not compared with Postgres's since`
  }

  await compare()
  // Without Postgres nothing is decided anyway; the log itself tells of the outage.
  const comparing = scheduler.start(clockComparison, compare, {
    onError: () => clockComparison.trigger.everyMs,
  })
  return { problem: () => leap() ?? problem, check: compare, stop: comparing.stop }
}
