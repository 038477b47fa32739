import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import { type Poller, startPoller } from '../../platform/work/poller.ts'
import type { Meter } from './metering.ts'

/** A gateway reports twice a second; a receiver hears of a plan that ran low within two seconds. */
const intervalMs = 500
const forgetEveryMs = 60 * 60 * 1000

/**
 * Writes counted traffic to the log when it is due, also what a process counted that died before it could. Several
 * processes may run it: a counter that the log has already adds nothing.
 */
export const startTrafficSweep = (deps: {
  readonly meter: Meter
  readonly clock: Clock
  readonly logger: Logger
}): Poller => {
  const { meter, clock, logger } = deps
  let forgotAtMs = Number.NEGATIVE_INFINITY
  const work = async (): Promise<void> => {
    await meter.sweep()
    if (clock() - forgotAtMs < forgetEveryMs) return
    forgotAtMs = clock()
    await meter.forget()
  }
  return startPoller({ name: 'traffic-sweep', intervalMs, work, logger })
}
