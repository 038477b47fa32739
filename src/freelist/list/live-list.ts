import type { Logger } from 'pino'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { IpData } from '../ip-data/ip-data.ts'
import type { Endpoint, Place } from '../record/endpoint.ts'
import { placeText } from '../record/endpoint.ts'
import type { MarkedPlace } from '../record/read.ts'
import { byWorth, entryOf, type ListEntry } from './entry.ts'
import { type Snapshot, snapshotOf } from './snapshot.ts'

/** What is served is read again once it is so old, while it is served. */
const refreshAfterMs = 1_000
/** Nothing older is served: who asks then waits for it to be read. */
const oldestMs = 3_000
/** Everything is read anew: the 24 hours of an uptime go on while nothing else of its row changes. */
const wholeEveryMs = 60_000
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

/** How the list reads the record. */
export type LiveReader = {
  /** All that answered their last check, with what tells one version of a row from the next. */
  marks(): Promise<readonly MarkedPlace[]>
  /** Some endpoints whole; their uptimes are of the 24 hours before this instant. */
  places(places: readonly Place[], nowMs: number): Promise<readonly Endpoint[]>
}

type Row = { readonly mark: string; readonly entry: ListEntry; readonly exitIp: string | null }

const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * The proxies that answered their last check, in memory. They are read when somebody asks and the last reading is old,
 * and of them only what changed; a service that nobody asks reads nothing.
 */
export const createLiveList = (deps: {
  readonly reader: LiveReader
  readonly data: IpData
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
}): LiveList => {
  const { reader, data, clock, monotonicMs, logger } = deps
  let rows: ReadonlyMap<string, Row> = new Map()
  let held: { readonly snapshot: Snapshot; readonly readMs: number } | null = null
  let wholeMs = Number.NEGATIVE_INFINITY
  let reading: Promise<Snapshot> | null = null

  /** The rows of `marks`, those that stayed as they were. */
  const readRows = async (
    marks: readonly MarkedPlace[],
    known: ReadonlyMap<string, Row>,
  ): Promise<ReadonlyMap<string, Row>> => {
    const next = new Map<string, Row>()
    const changed = new Map<string, MarkedPlace>()
    for (const marked of marks) {
      const key = placeText(marked)
      const row = known.get(key)
      if (row?.mark === marked.mark) next.set(key, row)
      else changed.set(key, marked)
    }
    const endpoints = changed.size === 0 ? [] : await reader.places([...changed.values()], clock())
    for (const [at, endpoint] of endpoints.entries()) {
      if (at % lookUpsAtOnce === lookUpsAtOnce - 1) await pause()
      const key = placeText(endpoint)
      // It stopped answering in this moment.
      if (endpoint.state !== 'live') continue
      const entry = entryOf(endpoint, await data.of(endpoint.ip))
      next.set(key, { mark: changed.get(key)!.mark, entry, exitIp: endpoint.exitIp })
    }
    return next
  }

  const isSame = (next: ReadonlyMap<string, Row>): boolean =>
    next.size === rows.size && [...next].every(([key, row]) => rows.get(key) === row)

  const read = async (): Promise<Snapshot> => {
    const readMs = monotonicMs()
    const whole = readMs - wholeMs >= wholeEveryMs
    const next = await readRows(await reader.marks(), whole ? new Map() : rows)
    if (whole) wholeMs = readMs
    const snapshot = held !== null && isSame(next) ? held.snapshot : made([...next.values()])
    rows = next
    held = { snapshot, readMs }
    return snapshot
  }

  const made = (all: readonly Row[]): Snapshot =>
    snapshotOf(
      all.map(({ entry }) => entry).sort(byWorth),
      new Set(all.flatMap(({ exitIp }) => exitIp ?? [])),
      data.note,
    )

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
