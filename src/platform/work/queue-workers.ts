import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { type ProcessGuard, type QueueWork, type RunningQueue, runQueue } from './queue.ts'
import { joinWorkers, type Membership, sweepLeases } from './queue-leases.ts'
import { bringForward } from './queue-operations.ts'
import type { QueueItem, QueueTable, WorkMetrics } from './queue-table.ts'
import type { Scheduler } from './scheduler.ts'
import { type StandardQueue, standardWork } from './standard-queue.ts'
import { worker } from './worker.ts'

/** The queue workers of one process. One connection claims for all queues and releases leases of ended processes. */
export type Workers = {
  /** Works on a queue whose handler finishes items one by one. */
  start<Item extends QueueItem>(work: StandardQueue<Item>): RunningQueue
  /** As `start`, for a queue that writes the outcomes of its items itself. */
  startBatched<Item extends QueueItem, Result, Memory, Context>(
    work: QueueWork<Item, Result, Memory, Context>,
  ): RunningQueue
  /** Stops all queues that still run, then ends the registration as a worker. */
  stop(): Promise<void>
}

export const queueLeases = worker({
  name: 'queue-leases',
  about: 'Takes queue items back from processes that are gone',
  trigger: { everyMs: 1_000 },
  per: 'process',
  process: 'server',
})
const backoffMs = 1_000
const bringForwardEveryMs = 60_000

export const createWorkers = (deps: {
  readonly scheduler: Pick<Scheduler, 'record'>
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly clockGuard?: ProcessGuard
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
  readonly metrics?: WorkMetrics
}): Workers => {
  const { scheduler, pool, clock, monotonicMs, logger, metrics } = deps
  const sweeps = scheduler.record(queueLeases)
  const stopping = new AbortController()
  const queues = new Map<string, { readonly running: RunningQueue; readonly table: QueueTable }>()
  let current: Membership | null = null
  let broughtForwardMs = Number.NEGATIVE_INFINITY
  let joined = Promise.withResolvers<Membership>()

  const pause = (ms: number, signal: AbortSignal): Promise<void> =>
    sleep(ms, undefined, { signal }).catch(() => undefined)
  const sweep = async ({ db, session }: Membership): Promise<void> => {
    const signal = AbortSignal.any([stopping.signal, session.ended])
    while (!signal.aborted) {
      for (const name of await sweeps.timed(() => sweepLeases(db))) queues.get(name)?.running.wake()
      if (monotonicMs() - broughtForwardMs >= bringForwardEveryMs && deps.clockGuard?.problem() == null) {
        broughtForwardMs = monotonicMs()
        for (const { table, running } of queues.values()) {
          const items = await bringForward(db, table, clock())
          if (items === 0) continue
          logger.warn(
            { queue: table.name, items },
            'items were due later than they ever wait, and are due now',
          )
          running.wake()
        }
      }
      sweeps.succeeded()
      await pause(queueLeases.trigger.everyMs, signal)
    }
  }
  const keepMembership = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      let member: Membership | null = null
      try {
        member = await joinWorkers(pool)
        current = member
        joined.resolve(member)
        await sweep(member)
      } catch (error) {
        if (!stopping.signal.aborted) {
          sweeps.failed(error)
          logger.error({ err: error }, 'the queues lost their connection and will try again')
          await pause(backoffMs, stopping.signal)
        }
      } finally {
        if (member) joined = Promise.withResolvers()
        current = null
        await member?.session.close().catch(() => undefined)
      }
    }
  }
  let membershipLoop: Promise<void> | null = null
  const membership = async (): Promise<Membership> => {
    membershipLoop ??= keepMembership()
    return joined.promise
  }

  const startBatched: Workers['startBatched'] = (work) => {
    const { name } = work.queue
    const runs = scheduler.record(work.worker)
    const running = runQueue({ ...deps, runs, member: () => current, membership }, work)
    queues.set(name, { running, table: work.queue })
    metrics?.running(name, running.inFlight)
    return running
  }
  return {
    startBatched,
    start: (work) =>
      startBatched(standardWork({ pool, clock, logger, runs: scheduler.record(work.worker) }, work)),
    stop: async () => {
      await Promise.all([...queues.values()].map(({ running }) => running.stop()))
      stopping.abort(new Error('the queues stop'))
      await membershipLoop
    },
  }
}
