import type { Clock } from '../../kernel/clock.ts'
import { endOfPeriodMs, periodBefore, periodOf } from '../../kernel/months.ts'
import { periodStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'

/** Blocks decisions while the process's clock reads a closed month. */
export type PeriodGuard = {
  /** Null while the clock reads an open month, else the problem. */
  problem(): string | null
  /** Checks the log now. Uses the last result if the log does not answer. */
  check(): Promise<void>
  stop(): Promise<void>
}

export const periodCheck = worker({
  name: 'period-guard',
  about: 'Checks that the clock reads no month that is closed',
  trigger: { everyMs: 5_000 },
  per: 'process',
  process: 'server',
})

/**
 * Checks now and every 5 seconds whether the month of the service's clock, or the month before it, is closed, so that a
 * clock that jumps back is detected at once. A decision before the process detects the closing is booked in the first
 * open month, because accounting time never decreases: this refusal informs people, the books do not depend on it.
 */
export const startPeriodGuard = async ({
  scheduler,
  log,
  clock,
  onChange,
}: {
  readonly scheduler: Scheduler
  readonly log: Pick<EventLog, 'lastOf'>
  readonly clock: Clock
  /** Called once when the clock reads a closed month, and once when it reads an open one again. */
  readonly onChange: (problem: string | null) => void
}): Promise<PeriodGuard> => {
  let closedUntilMs = Number.NEGATIVE_INFINITY
  let isReported = false

  const problem = (): string | null => {
    const nowMs = clock()
    if (nowMs >= closedUntilMs) return null
    const period = periodOf(new Date(nowMs).toISOString())
    return `the service's clock reads ${new Date(nowMs).toISOString()}, and ${period} is closed: the operator must set the clock right`
  }
  const reportChange = (): void => {
    const currentProblem = problem()
    if ((currentProblem !== null) === isReported) return
    isReported = currentProblem !== null
    onChange(currentProblem)
  }

  const refresh = async (): Promise<void> => {
    const month = periodOf(new Date(clock()).toISOString())
    for (const period of [month, periodBefore(month)])
      if ((await log.lastOf(periodStream(period))) !== null) {
        closedUntilMs = Math.max(closedUntilMs, endOfPeriodMs(period))
        return
      }
  }
  // A clock that jumped back into a month that is known to be closed is reported without the log.
  const check = (): Promise<void> => refresh().finally(reportChange)

  await check().catch(() => undefined) // the log reports its own outage
  const { stop } = scheduler.start(periodCheck, check, { onError: () => periodCheck.trigger.everyMs })
  return { problem, check, stop }
}
