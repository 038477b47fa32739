import type { Logger } from 'pino'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { IpData } from '../ip-data/ip-data.ts'
import type { Endpoint } from '../record/endpoint.ts'
import { byWorth, entryOf } from './entry.ts'
import { type Snapshot, snapshotOf } from './snapshot.ts'

/** What is served is read again once it is so old, while it is served. */
const refreshAfterMs = 1_000
/** Nothing older is served: who asks then waits for it to be read. */
const oldestMs = 3_000
/** A pause for other work of the process after so many look-ups. */
const lookUpsAtOnce = 500

export type LiveList = {
  /**
   * The list as it was at most three seconds ago.
   * Rejects when the record cannot be read.
   */
  current(): Promise<Snapshot>
  /** The same where it is at hand, else null. */
  latest(): Snapshot | null
}

const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * The proxies that answered their last check, in memory. They are read when somebody asks and the last reading is old;
 * a service that nobody asks reads nothing.
 */
export const createLiveList = (deps: {
  /** All that answered their last check; their uptimes are of the 24 hours before this instant. */
  readonly readLive: (nowMs: number) => Promise<readonly Endpoint[]>
  readonly data: IpData
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
}): LiveList => {
  const { readLive, data, clock, monotonicMs, logger } = deps
  let held: { readonly snapshot: Snapshot; readonly readMs: number } | null = null
  let reading: Promise<Snapshot> | null = null

  const read = async (): Promise<Snapshot> => {
    const readMs = monotonicMs()
    const endpoints = await readLive(clock())
    const entries = []
    for (const [at, endpoint] of endpoints.entries()) {
      if (at % lookUpsAtOnce === lookUpsAtOnce - 1) await pause()
      entries.push(entryOf(endpoint, await data.of(endpoint.ip)))
    }
    const exits = new Set(endpoints.flatMap(({ exitIp }) => exitIp ?? []))
    const snapshot = snapshotOf(entries.sort(byWorth), exits, data.note)
    held = { snapshot, readMs }
    return snapshot
  }

  const refresh = (): Promise<Snapshot> => {
    reading ??= read().finally(() => {
      reading = null
    })
    return reading
  }

  const latest = (): Snapshot | null => {
    const ageMs = held === null ? Number.POSITIVE_INFINITY : monotonicMs() - held.readMs
    if (held === null || ageMs > oldestMs) return null
    if (ageMs > refreshAfterMs && reading === null)
      refresh().catch((err) => logger.error({ err }, 'the live free proxies could not be read'))
    return held.snapshot
  }

  return { latest, current: async () => latest() ?? refresh() }
}
