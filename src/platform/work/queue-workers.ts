import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import { openSession } from '../postgres/postgres-session.ts'
import { type Membership, type ProcessGuard, type QueueWork, type RunningQueue, runQueue } from './queue.ts'
import { bringForward } from './queue-operations.ts'
import { type Db, type QueueItem, type QueueTable, type WorkMetrics, workerSession } from './queue-table.ts'
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
  about: 'Releases queue items of ended processes',
  trigger: { everyMs: 1_000, quietMs: 2_000 },
  per: 'process',
  process: 'server',
})
const backoffMs = 1_000
const bringForwardEveryMs = 60_000

export const createWorkers = (dependencies: {
  readonly scheduler: Pick<Scheduler, 'record' | 'pauseMs' | 'onWake'>
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly clockGuard?: ProcessGuard
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
  readonly metrics?: WorkMetrics
}): Workers => {
  const { scheduler, pool, clock, monotonicMs, logger, metrics } = dependencies
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
      for (const { queue, freed } of await sweeps.timed(() => sweepLeases(db, clock())))
        if (freed) queues.get(queue)?.running.wake()
        else queues.get(queue)?.running.check()
      if (
        monotonicMs() - broughtForwardMs >= bringForwardEveryMs &&
        dependencies.clockGuard?.problem() == null
      ) {
        broughtForwardMs = monotonicMs()
        for (const { table, running } of queues.values()) {
          const items = await bringForward(db, table, clock())
          if (items === 0) continue
          logger.warn(
            { queue: table.name, items },
            'items or their owners had a due time that was too late, and are due now',
          )
          running.wake()
        }
      }
      sweeps.succeeded()
      await pause(scheduler.pauseMs(queueLeases.trigger), signal)
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
    const running = runQueue(
      { ...dependencies, pace: scheduler, runs, member: () => current, membership },
      work,
    )
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

/** Advisory locks of workers have their own class: the two numbers of a lock are this one and the worker's number. */
const lockClass = 72_309_002

const inTurn = (client: pg.ClientBase): Db => {
  let last: Promise<unknown> = Promise.resolve()
  return {
    query: (query) => {
      const next = last.then(() => client.query<never>(query))
      last = next.catch(() => undefined)
      return next
    },
  }
}

/**
 * Assigns a number to this worker that is unique while its connection is open. Postgres releases the lock when the
 * process ends in any way, so a lease of an ended process is detected within a second.
 */
const joinWorkers = async (pool: pg.Pool): Promise<Membership> => {
  const session = await openSession(pool, workerSession)
  try {
    const { rows } = await session.client.query<{ worker: number }>(
      "select nextval('work.queue_workers')::integer as worker",
    )
    const { worker } = rows[0]!
    await session.client.query('select pg_advisory_lock($1::integer, $2::integer)', [lockClass, worker])
    return { worker, session, db: inTurn(session.client) }
  } catch (error) {
    await session.close()
    throw error
  }
}

/**
 * Releases the leases of workers that have ended, and expired leases.
 * @returns the queues with owners that are free again (`freed`), or that have due items
 */
const sweepLeases = async (
  db: Db,
  nowMs: number,
): Promise<readonly { readonly queue: string; readonly freed: boolean }[]> => {
  const { rows } = await db.query<{ queue: string; freed: boolean }>({
    name: 'queues-sweep',
    text: `with dead as materialized (
             select lease_worker from work.queue_owners where lease_worker is not null
             except
             select l.objid::bigint::integer from pg_locks l
              where l.locktype = 'advisory' and l.classid = ${lockClass}::oid and l.objsubid = 2 and l.granted
                and l.database = (select oid from pg_database where datname = current_database())
           ), void as (
             select queue, owner from work.queue_owners
              where lease_worker is not null
                and (lease_until < clock_timestamp() or lease_worker = any (array(select lease_worker from dead)))
              for update skip locked
           ), freed as (
             update work.queue_owners q set lease_worker = null, lease_until = null
               from void where q.queue = void.queue and q.owner = void.owner
             returning q.queue
           )
           select queue, bool_or(is_free) as freed
             from (select queue, true as is_free from freed
                   union all
                   select queue, false from work.queue_owners
                    where lease_worker is null and next_due_at <= $1::timestamptz
                      and (hold_until is null or hold_until <= $1::timestamptz)) q
            group by queue`,
    values: [isoTime(nowMs)],
  })
  return rows
}
