import { LRUCache } from 'lru-cache'
import type { Fold, StreamRef } from '../../kernel/decider.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { RunnerLimits } from './runner-ports.ts'

// biome-ignore lint/suspicious/noExplicitAny: the runner treats states as opaque
export type AnyFold = Fold<any, any>

/** A stream's state as of one of its events: an immutable value. Revision -1 is a stream that does not exist. */
export type FoldPoint = {
  readonly revision: number
  readonly state: unknown
  readonly recordedAtMs: number
  /** The event at `revision`; empty at -1. */
  readonly eventId: string
}

/** What this process knows of one stream, and what is going on with it. */
export type Slot = {
  readonly stream: StreamName
  readonly fold: AnyFold
  /** What is known to be in the log; null before the first look. */
  point: FoldPoint | null
  /** The log was seen to end at `point` at this tick or later. */
  verifiedAt: number
  /** A decision needs `verifiedAt` beyond this tick: set when the point turned out to be old. */
  readAfter: number
  /** A batch that contains the stream is in flight; nothing else may be decided on it. */
  busy: boolean
  /** … and its outcome is unknown. */
  blocked: boolean
  /** Commands and batches that hold the slot. */
  users: number
  snapshotRevision: number
  /** Where the stream was when its last snapshot was asked for, which may have failed, or be on its way. */
  snapshotAskedRevision: number
  /** When that was, monotonic milliseconds. */
  snapshotAtMs: number
  /** Stored snapshots of this stream tell of a history that the log does not have. */
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

/** A slot of which nothing is known yet. */
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
  snapshotAskedRevision: -1,
  snapshotAtMs: Number.NEGATIVE_INFINITY,
  ignoreSnapshots: false,
})

/** Never 0, so that a state without entries has its place in the count too. */
const entriesOf = (slot: Slot): number =>
  1 + (slot.point === null ? 0 : (slot.fold.snapshot?.entries(slot.point.state) ?? 0))

export type Slots = {
  /** The slot of a stream, held until `drop`. @throws when another fold was used on the stream: a bug. */
  acquire(ref: StreamRef<unknown>): Slot
  release(slot: Slot): void
  /** Slots that are kept, in use or not. */
  size(): number
  /** Those of them that snapshots are taken of, and that nobody uses. */
  idle(): readonly Slot[]
}

/**
 * V8 links each table that a Map outgrows to the next one, so that one old table holds all that ever stood in those after
 * it until the old generation is collected: thousands of commands a second. A new Map begins a new chain.
 */
const renewAfter = 256

/**
 * The fold cache. A slot in use is always there; unused ones stay as long as they fit, the least recently used go first.
 */
export const createSlots = (
  limits: Pick<RunnerLimits, 'cacheStreams' | 'cacheEntries' | 'cacheShortStreams' | 'cacheOnceStreams'>,
): Slots => {
  let active = new Map<StreamName, Slot>()
  let wakes = 0
  const long = new LRUCache<StreamName, Slot>({
    max: limits.cacheStreams,
    maxSize: limits.cacheEntries,
    sizeCalculation: entriesOf,
  })
  const short = new LRUCache<StreamName, Slot>({ max: limits.cacheShortStreams })
  // An order is decided on once: thousands of them a second must push nothing else out, nor grow old in memory.
  const once = new LRUCache<StreamName, Slot>({ max: limits.cacheOnceStreams })
  const idleOf = ({ fold }: { readonly fold: AnyFold }) => {
    if (fold.usedOnce) return once
    return fold.snapshot === undefined ? short : long
  }

  const wake = (ref: StreamRef<unknown>): Slot => {
    if (++wakes % renewAfter === 0) active = new Map(active)
    // All are looked at: a stream that is used with two folds is a bug, and must not pass for two streams.
    const cached = once.get(ref.stream) ?? short.get(ref.stream) ?? long.get(ref.stream)
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
      const slot = active.get(ref.stream) ?? wake(ref)
      slot.users++
      if (slot.fold === ref.fold) return slot
      release(slot)
      throw new Error(`stream ${ref.stream} is used with two folds, ${slot.fold.name} and ${ref.fold.name}`)
    },
    release,
    idle: () => [...long.values()],
    size: () => active.size + long.size + short.size + once.size,
  }
}
