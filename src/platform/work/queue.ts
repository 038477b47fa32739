import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import { isTemporary } from '../commands/command.ts'
import { createBatchLoader } from '../postgres/batch-loader.ts'
import type { Session } from '../postgres/postgres-session.ts'
import { createSlots } from './queue-slots.ts'
import {
  type ClaimedOwner,
  createLeases,
  type Db,
  keyOf,
  type QueueItem,
  type QueueTable,
  type WorkMetrics,
} from './queue-table.ts'
import type { Scheduler } from './scheduler.ts'
import type { RepeatedWorker } from './worker.ts'
import type { Recorder } from './worker-runs.ts'

/** An owner that is leased to this process. */
export type OwnerLease<Memory, Context> = {
  readonly owner: string
  /** The memory of the queue about the owner. It is written when the lease ends. Null at first. */
  memory: Memory | null
  /** No item of the owner starts before this time, milliseconds; null: the owner is not paused. */
  pausedUntilMs: number | null
  /** The result of `prepare` for the owner. */
  readonly context: Context
}

export type Settled<Item, Result> = { readonly item: Item; readonly result: Result }

export type QueueLimits = {
  /** The most running items. Items that last longer than `slowAfterMs` count against `slow` instead. */
  readonly active: number
  readonly slow: number
  readonly slowAfterMs: number
  /** The most running items of one owner over all processes. */
  readonly perOwner: number
  /** The most items of one owner in one read. */
  readonly perLease: number
}

/** How a queue is processed. `work` returns a `Result`, `settle` writes it. */
export type QueueWork<Item extends QueueItem, Result, Memory, Context> = {
  /**
   * The worker for operators. Its interval is the time between two checks for due items that no notification
   * announces, such as retries.
   */
  readonly worker: RepeatedWorker
  readonly queue: QueueTable
  readonly limits: QueueLimits
  /** Longer than the work on one item takes, milliseconds. A lease ends later than this after its last item starts. */
  readonly longestMs: number
  /** Replaces the worker's interval, milliseconds. */
  readonly pollMs?: number | undefined
  /** Inserts items that are not in the table yet; at most once per interval. */
  readonly fill?: () => Promise<void>
  /** Called once for all owners of a claim. Loads the data that all of their items need. */
  readonly prepare: (db: Db, owners: readonly string[]) => Promise<(owner: string) => Context>
  /** The most running items of the owner in its present state. Default: `perOwner`. */
  readonly atOnce?: (lease: OwnerLease<Memory, Context>) => number
  /**
   * Does the work. It must not reject. It may change the memory of the lease.
   * @param next items of the same owner that this process has read and not started
   */
  readonly work: (item: Item, lease: OwnerLease<Memory, Context>, next: readonly Item[]) => Promise<Result>
  /**
   * Writes the outcomes of many items; must be idempotent. It is repeated while the database cannot answer. An item
   * that makes it fail for another reason is tried again later, with growing pauses.
   */
  readonly settle: (settled: readonly Settled<Item, Result>[]) => Promise<void>
  readonly outcomeOf: (result: Result) => 'done' | 'again' | 'dead'
  /** Called after the result is written. */
  readonly settled?: (item: Item, result: Result, lease: OwnerLease<Memory, Context>) => Promise<void>
}

export type RunningQueue = {
  /** Starts the next check at once, because an item may be due, and checks often for some seconds. */
  wake(): void
  /** Starts the next check at once. */
  check(): void
  /** Starts the items that are due now, up to the limits. Rejects with the error of the check. */
  runNow(): Promise<void>
  /** Works until no item is due or in flight. */
  drain(): Promise<void>
  inFlight(): number
  /** Finishes the items in flight, writes their results and releases the owners. */
  stop(): Promise<void>
}

/** After a claim or a wake-up, checks are more frequent for this time: an item may have waited for something else. */
const busyMs = 2_000
const busyPollMs = 100
const backoffMs = 1_000
/** The pause after the first attempt of an item whose result cannot be written. It doubles per attempt. */
const postponedMs = 60_000
const longestPostponedMs = 3_600_000
/** No item starts later than this in a lease, so that the last item ends before the lease does. */
const startMs = 15_000
const marginMs = 5_000
const batchItems = 200

type Lease<Item, Memory, Context> = OwnerLease<Memory, Context> & {
  readonly since: string
  readonly member: Membership
  readonly startUntilMs: number
  /** Read and not started. */
  readonly waiting: Item[]
  /** Keys of items that are started and whose results are not written. */
  readonly running: Set<string>
  /** The last read returned the most items that it can, so there may be more. */
  full: boolean
  ended: boolean
  readonly ending: PromiseWithResolvers<void>
}

/** The registration of a process as a worker of queues. */
export type Membership = {
  readonly worker: number
  /** The worker's own connection. Its commits do not wait for the disk: leases that a crash loses are claimed again. */
  readonly db: Db
  readonly session: Session
}

/** Returns why this process must not decide at present; null if it may. Its queues start no item in the meantime. */
export type ProcessGuard = { problem(): string | null }

/**
 * Processes a queue in this process, in parallel with any number of other processes. `membership` resolves when this
 * process may claim.
 */
export const runQueue = <Item extends QueueItem, Result, Memory, Context>(
  dependencies: {
    /** The registration of this process as a worker, if there is one now. */
    readonly member: () => Membership | null
    readonly membership: () => Promise<Membership>
    readonly pool: pg.Pool
    readonly clock: Clock
    /** Without it, this process may always decide. */
    readonly clockGuard?: ProcessGuard
    readonly monotonicMs: MonotonicClock
    readonly logger: Logger
    readonly metrics?: WorkMetrics
    readonly pace: Pick<Scheduler, 'pauseMs' | 'onWake'>
    /** Records the checks. Failures of items are noted. */
    readonly runs: Recorder
  },
  options: QueueWork<Item, Result, Memory, Context>,
): RunningQueue => {
  type ActiveLease = Lease<Item, Memory, Context>
  const { membership, pool, pace, clock, clockGuard, monotonicMs, logger, metrics, runs } = dependencies
  const { queue, limits, longestMs } = options
  const { trigger } = options.worker
  const fillMs = options.pollMs ?? trigger.everyMs
  const leases = createLeases<Item>(queue)
  const slots = createSlots(limits)
  const stopping = new AbortController()
  const activeLeases = new Set<ActiveLease>()
  /** A notification arrived since the last check began. */
  let isWoken = false
  let endPause: (() => void) | null = null
  const stopped = Promise.withResolvers<never>()
  stopped.promise.catch(() => undefined)
  let busyUntilMs = 0
  let filledAtMs = Number.NEGATIVE_INFINITY

  const errorLogger =
    (description: string) =>
    (error: unknown): void => {
      logger.error({ err: error, queue: queue.name }, description)
      runs.noted(error)
    }
  /**
   * Collects entries during a write for the next write, which must be idempotent. While the database cannot answer, the
   * same entries are written again until the stop; then they are rejected, and a later worker finds them again.
   */
  const batchWriter = <Entry>(write: (entries: readonly Entry[]) => Promise<void>, description: string) =>
    createBatchLoader<Entry, unknown>(
      async (entries) => {
        for (;;)
          try {
            await write(entries)
            return new Map()
          } catch (error) {
            if (!isTemporary(error)) throw error
            errorLogger(description)(error)
            if (stopping.signal.aborted) throw error
            await sleep(backoffMs)
          }
      },
      { maxKeys: batchItems, isOfKeys: (error) => !isTemporary(error) },
    )
  const settle = batchWriter<Settled<Item, Result>>(options.settle, 'results cannot be written yet')
  const releaseLease = batchWriter<ActiveLease>(async (all) => {
    for (const [member, ended] of Map.groupBy(all, (lease) => lease.member)) {
      // Leases of a closed connection are released by `sweepLeases`.
      if (member.session.ended.aborted) continue
      const rows = ended.map(({ owner, memory, pausedUntilMs }) => ({
        owner,
        memory,
        pausedUntil: pausedUntilMs === null ? null : isoTime(pausedUntilMs),
      }))
      await leases.release(member.db, member.worker, rows)
    }
  }, 'owners cannot be released yet')

  const canDecide = (): boolean => clockGuard === undefined || clockGuard.problem() === null
  const canStart = (lease: ActiveLease): boolean =>
    !stopping.signal.aborted &&
    !lease.member.session.ended.aborted &&
    monotonicMs() <= lease.startUntilMs &&
    canDecide() &&
    (lease.pausedUntilMs === null || lease.pausedUntilMs <= clock())
  const atOnce = (lease: ActiveLease): number => options.atOnce?.(lease) ?? limits.perOwner

  /**
   * The result cannot be written. Other due items of the owner must not wait for this item, and it must not be
   * repeated without a pause.
   */
  const postponeItem = async (item: Item, error: unknown): Promise<void> => {
    errorLogger('the result of an item cannot be written: the item is postponed')(error)
    const waitMs = Math.min(longestPostponedMs, postponedMs * 2 ** Math.min(item.attempts, 10))
    await leases.postpone(pool, item, isoTime(clock() + waitMs))
  }

  const workOn = async (lease: ActiveLease, item: Item): Promise<void> => {
    const slot = await slots.acquire()
    let result: Result
    try {
      // After the wait for the slot: an item that can no longer start in time remains unchanged.
      if (!canStart(lease)) return
      result = await options.work(item, lease, lease.waiting)
    } finally {
      slot.release()
    }
    try {
      await settle({ item, result })
    } catch (error) {
      if (isTemporary(error)) throw error
      return postponeItem(item, error)
    }
    metrics?.ended(queue.name, options.outcomeOf(result))
    await options.settled?.(item, result, lease)
  }

  const start = (lease: ActiveLease, item: Item): void => {
    const key = keyOf(queue, item)
    lease.running.add(key)
    void workOn(lease, item)
      .catch((error) => {
        errorLogger('an item failed and is tried again')(error)
        lease.pausedUntilMs = clock() + backoffMs
      })
      .finally(() => {
        lease.running.delete(key)
        startItems(lease)
      })
  }

  const end = async (lease: ActiveLease): Promise<void> => {
    lease.ended = true
    try {
      await releaseLease(lease)
    } catch (error) {
      errorLogger('an owner was not released and is free when its lease ends')(error)
    }
    activeLeases.delete(lease)
    lease.ending.resolve()
    if (lease.full || room() > 0) wake()
  }

  const startItems = (lease: ActiveLease): void => {
    while (lease.waiting.length > 0 && lease.running.size < atOnce(lease) && canStart(lease))
      start(lease, lease.waiting.shift()!)
    if (lease.running.size === 0) void end(lease)
  }

  /** The number of free slots if there are enough to justify the round trips of a claim, or if there are no leases. */
  const room = (): number => {
    const freeSlots = slots.free()
    return freeSlots >= limits.active / 4 || activeLeases.size === 0 ? freeSlots : 0
  }

  const leaseOf = (
    member: Membership,
    { owner, since, memory }: ClaimedOwner,
    context: Context,
    startUntilMs: number,
  ): ActiveLease => ({
    owner,
    since,
    memory: memory as Memory | null,
    pausedUntilMs: null,
    context,
    member,
    startUntilMs,
    waiting: [],
    running: new Set(),
    full: false,
    ended: false,
    ending: Promise.withResolvers(),
  })

  /**
   * Claims owners with due items, and reads more items of leased owners below their limit. Returns the
   * number of claimed owners.
   */
  const claimOwners = async (member: Membership, owners: number): Promise<number> => {
    const { db, worker } = member
    const now = isoTime(clock())
    const startUntilMs = monotonicMs() + startMs
    const leaseMs = startMs + longestMs + marginMs
    // A result of these owners may not be written yet, under a lease that was lost with its connection.
    const activeOwners = [...activeLeases].map(({ owner }) => owner)
    const claimed = await leases.claim(db, { worker, now, owners, leaseMs, except: activeOwners })
    let newLeases: readonly ActiveLease[] = []
    try {
      const refillable = [...activeLeases].filter(
        (lease) =>
          lease.member === member &&
          !lease.ended &&
          lease.waiting.length === 0 &&
          lease.running.size < atOnce(lease) &&
          canStart(lease),
      )
      if (claimed.length + refillable.length === 0) return 0
      // Items that end during the read are still pending in its result.
      const before = new Map(refillable.map((lease) => [lease, new Set(lease.running)]))
      const found = await leases.due(db, [...claimed, ...refillable], { now, limit: limits.perLease })
      if (claimed.length > 0) {
        const contextOf = await options.prepare(
          db,
          claimed.map(({ owner }) => owner),
        )
        newLeases = claimed.map((each) => leaseOf(member, each, contextOf(each.owner), startUntilMs))
      }
      for (const lease of newLeases) activeLeases.add(lease)
      for (const lease of [...newLeases, ...refillable]) {
        if (lease.ended) continue
        const due = found.get(lease.owner) ?? []
        lease.waiting.push(...due.filter((item) => !before.get(lease)?.has(keyOf(queue, item))))
        lease.full = due.length === limits.perLease
        startItems(lease)
      }
      return claimed.length
    } catch (error) {
      const unusedOwners = claimed.map(({ owner, memory }) => ({ owner, memory, pausedUntil: null }))
      if (unusedOwners.length > 0) await leases.release(db, worker, unusedOwners)
      throw error
    }
  }

  /**
   * A `Promise.race` for each check would add listeners to a promise that may never settle. So there is a race only
   * while the process is not registered.
   */
  const joined = async (): Promise<Membership> =>
    dependencies.member() ?? (await Promise.race([membership(), stopped.promise]))

  const round = async (): Promise<void> => {
    if (!canDecide()) return
    const nowMs = monotonicMs()
    if (options.fill && nowMs - filledAtMs >= fillMs) {
      filledAtMs = nowMs
      await options.fill()
    }
    while (!stopping.signal.aborted) {
      const owners = room()
      if (owners === 0) return
      const claimed = await claimOwners(await joined(), owners)
      if (claimed > 0) busyUntilMs = monotonicMs() + busyMs
      // After a full claim there may be more owners.
      if (claimed < owners) return
    }
  }

  let running: Promise<void> = Promise.resolve()
  const inTurn = (): Promise<void> => {
    const next = running.then(() => runs.timed(round))
    running = next.then(runs.succeeded, (error) => {
      if (!stopping.signal.aborted) runs.failed(error)
    })
    return next
  }

  const check = (): void => {
    isWoken = true
    endPause?.()
  }
  const wake = (): void => {
    busyUntilMs = monotonicMs() + busyMs
    check()
  }

  /** Waits until the next check, or until a wake-up. */
  const pause = (): Promise<void> =>
    new Promise((resolve) => {
      if (isWoken) return resolve()
      const isBusy = monotonicMs() < busyUntilMs
      const pollMs = options.pollMs ?? (activeLeases.size > 0 ? trigger.everyMs : pace.pauseMs(trigger))
      const ms = isBusy ? Math.min(pollMs, busyPollMs) : pollMs
      const timer = setTimeout(() => endPause?.(), ms)
      endPause = () => {
        endPause = null
        clearTimeout(timer)
        resolve()
      }
    })

  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      isWoken = false
      try {
        await inTurn()
        await pause()
      } catch (error) {
        if (stopping.signal.aborted) return
        errorLogger('a queue cannot be checked and is checked again')(error)
        await sleep(backoffMs, undefined, { signal: stopping.signal }).catch(() => undefined)
      }
    }
  }
  const loopEnd = loop()
  const stopWaking = pace.onWake(check)

  const runNow = (): Promise<void> => {
    filledAtMs = Number.NEGATIVE_INFINITY
    return inTurn()
  }
  return {
    wake,
    check,
    runNow,
    drain: async () => {
      for (;;) {
        // A lease that ends during the check may leave items that the check did not see.
        const wasActive = activeLeases.size > 0
        await runNow()
        if (!wasActive && activeLeases.size === 0) return
        await Promise.all([...activeLeases].map(({ ending }) => ending.promise))
      }
    },
    inFlight: () => [...activeLeases].reduce((sum, { running: { size } }) => sum + size, 0),
    stop: async () => {
      const reason = new Error(`the queue ${queue.name} stops`)
      stopWaking()
      stopping.abort(reason)
      stopped.reject(reason)
      wake()
      await loopEnd
      await running
      await Promise.all([...activeLeases].map(({ ending }) => ending.promise))
    },
  }
}
