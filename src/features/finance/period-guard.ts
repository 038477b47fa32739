import type { Clock } from '../../kernel/clock.ts'
import { endOfPeriodMs, periodBefore, periodOf } from '../../kernel/months.ts'
import { periodStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'

/** Keeps a process whose clock reads a closed month from deciding anything. */
export type PeriodGuard = {
  /** Null while the clock reads an open month, else what is wrong. */
  problem(): string | null
  /** Looks at the log now; keeps the last finding when it does not answer. */
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
 * Looks now and every 5 seconds whether the month of the service's clock, or the one before it, is closed; so a clock that
 * jumps back is noticed at once. What is decided before a process knows of a closing is booked in the first open month
 * all the same, for accounting time never runs back: this refusal is for people, the books do not need it.
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
  /** Told once when the clock is found to read a closed month, and once when it reads an open one again. */
  readonly onChange: (problem: string | null) => void
}): Promise<PeriodGuard> => {
  let closedUntilMs = Number.NEGATIVE_INFINITY
  let isTold = false

  const problem = (): string | null => {
    const nowMs = clock()
    if (nowMs >= closedUntilMs) return null
    const period = periodOf(new Date(nowMs).toISOString())
    return `the service's clock reads ${new Date(nowMs).toISOString()}, and ${period} is closed: the operator must set the clock right`
  }
  const tell = (): void => {
    const found = problem()
    if ((found !== null) === isTold) return
    isTold = found !== null
    onChange(found)
  }

  const look = async (): Promise<void> => {
    const month = periodOf(new Date(clock()).toISOString())
    for (const period of [month, periodBefore(month)])
      if ((await log.lastOf(periodStream(period))) !== null) {
        closedUntilMs = Math.max(closedUntilMs, endOfPeriodMs(period))
        return
      }
  }
  // A clock that jumped back into a month that is known to be closed is told of without the log.
  const check = (): Promise<void> => look().finally(tell)

  await check().catch(() => undefined) // the log itself tells of its outage
  const { stop } = scheduler.start(periodCheck, check, { onError: () => periodCheck.trigger.everyMs })
  return { problem, check, stop }
}
