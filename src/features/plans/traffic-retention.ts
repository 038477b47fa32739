import type pg from 'pg'
import type { Clock } from '../../kernel/clock.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { dropOldRecords } from './traffic-records.ts'

export const recordRetention = worker({
  name: 'traffic-record-retention',
  about: 'Drops old records of connections and requests',
  trigger: { everyMs: 15 * 60_000 },
  per: 'process',
  process: 'server',
})

/** Drops the partitions of days that are no longer retained. Several processes may run it. */
export const startRecordRetention = ({
  scheduler,
  pool,
  clock,
  days,
}: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly days: number
}): RunningWorker => scheduler.start(recordRetention, () => dropOldRecords(pool, clock(), days))
