import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, type MonotonicClock, maxSkewMs } from '../kernel/clock.ts'
import type { Scheduler } from '../platform/work/scheduler.ts'
import { type RepeatedWorker, worker } from '../platform/work/worker.ts'

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
export const openPostgresClock = async (dependencies: {
  readonly pool: Pick<pg.Pool, 'query'>
  readonly systemClock: Clock
  readonly monotonicMs?: MonotonicClock
}): Promise<PostgresClock> => {
  const { pool, systemClock, monotonicMs = () => performance.now() } = dependencies
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

export type ClockGuard = {
  /** Null: the clock is right. Otherwise the problem; then this process decides nothing. */
  problem(): string | null
  /** Compares now. Keeps the last result if Postgres does not answer. */
  check(): Promise<void>
  stop(): Promise<void>
}

const comparison = { about: "Compares the clock with Postgres's", per: 'process' } as const
const trigger = { everyMs: 5_000, quietMs: 20_000, or: 'the clock leaps' } as const

export const clockComparison = worker({ ...comparison, name: 'clock-guard', trigger, process: 'server' })

/** For processes that only need the time and decide nothing. */
export const gatewayClock = worker({ ...comparison, name: 'gateway-clock', trigger, process: 'gateway' })
export const freeListClock = worker({
  ...comparison,
  name: 'free-list-clock',
  trigger: { everyMs: trigger.quietMs, or: trigger.or },
  process: 'free-list',
})

/** The problem of a clock that is `aheadMs` milliseconds ahead of Postgres's; null: none. */
export const skewProblem = (aheadMs: number): string | null =>
  Math.abs(aheadMs) > maxSkewMs
    ? `the clock is ${Math.abs(aheadMs)} ms ${aheadMs > 0 ? 'ahead of' : 'behind'} Postgres's, ${maxSkewMs} are allowed`
    : null

/**
 * Compares this process's clock (before any development offset) with Postgres's: every 5 seconds (every 20 while
 * nothing happens), and at once after a leap. After a leap the clock counts as wrong until it is compared. Otherwise an
 * order decided a day ahead would stay in the log, with spending caps reset and rentals expired.
 */
export const startClockGuard = (dependencies: {
  readonly scheduler: Scheduler
  readonly time: PostgresClock
  readonly as?: RepeatedWorker
  readonly onChange: (problem: string | null) => void
}): ClockGuard => {
  const { scheduler, time, as: clockWorker = clockComparison, onChange } = dependencies
  let problem: string | null = null

  const updateProblem = (): void => {
    const newProblem = skewProblem(time.aheadMs())
    if ((newProblem === null) !== (problem === null)) onChange(newProblem)
    problem = newProblem
  }
  const compare = async (): Promise<void> => {
    await time.compare()
    updateProblem()
  }
  const leapProblem = (): string | null => {
    const leaptMs = time.leaptMs()
    if (Math.abs(leaptMs) <= maxSkewMs) return null
    runningComparison.wake()
    return `the clock leapt by ${leaptMs} ms, and was not compared with Postgres's since`
  }

  updateProblem()
  // Without Postgres nothing is decided anyway, and the log itself reports the outage.
  const runningComparison = scheduler.start(clockWorker, compare, {
    onError: () => clockWorker.trigger.everyMs,
  })
  return { problem: () => leapProblem() ?? problem, check: compare, stop: runningComparison.stop }
}

/** For a process that decides nothing and uses Postgres's time. */
export const warnOfClock =
  (logger: Pick<Logger, 'warn'>) =>
  (problem: string | null): void =>
    logger.warn(
      { problem },
      problem === null ? 'the clock is right again' : "the time is Postgres's: the clock is wrong",
    )

/** The service's clock: Postgres's time and the development offset. */
export const serviceClock =
  (time: PostgresClock, config: { readonly clockOffsetMs: number }): Clock =>
  () =>
    time.now() + config.clockOffsetMs

/** The development offset, which may change while a test runs. */
export const clockOffsetOf =
  (config: { readonly clockOffsetMs: number }): (() => number) =>
  () =>
    config.clockOffsetMs

/** All guards of the time as one: the first problem counts. */
export const guardTime = (
  time: Pick<PostgresClock, 'aheadMs'>,
  guards: readonly Pick<ClockGuard, 'problem' | 'check'>[],
) => ({
  aheadMs: time.aheadMs,
  problem: (): string | null => {
    for (const guard of guards) {
      const problem = guard.problem()
      if (problem !== null) return problem
    }
    return null
  },
  check: async (): Promise<void> => {
    await Promise.all(guards.map((guard) => guard.check()))
  },
})
