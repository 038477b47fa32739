import type pg from 'pg'
import { type Logger, pino } from 'pino'
import { createScheduler, type Scheduler } from '../../src/platform/work/scheduler.ts'
import type { Worker } from '../../src/platform/work/worker.ts'

/**
 * Starts every given worker, and reports none. Each test stops its own workers.
 * @param parts.pool for workers of a cluster, which hold a session
 */
export const testScheduler = (
  parts: { readonly pool?: pg.Pool; readonly logger?: Logger } = {},
): Scheduler => {
  const { pool = null as unknown as pg.Pool, logger = pino({ level: 'silent' }) } = parts
  const of = (worker: Worker): Scheduler =>
    createScheduler({ workers: [worker], pool, place: null, clock: Date.now, logger })
  return {
    start: (worker, ...rest) => of(worker).start(worker, ...rest),
    lead: (worker, ...rest) => of(worker).lead(worker, ...rest),
    record: (worker) => of(worker).record(worker),
    follow: () => undefined,
    pauseMs: ({ everyMs }) => everyMs,
    onWake: () => () => undefined,
    stop: async () => undefined,
  }
}
