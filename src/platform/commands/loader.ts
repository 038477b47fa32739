import type { StreamName } from '../../kernel/streams.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import { LogUnavailable, withTimeout } from '../eventstore/errors.ts'
import type { EventLog, StoredEvent } from '../eventstore/port.ts'
import { advance, emptyPoint, type FoldPoint, type Slot } from './fold-cache.ts'
import { asError } from './pending-command.ts'
import type { CommandRunnerDeps, RunnerLimits, Snapshot, SnapshotStore } from './runner-ports.ts'

/** `log`: the log did not answer. `fold`: it did, and the events could not be folded. */
export type LoadFailure = { readonly slot: Slot; readonly kind: 'log' | 'fold'; readonly error: Error }

export type Loader = {
  /** Has the slot read in the background, together with all others that wait. */
  want(slot: Slot): void
  /** Reads the tails of the slots now. What it returns could not be read or folded; the rest is up to date. */
  read(slots: readonly Slot[]): Promise<readonly LoadFailure[]>
  /** Reads under way in the background. */
  underWay(): number
}

type LoaderDeps = Pick<CommandRunnerDeps, 'logger'> & {
  readonly log: Pick<EventLog, 'readStreams' | 'logId'>
  readonly codec: Pick<EventCodec, 'decode'>
  readonly snapshots?: SnapshotStore | undefined
  readonly limits: RunnerLimits
  readonly nextTick: () => number
  /** A slot was brought up to date. */
  readonly onLoaded: (slot: Slot) => void
  /** A background read ended: what waits may go on. */
  readonly onRead: (failures: readonly LoadFailure[]) => void
}

/** How far a slot is read: from here on; `snapshot` is where it began, if it began with one. */
type Reading = { readonly slot: Slot; readonly snapshot?: FoldPoint | undefined; readonly from: FoldPoint }

/** Brings slots up to the log: the snapshot where nothing is known yet, then the tail, a page of each stream at a time. */
export const createLoader = (deps: LoaderDeps): Loader => {
  const { log, codec, limits, logger, snapshots } = deps
  const wanted = new Set<Slot>()
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

  /** Snapshots by stream. That there is no store, no snapshot or no answer only means that more events are read. */
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

  const take = (slot: Slot, point: FoldPoint): void => {
    if (slot.point === null || point.revision >= slot.point.revision) slot.point = point
  }

  const publish = (slot: Slot, point: FoldPoint, tick: number): void => {
    take(slot, point)
    slot.verifiedAt = Math.max(slot.verifiedAt, tick)
  }

  /** More is to be read: what is known is kept, so that a read that fails goes on from there, and decided on by nobody. */
  const keep = (slot: Slot, point: FoldPoint, tick: number): void => {
    take(slot, point)
    slot.readAfter = Math.max(slot.readAfter, tick)
  }

  /** The tail starts with the snapshot's own event: another id there means that the snapshot is of another history. */
  const isOfThisLog = (point: FoldPoint, events: readonly StoredEvent[]): boolean =>
    events[0]?.revision === point.revision && events[0].id === point.eventId

  /** The state after the tail. @throws when the events cannot be folded, or say otherwise than the snapshot before them */
  const foldFrom = (
    slot: Slot,
    snapshot: FoldPoint | undefined,
    from: FoldPoint,
    tail: readonly StoredEvent[],
  ) => {
    const { agrees } = slot.fold.snapshot ?? {}
    if (snapshot && agrees && !agrees(snapshot.state, codec.decode(tail[0]!)))
      throw new Error(`a snapshot is not what the event ${snapshot.eventId} of ${slot.stream} left`)
    return foldTail(slot, from, tail)
  }

  const inTime = <Value>(answer: Promise<Value>, what: string): Promise<Value> =>
    withTimeout(
      answer,
      limits.readTimeoutMs,
      () => new LogUnavailable(`${what} took longer than ${limits.readTimeoutMs} ms`),
    )

  const read = async (slots: readonly Slot[]): Promise<readonly LoadFailure[]> => {
    const failures: LoadFailure[] = []
    const strangers: Slot[] = []
    let unread: readonly Reading[] = slots.map((slot) => ({ slot, from: emptyPoint(slot.fold) }))

    const doWithout = (slot: Slot, warning: string, err?: unknown): void => {
      logger.warn({ stream: slot.stream, ...(err !== undefined && { err }) }, warning)
      slot.ignoreSnapshots = true
      slot.point = null
      strangers.push(slot)
    }

    /** Folds one page of a stream. Returns where to read on, or null when nothing is left to read. */
    const takePage = (reading: Reading, page: readonly StoredEvent[], tick: number): Reading | null => {
      const { slot, snapshot, from } = reading
      if (snapshot === from && !isOfThisLog(snapshot, page)) {
        doWithout(slot, 'a snapshot of another history is ignored')
        return null
      }
      try {
        const point = foldFrom(slot, snapshot === from ? snapshot : undefined, from, page)
        if (page.length === limits.readEvents) {
          keep(slot, point, tick)
          return { ...reading, from: point }
        }
        publish(slot, point, tick)
        if (snapshot) slot.snapshotRevision = Math.max(slot.snapshotRevision, snapshot.revision)
        deps.onLoaded(slot)
      } catch (thrown) {
        if (snapshot) doWithout(slot, 'a snapshot that the events do not bear out is ignored', thrown)
        else failures.push({ slot, kind: 'fold', error: asError(thrown) })
      }
      return null
    }

    try {
      const restored = await inTime(loadSnapshots(slots), 'reading snapshots')
      unread = slots.map((slot) => {
        const snapshot = slot.point === null ? restored.get(slot.stream) : undefined
        return { slot, snapshot, from: slot.point ?? snapshot ?? emptyPoint(slot.fold) }
      })
      while (unread.length > 0) {
        const tick = deps.nextTick()
        const tails = unread.map(({ slot: { stream }, snapshot, from }) => ({
          stream,
          from: snapshot === from ? from.revision : from.revision + 1,
        }))
        const pages = await inTime(log.readStreams(tails, limits.readEvents), 'reading streams')
        unread = unread.flatMap(
          (reading) => takePage(reading, pages.get(reading.slot.stream) ?? [], tick) ?? [],
        )
      }
    } catch (thrown) {
      const error = asError(thrown)
      const left = [...unread.map(({ slot }) => slot), ...strangers]
      return [...failures, ...left.map((slot) => ({ slot, kind: 'log' as const, error }))]
    }
    // At most once more: these slots take no snapshot now.
    return strangers.length > 0 ? [...failures, ...(await read(strangers))] : failures
  }

  const readInBackground = async (slots: readonly Slot[]): Promise<void> => {
    readsUnderWay++
    const failures = await read(slots)
    readsUnderWay--
    for (const slot of slots) reading.delete(slot)
    deps.onRead(failures)
    pump()
  }

  const pump = (): void => {
    while (readsUnderWay < limits.readsInFlight && wanted.size > 0) {
      const slots = [...wanted.values().take(limits.readStreams)]
      for (const slot of slots) {
        wanted.delete(slot)
        reading.add(slot)
      }
      void readInBackground(slots)
    }
  }

  let scheduled = false
  return {
    want(slot) {
      // A read under way may have begun too early for this command, which then asks again when it ends.
      if (reading.has(slot) || wanted.has(slot)) return
      wanted.add(slot)
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
