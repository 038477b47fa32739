import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import { isTemporary } from '../commands/command.ts'
import { type ClaimedOwner, createLeases, type Db, type Membership } from './queue-leases.ts'
import { createBatcher, createSlots } from './queue-slots.ts'
import { keyOf, type QueueItem, type QueueTable, type WorkMetrics } from './queue-table.ts'
import type { RepeatedWorker } from './worker.ts'
import type { Recorder } from './worker-runs.ts'

/** An owner whose items this process works on. */
export type OwnerLease<Memory, Context> = {
  readonly owner: string
  /** What the queue remembers of the owner beyond the lease; written back at its end. Null at first. */
  memory: Memory | null
  /** No item of the owner starts before, milliseconds; null: the owner is not left alone. */
  holdUntilMs: number | null
  /** What `prepare` gave for the owner. */
  readonly context: Context
}

export type Settled<Item, Result> = { readonly item: Item; readonly result: Result }

export type QueueLimits = {
  /** Items that run at once; those that last longer than `slowAfterMs` count against `slow` instead. */
  readonly active: number
  readonly slow: number
  readonly slowAfterMs: number
  /** Items of one owner at once, over all processes. */
  readonly perOwner: number
  /** Items of one owner that one look takes up at most. */
  readonly perLease: number
}

/** How a queue is worked off. `Result` is what `work` gives and `settle` writes. */
export type QueueWork<Item extends QueueItem, Result, Memory, Context> = {
  /** As operators see it. Its interval: what is due is looked for this often when nothing tells of it, such as a retry. */
  readonly worker: RepeatedWorker
  readonly queue: QueueTable
  readonly limits: QueueLimits
  /** Longer than one item takes. A lease outlives the last item that starts in it by so much. */
  readonly longestMs: number
  /** In place of the worker's interval, milliseconds. */
  readonly pollMs?: number | undefined
  /** Brings in what is not in the table yet; at most once an interval. */
  readonly fill?: () => Promise<void>
  /** Once for all owners that were claimed together: what every item of them needs. */
  readonly prepare: (db: Db, owners: readonly string[]) => Promise<(owner: string) => Context>
  /** Items of the owner at once, as it stands now. Default: `perOwner`. */
  readonly atOnce?: (lease: OwnerLease<Memory, Context>) => number
  /**
   * Does the work. It never rejects, and may change what the lease remembers.
   * @param next items of the same owner that this process has taken up and not begun
   */
  readonly work: (item: Item, lease: OwnerLease<Memory, Context>, next: readonly Item[]) => Promise<Result>
  /**
   * Writes down what became of items, many at once; doing it twice changes nothing. While the database cannot answer it is
   * tried again. An item that makes it fail for another reason is worked on again later, ever more seldom.
   */
  readonly settle: (settled: readonly Settled<Item, Result>[]) => Promise<void>
  /** For the metrics. */
  readonly outcomeOf: (result: Result) => 'done' | 'again' | 'dead'
  /** After it is written down. */
  readonly settled?: (item: Item, result: Result, lease: OwnerLease<Memory, Context>) => Promise<void>
}

export type RunningQueue = {
  /** Something may be due: does not wait for the next look. */
  wake(): void
  /** Begins what is due now, as far as there is room. Rejects with what kept it from looking. */
  runNow(): Promise<void>
  /** Works until nothing is due and nothing in flight. */
  drain(): Promise<void>
  inFlight(): number
  /** Finishes the items in flight, writes them down, and gives its owners back. */
  stop(): Promise<void>
}

/** For so long after something was there it is looked for more often: it may have waited for something else first. */
const busyMs = 2_000
const busyPollMs = 100
const backoffMs = 1_000
/** An item whose result cannot be written is put off for so long after its first attempt, doubling. */
const postponedMs = 60_000
const longestPostponedMs = 3_600_000
/** No item starts later in a lease, so that the last one is over before the lease is. */
const startMs = 15_000
const marginMs = 5_000
const batchItems = 200

type Lease<Item, Memory, Context> = OwnerLease<Memory, Context> & {
  readonly since: string
  readonly member: Membership
  readonly startUntilMs: number
  /** Taken up and not started. */
  readonly waiting: Item[]
  /** Keys of what is started and not written down. */
  readonly running: Set<string>
  /** The last look found as many as it takes: there may be more. */
  full: boolean
  ended: boolean
  readonly over: PromiseWithResolvers<void>
}

/** Says why this process may decide nothing now; null: it may. Its queues start nothing meanwhile. */
export type ProcessGuard = { problem(): string | null }

/** Works a queue off in this process, beside any number of others. `membership` resolves once this process may claim. */
export const runQueue = <Item extends QueueItem, Result, Memory, Context>(
  deps: {
    /** This process's place among the workers, if it has one now. */
    readonly member: () => Membership | null
    readonly membership: () => Promise<Membership>
    readonly pool: pg.Pool
    readonly clock: Clock
    /** Left out: nothing keeps this process from deciding. */
    readonly clockGuard?: ProcessGuard
    readonly monotonicMs: MonotonicClock
    readonly logger: Logger
    readonly metrics?: WorkMetrics
    /** Of the looks; what fails of an item is noted. */
    readonly runs: Recorder
  },
  options: QueueWork<Item, Result, Memory, Context>,
): RunningQueue => {
  type Held = Lease<Item, Memory, Context>
  const { membership, pool, clock, clockGuard, monotonicMs, logger, metrics, runs } = deps
  const { queue, limits, longestMs, pollMs = options.worker.trigger.everyMs } = options
  const leases = createLeases<Item>(queue)
  const slots = createSlots(limits)
  const stopping = new AbortController()
  const held = new Set<Held>()
  /** Something told of work since the last look began. */
  let woken = false
  let endPause: (() => void) | null = null
  const stopped = Promise.withResolvers<never>()
  stopped.promise.catch(() => undefined)
  let busyUntilMs = 0
  let filledAtMs = Number.NEGATIVE_INFINITY

  const trouble =
    (what: string) =>
    (error: unknown): void => {
      logger.error({ err: error, queue: queue.name }, what)
      runs.noted(error)
    }
  const batched = <Entry>(write: (entries: readonly Entry[]) => Promise<void>, what: string) =>
    createBatcher<Entry>({
      write,
      maxItems: batchItems,
      onError: trouble(what),
      retryMs: backoffMs,
      signal: stopping.signal,
    })
  const settle = batched<Settled<Item, Result>>(options.settle, 'results cannot be written yet')
  const giveBack = batched<Held>(async (all) => {
    for (const [member, ended] of Map.groupBy(all, (lease) => lease.member)) {
      // Of a connection that is gone the leases are swept.
      if (member.session.ended.aborted) continue
      const rows = ended.map(({ owner, memory, holdUntilMs }) => ({
        owner,
        memory,
        holdUntil: holdUntilMs === null ? null : isoTime(holdUntilMs),
      }))
      await leases.release(member.db, member.worker, rows)
    }
  }, 'owners cannot be given back yet')

  const mayDecide = (): boolean => clockGuard === undefined || clockGuard.problem() === null
  const mayStart = (lease: Held): boolean =>
    !stopping.signal.aborted &&
    !lease.member.session.ended.aborted &&
    monotonicMs() <= lease.startUntilMs &&
    mayDecide() &&
    (lease.holdUntilMs === null || lease.holdUntilMs <= clock())
  const atOnce = (lease: Held): number => options.atOnce?.(lease) ?? limits.perOwner

  /** Its result cannot be written: what is due of its owner besides must not wait for it, nor be done in a circle. */
  const putOff = async (item: Item, error: unknown): Promise<void> => {
    trouble('the result of an item cannot be written: it is put off')(error)
    const waitMs = Math.min(longestPostponedMs, postponedMs * 2 ** Math.min(item.attempts, 10))
    await leases.postpone(pool, item, isoTime(clock() + waitMs))
  }

  const workOn = async (lease: Held, item: Item): Promise<void> => {
    const slot = await slots.acquire()
    let result: Result
    try {
      // It waited for its place: what is not started in time goes back untouched.
      if (!mayStart(lease)) return
      result = await options.work(item, lease, lease.waiting)
    } finally {
      slot.release()
    }
    try {
      await settle({ item, result })
    } catch (error) {
      if (isTemporary(error)) throw error
      return putOff(item, error)
    }
    metrics?.ended(queue.name, options.outcomeOf(result))
    await options.settled?.(item, result, lease)
  }

  const start = (lease: Held, item: Item): void => {
    const key = keyOf(queue, item)
    lease.running.add(key)
    void workOn(lease, item)
      .catch((error) => {
        trouble('an item was left and is tried again')(error)
        lease.holdUntilMs = clock() + backoffMs
      })
      .finally(() => {
        lease.running.delete(key)
        goOn(lease)
      })
  }

  const end = async (lease: Held): Promise<void> => {
    lease.ended = true
    try {
      await giveBack(lease)
    } catch (error) {
      trouble('an owner was not given back and is free when its lease is over')(error)
    }
    held.delete(lease)
    lease.over.resolve()
    if (lease.full || room() > 0) wake()
  }

  const goOn = (lease: Held): void => {
    while (lease.waiting.length > 0 && lease.running.size < atOnce(lease) && mayStart(lease))
      start(lease, lease.waiting.shift()!)
    if (lease.running.size === 0) void end(lease)
  }

  /** Enough places for a claim to be worth its round trips, or nothing else to wait for. */
  const room = (): number => {
    const free = slots.free()
    return free >= limits.active / 4 || held.size === 0 ? free : 0
  }

  const leaseOf = (
    member: Membership,
    { owner, since, memory }: ClaimedOwner,
    context: Context,
    startUntilMs: number,
  ): Held => ({
    owner,
    since,
    memory: memory as Memory | null,
    holdUntilMs: null,
    context,
    member,
    startUntilMs,
    waiting: [],
    running: new Set(),
    full: false,
    ended: false,
    over: Promise.withResolvers(),
  })

  /** Claims owners that have something to do and takes more of those that have a place free. Gives how many it claimed. */
  const take = async (member: Membership, owners: number): Promise<number> => {
    const { db, worker } = member
    const now = isoTime(clock())
    const startUntilMs = monotonicMs() + startMs
    const leaseMs = startMs + longestMs + marginMs
    // Of these a result may not be written yet, under a lease that was lost with its connection.
    const except = [...held].map(({ owner }) => owner)
    const claimed = await leases.claim(db, { worker, now, owners, leaseMs, except })
    let fresh: readonly Held[] = []
    try {
      const hungry = [...held].filter(
        (lease) =>
          lease.member === member &&
          !lease.ended &&
          lease.waiting.length === 0 &&
          lease.running.size < atOnce(lease) &&
          mayStart(lease),
      )
      if (claimed.length + hungry.length === 0) return 0
      // What ends while they are read is pending in what is read.
      const before = new Map(hungry.map((lease) => [lease, new Set(lease.running)]))
      const found = await leases.due(db, [...claimed, ...hungry], { now, limit: limits.perLease })
      if (claimed.length > 0) {
        const contextOf = await options.prepare(
          db,
          claimed.map(({ owner }) => owner),
        )
        fresh = claimed.map((each) => leaseOf(member, each, contextOf(each.owner), startUntilMs))
      }
      for (const lease of fresh) held.add(lease)
      for (const lease of [...fresh, ...hungry]) {
        if (lease.ended) continue
        const due = found.get(lease.owner) ?? []
        lease.waiting.push(...due.filter((item) => !before.get(lease)?.has(keyOf(queue, item))))
        lease.full = due.length === limits.perLease
        goOn(lease)
      }
      return claimed.length
    } catch (error) {
      const back = claimed.map(({ owner, memory }) => ({ owner, memory, holdUntil: null }))
      if (back.length > 0) await leases.release(db, worker, back)
      throw error
    }
  }

  /** A race for each look would leave as many listeners at what never comes; so there is one only while nobody joined. */
  const joined = async (): Promise<Membership> =>
    deps.member() ?? (await Promise.race([membership(), stopped.promise]))

  const round = async (): Promise<void> => {
    if (!mayDecide()) return
    const nowMs = monotonicMs()
    if (options.fill && nowMs - filledAtMs >= pollMs) {
      filledAtMs = nowMs
      await options.fill()
    }
    while (!stopping.signal.aborted) {
      const owners = room()
      if (owners === 0) return
      const claimed = await take(await joined(), owners)
      if (claimed > 0) busyUntilMs = monotonicMs() + busyMs
      // After a full claim there may be more.
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

  const wake = (): void => {
    busyUntilMs = monotonicMs() + busyMs
    woken = true
    endPause?.()
  }

  /** Until the next look, or until something tells of work. */
  const pause = (): Promise<void> =>
    new Promise((resolve) => {
      if (woken) return resolve()
      const ms = monotonicMs() < busyUntilMs ? Math.min(pollMs, busyPollMs) : pollMs
      const timer = setTimeout(() => endPause?.(), ms)
      endPause = () => {
        endPause = null
        clearTimeout(timer)
        resolve()
      }
    })

  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      woken = false
      try {
        await inTurn()
        await pause()
      } catch (error) {
        if (stopping.signal.aborted) return
        trouble('a queue cannot be looked at and is looked at again')(error)
        await sleep(backoffMs, undefined, { signal: stopping.signal }).catch(() => undefined)
      }
    }
  }
  const looping = loop()

  const runNow = (): Promise<void> => {
    filledAtMs = Number.NEGATIVE_INFINITY
    return inTurn()
  }
  return {
    wake,
    runNow,
    drain: async () => {
      for (;;) {
        await runNow()
        if (held.size === 0) return
        await Promise.all([...held].map(({ over }) => over.promise))
      }
    },
    inFlight: () => [...held].reduce((sum, { running: { size } }) => sum + size, 0),
    stop: async () => {
      const reason = new Error(`the queue ${queue.name} stops`)
      stopping.abort(reason)
      stopped.reject(reason)
      wake()
      await looping
      await running
      await Promise.all([...held].map(({ over }) => over.promise))
    },
  }
}
