import { LRUCache } from 'lru-cache'
import type { StreamRef } from '../../kernel/decider.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { createCodec } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import { createBatchLoader } from '../postgres/batch-loader.ts'
import { defaultLimits, type RunnerLogger, type SnapshotStore } from './command.ts'
import { pointOf } from './command-queue.ts'
import { createLoader, newSlot, type Slot } from './fold-cache.ts'

/** The state of a stream, and the revision of its last event; -1 without events. */
type LogState<State> = { readonly state: State; readonly revision: number }
/** `owner`: the id that names the stream, e.g. `acc_…`. */
export type LogStates<State> = (owner: string) => Promise<LogState<State>>

/** Adds the position of that event in the log; 0 without events. */
type PlacedState<State> = LogState<State> & { readonly position: number }
export type StreamStates = <State>(ref: StreamRef<State>) => Promise<PlacedState<State>>

type StreamStatesOptions = {
  /** Maximum number of cached states. The least recently used state is evicted first. */
  readonly maxCached?: number | undefined
  /** Snapshots from which long streams are read. Without them a stream is read from its first event. */
  readonly snapshots?: {
    readonly store: SnapshotStore
    readonly logId: EventLog['logId']
    readonly logger: RunnerLogger
  }
  /**
   * `error`: during a log outage every read throws. Without it, a stream that was read before gives its cached state.
   */
  readonly whileAway?: 'error'
}

type CachedSlot = Slot & { position: number }

const codec = createCodec()
const silentLogger: RunnerLogger = { warn: () => undefined, error: () => undefined }

/**
 * Reads the current states of streams from the log. Permissions of keys and persons are read here and not from the read
 * tables, because anyone with write access to the database can change a read table.
 *
 * States are cached, so that a read fetches only the events since the last read. Concurrent reads share one query. A
 * read is not a command: a process with a wrong clock may not decide commands, but it can still authenticate callers.
 * @throws the error of the log, if the stream was never read by this process
 */
export const createStreamStates = (
  log: Pick<EventLog, 'readStreams'>,
  { maxCached = 20_000, snapshots, whileAway }: StreamStatesOptions = {},
): StreamStates => {
  const cachedSlots = new LRUCache<StreamName, CachedSlot>(growingCacheOptions(maxCached))
  let ticks = 0

  const load = createBatchLoader<CachedSlot, PlacedState<unknown> | Error>(async (slots) => {
    const positions = new Map<StreamName, number>()
    const loader = createLoader({
      log: {
        logId: async () => snapshots?.logId() ?? '',
        readStreams: async (tails, limitEach) => {
          const pages = await log.readStreams(tails, limitEach)
          for (const [stream, events] of pages) positions.set(stream, events.at(-1)!.position)
          return pages
        },
      },
      codec,
      logger: snapshots?.logger ?? silentLogger,
      snapshots: snapshots?.store,
      limits: defaultLimits,
      nextTick: () => ++ticks,
      onLoaded: () => undefined,
      onRead: () => undefined,
    })
    const failures = new Map((await loader.read(slots)).map(({ slot, error }) => [slot, error]))
    const answerOf = (slot: CachedSlot): PlacedState<unknown> | Error => {
      const error = failures.get(slot)
      if (error && (whileAway === 'error' || slot.verifiedAt === 0)) return error
      if (!error) slot.position = positions.get(slot.stream) ?? slot.position
      const { state, revision } = pointOf(slot)
      return { state, revision, position: slot.position }
    }
    return new Map(slots.map((slot) => [slot, answerOf(slot)]))
  })

  const slotOf = (ref: StreamRef<unknown>): CachedSlot => {
    const before = cachedSlots.get(ref.stream)
    if (before) return before
    const slot = { ...newSlot(ref), position: 0 }
    cachedSlots.set(ref.stream, slot)
    return slot
  }

  return async <State>(ref: StreamRef<State>) => {
    const found = (await load(slotOf(ref)))!
    if (found instanceof Error) throw found
    return found as PlacedState<State>
  }
}

/** Reads the current states of streams of one kind from the log. */
export const createLogStates = <State>(
  log: Pick<EventLog, 'readStreams'>,
  refOf: (owner: string) => StreamRef<State>,
  maxCached?: number,
): LogStates<State> => {
  const stateOf = createStreamStates(log, { maxCached })
  return (owner) => stateOf(refOf(owner))
}
