import type pg from 'pg'
import type { Clock } from './clock.ts'

/** Decisions of several processes are compared by time, so a process may be this far from Postgres's clock at most. */
const maxSkewMs = 2_000

export type ClockGuard = {
  /** Null while the clock is right, else what is wrong with it: then nothing is decided here. */
  problem(): string | null
  /** Looks now; keeps the last finding when Postgres does not answer. */
  check(): Promise<void>
  stop(): void
}

const everyMs = 5_000

/**
 * Compares this process's clock (before any development offset) with Postgres's, now and every 5 seconds. The time
 * that the question takes is given to the process's benefit.
 */
export const startClockGuard = async (deps: {
  readonly pool: pg.Pool
  readonly systemClock: Clock
  readonly onChange: (problem: string | null) => void
}): Promise<ClockGuard> => {
  const { pool, systemClock, onChange } = deps
  let problem: string | null = null

  const check = async (): Promise<void> => {
    const before = systemClock()
    const { rows } = await pool.query<{ now: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now',
    )
    const after = systemClock()
    const now = rows[0]?.now ?? 0
    const aheadMs = now < before ? before - now : now > after ? after - now : 0
    const found =
      Math.abs(aheadMs) > maxSkewMs
        ? `the clock is ${Math.abs(aheadMs)} ms ${aheadMs > 0 ? 'ahead of' : 'behind'} Postgres's, ${maxSkewMs} are allowed`
        : null
    if ((found === null) !== (problem === null)) onChange(found)
    problem = found
  }

  await check()
  const timer = setInterval(() => {
    // Without Postgres nothing is decided anyway; the log itself tells of the outage.
    check().catch(() => undefined)
  }, everyMs)
  timer.unref()
  return { problem: () => problem, check, stop: () => clearInterval(timer) }
}
