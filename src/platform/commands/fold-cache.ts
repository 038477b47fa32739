import { LRUCache } from 'lru-cache'
import type { Fold, StreamRef } from '../../kernel/decider.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import { withTimeout } from '../../kernel/every.ts'
import { asError } from '../../kernel/failures.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import { LogUnavailable } from '../eventstore/errors.ts'
import type { EventLog, StoredEvent } from '../eventstore/port.ts'
import type { CommandRunnerDependencies, RunnerLimits, Snapshot, SnapshotStore } from './command.ts'

// biome-ignore lint/suspicious/noExplicitAny: the runner treats states as opaque
type AnyFold = Fold<any, any>

/** A stream's state as of one of its events: an immutable value. Revision -1 is a stream that does not exist. */
export type FoldPoint = {
  readonly revision: number
  readonly state: unknown
  readonly recordedAtMs: number
  /** The event at `revision`; empty at -1. */
  readonly eventId: string
}

/** The cached state of one stream, and the work in progress on it. */
export type Slot = {
  readonly stream: StreamName
  readonly fold: AnyFold
  /** The state as of the last known event; null before the first read. */
  point: FoldPoint | null
  /** At this tick or later the stream ended at `point`. */
  verifiedAt: number
  /** A decision needs `verifiedAt` beyond this tick. Set when the point was outdated. */
  readAfter: number
  /** A batch in flight writes the stream: no other command may be decided on it. */
  busy: boolean
  /** The stream is busy and the outcome of its append is unknown. */
  blocked: boolean
  /** Commands and batches that use the slot. */
  users: number
  snapshotRevision: number
  /** The revision at which the last snapshot was requested. That snapshot may have failed or be in progress. */
  snapshotRequestRevision: number
  /** The time of that request, monotonic milliseconds. */
  snapshotAtMs: number
  /** The stored snapshots of this stream do not match the log. */
  ignoreSnapshots: boolean
}

/** The state of a stream without events. */
export const emptyPoint = (fold: AnyFold): FoldPoint => ({
  revision: -1,
  state: fold.initial,
  recordedAtMs: 0,
  eventId: '',
})

/** The state after one more event. */
export const advance = (
  fold: AnyFold,
  point: FoldPoint,
  event: DomainEvent,
  eventId: string,
  recordedAtMs: number,
): FoldPoint => {
  const revision = point.revision + 1
  return {
    revision,
    state: fold.evolve(point.state, { type: event.type, data: event.data, revision, recordedAtMs }),
    recordedAtMs: Math.max(recordedAtMs, point.recordedAtMs),
    eventId,
  }
}

/** A slot without a cached state. */
export const newSlot = (ref: StreamRef<unknown>): Slot => ({
  stream: ref.stream,
  fold: ref.fold,
  point: null,
  verifiedAt: 0,
  readAfter: 0,
  busy: false,
  blocked: false,
  users: 0,
  snapshotRevision: -1,
  snapshotRequestRevision: -1,
  snapshotAtMs: Number.NEGATIVE_INFINITY,
  ignoreSnapshots: false,
})

/** Never 0, so that the cache counts states without entries, too. */
const entriesOf = (slot: Slot): number =>
  1 + (slot.point === null ? 0 : (slot.fold.snapshot?.entries(slot.point.state) ?? 0))

export type Slots = {
  /**
   * The slot of a stream, in use until `release`.
   * @throws Error if another fold was used on the stream: a bug
   */
  acquire(ref: StreamRef<unknown>): Slot
  release(slot: Slot): void
  /** Cached slots, in use or not. */
  size(): number
  /** Cached slots that are not in use and whose fold has snapshots. */
  idle(): readonly Slot[]
}

/**
 * V8 links each outgrown table of a Map to the next one. So one old table prevents the collection of the entries of all
 * later ones until the old generation is collected: thousands of commands a second. A new Map starts a new chain.
 */
const renewAfter = 256

/** The fold cache. It never evicts slots in use. Of the others it evicts the least recently used. */
export const createSlots = (
  limits: Pick<RunnerLimits, 'cacheStreams' | 'cacheEntries' | 'cacheShortStreams' | 'cacheOnceStreams'>,
): Slots => {
  let active = new Map<StreamName, Slot>()
  let activations = 0
  const longCache = new LRUCache<StreamName, Slot>({
    max: limits.cacheStreams,
    maxSize: limits.cacheEntries,
    sizeCalculation: entriesOf,
  })
  const shortCache = new LRUCache<StreamName, Slot>({ max: limits.cacheShortStreams })
  // An order's stream is used once. Thousands of them a second must not evict others, nor reach the old generation.
  const onceCache = new LRUCache<StreamName, Slot>({ max: limits.cacheOnceStreams })
  const idleOf = ({ fold }: { readonly fold: AnyFold }) => {
    if (fold.usedOnce) return onceCache
    return fold.snapshot === undefined ? shortCache : longCache
  }

  const activate = (ref: StreamRef<unknown>): Slot => {
    if (++activations % renewAfter === 0) active = new Map(active)
    // Search all three, to detect the bug of one stream with two folds.
    const cached = onceCache.get(ref.stream) ?? shortCache.get(ref.stream) ?? longCache.get(ref.stream)
    if (cached) idleOf(cached).delete(ref.stream)
    const slot = cached ?? newSlot(ref)
    active.set(ref.stream, slot)
    return slot
  }

  const release = (slot: Slot): void => {
    slot.users--
    if (slot.users > 0) return
    active.delete(slot.stream)
    if (slot.point !== null) idleOf(slot).set(slot.stream, slot)
  }

  return {
    acquire(ref) {
      const slot = active.get(ref.stream) ?? activate(ref)
      slot.users++
      if (slot.fold === ref.fold) return slot
      release(slot)
      throw new Error(`stream ${ref.stream} is used with two folds, ${slot.fold.name} and ${ref.fold.name}`)
    },
    release,
    idle: () => [...longCache.values()],
    size: () => active.size + longCache.size + shortCache.size + onceCache.size,
  }
}

/** `log`: the log did not answer. `fold`: the events could not be folded. */
export type LoadFailure = { readonly slot: Slot; readonly kind: 'log' | 'fold'; readonly error: Error }

type Loader = {
  /** Reads the slot in the background, in one query with other waiting slots. */
  want(slot: Slot): void
  /** Reads the tails of the slots now. Returns the failures; all other slots are up to date. */
  read(slots: readonly Slot[]): Promise<readonly LoadFailure[]>
  /** Background reads in progress. */
  underWay(): number
}

type LoaderDependencies = Pick<CommandRunnerDependencies, 'logger'> & {
  readonly log: Pick<EventLog, 'readStreams' | 'logId'>
  readonly codec: Pick<EventCodec, 'decode'>
  readonly snapshots?: SnapshotStore | undefined
  readonly limits: RunnerLimits
  readonly nextTick: () => number
  /** A slot is up to date. */
  readonly onLoaded: (slot: Slot) => void
  /** A background read ended. */
  readonly onRead: (failures: readonly LoadFailure[]) => void
}

/** The progress of reading a slot: the next events follow `from`. `snapshot` is its first point, if it had one. */
type Reading = { readonly slot: Slot; readonly snapshot?: FoldPoint | undefined; readonly from: FoldPoint }

/** Reads slots: a snapshot if the state is unknown, then the events after it, one page of each stream at a time. */
export const createLoader = (dependencies: LoaderDependencies): Loader => {
  const { log, codec, limits, logger, snapshots } = dependencies
  const requestedSlots = new Set<Slot>()
  const reading = new Set<Slot>()
  let readsUnderWay = 0

  const restore = (slot: Slot, snapshot: Snapshot): FoldPoint | null => {
    const { fold } = slot
    try {
      if (!Number.isSafeInteger(snapshot.revision) || snapshot.revision < 0) throw new Error('no revision')
      const state: unknown = fold.snapshot!.fromText(snapshot.state)
      return {
        revision: snapshot.revision,
        state,
        recordedAtMs: snapshot.recordedAtMs,
        eventId: snapshot.eventId,
      }
    } catch (err) {
      logger.warn({ err, stream: slot.stream, fold: fold.name }, 'a corrupt snapshot is ignored')
      return null
    }
  }

  /** Snapshots by stream. Without a store, a snapshot or an answer, all events are read. */
  const loadSnapshots = async (slots: readonly Slot[]): Promise<ReadonlyMap<StreamName, FoldPoint>> => {
    const points = new Map<StreamName, FoldPoint>()
    const unknown = slots.filter(
      ({ point, fold, ignoreSnapshots }) => !point && fold.snapshot && !ignoreSnapshots,
    )
    if (snapshots === undefined || unknown.length === 0) return points
    try {
      const logId = await log.logId()
      const keys = unknown.map(({ stream, fold }) => ({
        stream,
        logId,
        fold: fold.name,
        version: fold.version,
      }))
      const found = new Map((await snapshots.load(keys)).map((snapshot) => [snapshot.stream, snapshot]))
      for (const slot of unknown) {
        const snapshot = found.get(slot.stream)
        if (!snapshot || snapshot.logId !== logId || snapshot.version !== slot.fold.version) continue
        const point = restore(slot, snapshot)
        if (point !== null) points.set(slot.stream, point)
      }
    } catch (err) {
      logger.warn(
        { err, streams: unknown.length },
        'snapshots could not be read; folding from the first event',
      )
    }
    return points
  }

  const foldTail = (slot: Slot, from: FoldPoint, events: readonly StoredEvent[]): FoldPoint => {
    let point = from
    for (const stored of events) {
      if (stored.revision <= point.revision) continue
      if (stored.revision !== point.revision + 1)
        throw new Error(
          `stream ${slot.stream} was read with a gap: ${stored.revision} after ${point.revision}`,
        )
      const event = codec.decode(stored)
      point = advance(slot.fold, point, event, event.id, Date.parse(event.metadata.recordedAt))
    }
    return point
  }

  const storePoint = (slot: Slot, point: FoldPoint): void => {
    if (slot.point === null || point.revision >= slot.point.revision) slot.point = point
  }

  const publish = (slot: Slot, point: FoldPoint, tick: number): void => {
    storePoint(slot, point)
    slot.verifiedAt = Math.max(slot.verifiedAt, tick)
  }

  /** Stores a page while more pages follow. A later read continues here; no command is decided on this state. */
  const storePartial = (slot: Slot, point: FoldPoint, tick: number): void => {
    storePoint(slot, point)
    slot.readAfter = Math.max(slot.readAfter, tick)
  }

  /** The tail starts with the snapshot's own event. Another id there means that the snapshot is of another log. */
  const isOfThisLog = (point: FoldPoint, events: readonly StoredEvent[]): boolean =>
    events[0]?.revision === point.revision && events[0].id === point.eventId

  /**
   * The state after the tail.
   * @throws Error if the events cannot be folded, or contradict the snapshot
   */
  const foldFrom = (
    slot: Slot,
    snapshot: FoldPoint | undefined,
    from: FoldPoint,
    tail: readonly StoredEvent[],
  ) => {
    const { agrees } = slot.fold.snapshot ?? {}
    if (snapshot && agrees && !agrees(snapshot.state, codec.decode(tail[0]!)))
      throw new Error(`the snapshot of ${slot.stream} contradicts its event ${snapshot.eventId}`)
    return foldTail(slot, from, tail)
  }

  const inTime = <Value>(answer: Promise<Value>, operation: string): Promise<Value> =>
    withTimeout(
      answer,
      limits.readTimeoutMs,
      () => new LogUnavailable(`${operation} took longer than ${limits.readTimeoutMs} ms`),
    )

  const read = async (slots: readonly Slot[]): Promise<readonly LoadFailure[]> => {
    const failures: LoadFailure[] = []
    const withoutSnapshot: Slot[] = []
    let pendingReads: readonly Reading[] = slots.map((slot) => ({ slot, from: emptyPoint(slot.fold) }))

    const ignoreSnapshot = (slot: Slot, warning: string, err?: unknown): void => {
      logger.warn({ stream: slot.stream, ...(err !== undefined && { err }) }, warning)
      slot.ignoreSnapshots = true
      slot.point = null
      withoutSnapshot.push(slot)
    }

    /** Folds one page of a stream. Returns the next page to read, or null at the end of the stream. */
    const takePage = (reading: Reading, page: readonly StoredEvent[], tick: number): Reading | null => {
      const { slot, snapshot, from } = reading
      if (snapshot === from && !isOfThisLog(snapshot, page)) {
        ignoreSnapshot(slot, 'a snapshot of another log is ignored')
        return null
      }
      try {
        const point = foldFrom(slot, snapshot === from ? snapshot : undefined, from, page)
        if (page.length === limits.readEvents) {
          storePartial(slot, point, tick)
          return { ...reading, from: point }
        }
        publish(slot, point, tick)
        if (snapshot) slot.snapshotRevision = Math.max(slot.snapshotRevision, snapshot.revision)
        dependencies.onLoaded(slot)
      } catch (thrown) {
        if (snapshot) ignoreSnapshot(slot, 'a snapshot that contradicts the events is ignored', thrown)
        else failures.push({ slot, kind: 'fold', error: asError(thrown) })
      }
      return null
    }

    try {
      const restored = await inTime(loadSnapshots(slots), 'reading snapshots')
      pendingReads = slots.map((slot) => {
        const snapshot = slot.point === null ? restored.get(slot.stream) : undefined
        return { slot, snapshot, from: slot.point ?? snapshot ?? emptyPoint(slot.fold) }
      })
      while (pendingReads.length > 0) {
        const tick = dependencies.nextTick()
        const tails = pendingReads.map(({ slot: { stream }, snapshot, from }) => ({
          stream,
          from: snapshot === from ? from.revision : from.revision + 1,
        }))
        const pages = await inTime(log.readStreams(tails, limits.readEvents), 'reading streams')
        pendingReads = pendingReads.flatMap(
          (reading) => takePage(reading, pages.get(reading.slot.stream) ?? [], tick) ?? [],
        )
      }
    } catch (thrown) {
      const error = asError(thrown)
      const unfinishedSlots = [...pendingReads.map(({ slot }) => slot), ...withoutSnapshot]
      return [...failures, ...unfinishedSlots.map((slot) => ({ slot, kind: 'log' as const, error }))]
    }
    // Recurses once at most: these slots now ignore snapshots.
    return withoutSnapshot.length > 0 ? [...failures, ...(await read(withoutSnapshot))] : failures
  }

  const readInBackground = async (slots: readonly Slot[]): Promise<void> => {
    readsUnderWay++
    const failures = await read(slots)
    readsUnderWay--
    for (const slot of slots) reading.delete(slot)
    dependencies.onRead(failures)
    pump()
  }

  const pump = (): void => {
    while (readsUnderWay < limits.readsInFlight && requestedSlots.size > 0) {
      const slots = [...requestedSlots.values().take(limits.readStreams)]
      for (const slot of slots) {
        requestedSlots.delete(slot)
        reading.add(slot)
      }
      void readInBackground(slots)
    }
  }

  let scheduled = false
  return {
    want(slot) {
      // A read in progress may have started too early for this command, which then requests another read.
      if (reading.has(slot) || requestedSlots.has(slot)) return
      requestedSlots.add(slot)
      if (scheduled) return
      scheduled = true
      queueMicrotask(() => {
        scheduled = false
        pump()
      })
    },
    read,
    underWay: () => readsUnderWay,
  }
}
