import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock, MonotonicClock } from '../../../kernel/clock.ts'
import { isoTime } from '../../../kernel/clock.ts'
import type { EventLog } from '../../../platform/eventstore/port.ts'
import { createBatcher } from '../../../platform/work/queue/batcher.ts'
import { createSlots } from '../../../platform/work/queue/slots.ts'
import type { Disabling } from '../events.ts'
import type { Sender } from '../sender.ts'
import type { WebhookValues } from '../vault.ts'
import { canceledResult, createAttempt, postponedResult } from './attempt.ts'
import { createClaim, type DueDelivery, type Lease, release, type Standing } from './claim.ts'
import { joinWorkers, type Membership, reapLeases } from './membership.ts'
import { createSettle, type Result } from './settle.ts'
import { afterAttempt, hopelessSince, isProven } from './standing.ts'

export type WorkerLimits = {
  /** Attempts that run at once; those that last longer than `slowAfterMs` count against `slow`. */
  readonly active: number
  readonly slow: number
  readonly slowAfterMs: number
  /** Attempts at one endpoint at once; one while its last attempt failed, or until its URL answered once. */
  readonly perEndpoint: number
  /** Deliveries of one endpoint that a lease takes up at most. */
  readonly perLease: number
}

const defaultWorkerLimits: WorkerLimits = {
  active: 64,
  slow: 2_000,
  slowAfterMs: 500,
  perEndpoint: 4,
  perLease: 32,
}

export type WorkerDeps = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly values: WebhookValues
  readonly sender: Sender
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly random: () => number
  readonly logger: Logger
  /** Groups of read models that must have passed a delivery before it is sent. */
  readonly groups: readonly string[]
  /** The receiver answered 410, or every attempt of days failed: its endpoint is to be disabled. */
  readonly onDead: (delivery: DueDelivery, why: Disabling) => Promise<void>
  readonly onAttempt?: (result: Result) => void
  readonly limits?: Partial<WorkerLimits>
}

export type DeliveryWorker = {
  /** There may be something to send. */
  wake(): void
  /** Finishes attempts under way, puts them on record, and gives its queues back. */
  stop(): Promise<void>
}

/** What is due is looked for this often when nothing tells of it, such as a retry or what another process enqueued. */
const pollMs = 500
/** For so long after something was there to be sent it is looked for more often: read models may have to pass it first. */
const busyMs = 2_000
const busyPollMs = 100
const reapMs = 1_000
const backoffMs = 1_000
/** No attempt starts later in a lease, so that the last one is over long before the lease is. */
const leaseStartMs = 15_000
const settleItems = 200

/**
 * Sends what is due. Any number of workers in any number of processes may run: each endpoint's queue is leased to one of
 * them at a time.
 */
export const startDeliveryWorker = (deps: WorkerDeps): DeliveryWorker => {
  const { pool, clock, monotonicMs, logger } = deps
  const limits = { ...defaultWorkerLimits, ...deps.limits }
  const stopping = new AbortController()
  const slots = createSlots(limits)
  const attempt = createAttempt(deps)
  let woken = Promise.withResolvers<void>()
  let busyUntilMs = 0

  const trouble =
    (what: string) =>
    (error: unknown): void =>
      logger.error({ err: error, reactor: 'webhook worker' }, what)
  const settle = createBatcher<Result>({
    write: createSettle(deps),
    maxItems: settleItems,
    onError: trouble('outcomes of webhooks cannot be written yet'),
    retryMs: backoffMs,
    signal: stopping.signal,
  })

  const attemptOne = async (lease: Lease, delivery: DueDelivery, state: LeaseState): Promise<void> => {
    const { destination } = lease
    if (destination === 'unreadable') return settle(postponedResult(delivery, clock()))
    if (destination === 'removed') return settle(canceledResult(delivery, clock()))
    const slot = await slots.acquire()
    let result: Result
    try {
      // It waited for its place: what is not started in time goes back untouched.
      if (stopping.signal.aborted || state.signal.aborted || monotonicMs() > state.startUntilMs) return
      result = await attempt(delivery, destination)
    } finally {
      slot.release()
    }
    const status = result.attempt?.status ?? 0
    const acknowledged = status >= 200 && status < 300
    state.standing = afterAttempt(state.standing, { urlId: lease.urlId, acknowledged, nowMs: result.atMs })
    deps.onAttempt?.(result)
    await settle(result)
    if (status === 410) return deps.onDead(delivery, { reason: 'gone' })
    const failingSince = hopelessSince(state.standing, result.atMs)
    if (failingSince !== null) await deps.onDead(delivery, { reason: 'failing', failingSince })
  }

  const runLease = async (lease: Lease, startUntilMs: number, signal: AbortSignal): Promise<LeaseState> => {
    const { endpointId, standing, urlId } = lease
    const state: LeaseState = { endpointId, standing, startUntilMs, signal }
    const rest = [...lease.deliveries]
    const lane = async (): Promise<void> => {
      for (let next = rest.shift(); next; next = rest.shift()) await attemptOne(lease, next, state)
    }
    if (typeof lease.destination === 'object' && !isProven(standing, urlId)) {
      const first = rest.shift()
      if (first) await attemptOne(lease, first, state)
      if (!isProven(state.standing, urlId)) return state
    }
    const lanes = state.standing.failures > 0 ? 1 : limits.perEndpoint
    await Promise.all(Array.from({ length: Math.min(lanes, rest.length) }, lane))
    return state
  }

  const pause = (ms: number, signal: AbortSignal): Promise<void> =>
    sleep(ms, undefined, { signal }).catch(() => undefined)

  const work = async ({ worker, db }: Membership, signal: AbortSignal): Promise<void> => {
    const claim = createClaim({ ...deps, db })
    const leases = new Set<Promise<void>>()
    const giveBack = createBatcher<LeaseState>({
      write: (states) => release(db, worker, states),
      maxItems: settleItems,
      onError: trouble('queues of webhooks cannot be given back yet'),
      retryMs: backoffMs,
      signal,
    })
    const run = async (lease: Lease): Promise<void> => {
      try {
        await giveBack(await runLease(lease, monotonicMs() + leaseStartMs, signal))
        if (lease.deliveries.length === limits.perLease) wake()
      } catch (error) {
        // Its lease runs out, and what it left open is sent again.
        trouble('a webhook queue was left')(error)
      }
    }
    /** Enough places for a claim to be worth its round trips, or nothing else to wait for. */
    const room = (): number => {
      const free = slots.free()
      return free >= limits.active / 4 || leases.size === 0 ? free : 0
    }
    try {
      while (!signal.aborted) {
        const endpoints = room()
        const claimed =
          endpoints === 0
            ? []
            : await claim({ worker, now: isoTime(clock()), endpoints, perEndpoint: limits.perLease })
        for (const lease of claimed) {
          const running = run(lease).finally(() => {
            leases.delete(running)
            if (room() > 0) wake()
          })
          leases.add(running)
        }
        // After a full claim there may be more.
        if (claimed.length > 0 && claimed.length === endpoints) continue
        if (claimed.length > 0) busyUntilMs = monotonicMs() + busyMs
        await Promise.race([woken.promise, pause(monotonicMs() < busyUntilMs ? busyPollMs : pollMs, signal)])
      }
    } finally {
      await Promise.all(leases)
    }
  }

  const wake = (): void => {
    busyUntilMs = monotonicMs() + busyMs
    woken.resolve()
    woken = Promise.withResolvers()
  }

  const reap = async ({ db }: Membership, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      await reapLeases(db)
        .then((count) => count > 0 && wake())
        .catch(trouble('leases of webhooks cannot be looked at'))
      await pause(reapMs, signal)
    }
  }

  const keepWorking = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      let joined: Membership | null = null
      try {
        joined = await joinWorkers(pool)
        const signal = AbortSignal.any([stopping.signal, joined.session.ended])
        await Promise.all([work(joined, signal), reap(joined, signal)])
      } catch (error) {
        trouble('the webhook worker failed and will try again')(error)
        await pause(backoffMs, stopping.signal)
      } finally {
        await joined?.session.close().catch(() => undefined)
      }
    }
  }

  const running = keepWorking()
  return {
    wake,
    stop: async () => {
      stopping.abort(new Error('the webhook worker stops'))
      wake()
      await running
    },
  }
}

type LeaseState = {
  readonly endpointId: string
  standing: Standing
  readonly startUntilMs: number
  readonly signal: AbortSignal
}
