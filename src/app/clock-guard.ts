import type { Logger } from 'pino'
import { type Clock, maxSkewMs } from '../kernel/clock.ts'
import type { Scheduler } from '../platform/work/scheduler.ts'
import { type RepeatedWorker, worker } from '../platform/work/worker.ts'
import type { PostgresClock } from './postgres-clock.ts'

export type ClockGuard = {
  /** Null: the clock is right. Otherwise the problem; then this process decides nothing. */
  problem(): string | null
  /** Compares now. Keeps the last result if Postgres does not answer. */
  check(): Promise<void>
  stop(): Promise<void>
}

const comparison = { about: "Compares the clock with Postgres's", per: 'process' } as const
const trigger = { everyMs: 5_000, or: 'the clock leaps' } as const

export const clockComparison = worker({ ...comparison, name: 'clock-guard', trigger, process: 'server' })

/** For processes that only need the time and decide nothing. */
export const gatewayClock = worker({ ...comparison, name: 'gateway-clock', trigger, process: 'gateway' })
export const freeListClock = worker({ ...comparison, name: 'free-list-clock', trigger, process: 'free-list' })

/** The problem of a clock that is `aheadMs` milliseconds ahead of Postgres's; null: none. */
export const skewProblem = (aheadMs: number): string | null =>
  Math.abs(aheadMs) > maxSkewMs
    ? `the clock is ${Math.abs(aheadMs)} ms ${aheadMs > 0 ? 'ahead of' : 'behind'} Postgres's, ${maxSkewMs} are allowed`
    : null

/**
 * Compares this process's clock (before any development offset) with Postgres's: every 5 seconds, and at once after a
 * leap. After a leap the clock counts as wrong until it is compared. Otherwise an order decided a day ahead would stay
 * in the log, with spending caps reset and rentals expired.
 */
export const startClockGuard = (deps: {
  readonly scheduler: Scheduler
  readonly time: PostgresClock
  readonly as?: RepeatedWorker
  readonly onChange: (problem: string | null) => void
}): ClockGuard => {
  const { scheduler, time, as: clockWorker = clockComparison, onChange } = deps
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
