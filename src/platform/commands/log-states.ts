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

/** The state of a stream, and the revision of its last event; -1: it has none. */
export type LogState<State> = { readonly state: State; readonly revision: number }
/** By whom the stream is named, e.g. `acc_…`. */
export type LogStates<State> = (owner: string) => Promise<LogState<State>>

/** … and the position of that event in the log; 0: there is none. */
type PlacedState<State> = LogState<State> & { readonly position: number }
export type StreamStates = <State>(ref: StreamRef<State>) => Promise<PlacedState<State>>

type StreamStatesOptions = {
  /** States that are kept; the least recently used go first. */
  readonly maxKept?: number | undefined
  /** Where a long stream is read from; left out: from its first event. */
  readonly snapshots?: {
    readonly store: SnapshotStore
    readonly logId: EventLog['logId']
    readonly logger: RunnerLogger
  }
  /** What a stream that was read before is answered with while the log is away; left out: its state as it was. */
  readonly whileAway?: 'error'
}

type Kept = Slot & { position: number }

const codec = createCodec()
const silent: RunnerLogger = { warn: () => undefined, error: () => undefined }

/**
 * The states of streams as the log has them now. What a key or a person may do is read here and not in the read tables,
 * which whoever may write to the database can change.
 *
 * Each state is kept, so that a read fetches only the events since the last one; all who ask at once share one query. It
 * needs no command: a process whose clock is wrong may decide nothing, and still knows who asks.
 * @throws what the log throws, of a stream that was never read here
 */
export const createStreamStates = (
  log: Pick<EventLog, 'readStreams'>,
  { maxKept = 20_000, snapshots, whileAway }: StreamStatesOptions = {},
): StreamStates => {
  const kept = new LRUCache<StreamName, Kept>(growingCacheOptions(maxKept))
  let ticks = 0

  const load = createBatchLoader<Kept, PlacedState<unknown> | Error>(async (slots) => {
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
      logger: snapshots?.logger ?? silent,
      snapshots: snapshots?.store,
      limits: defaultLimits,
      nextTick: () => ++ticks,
      onLoaded: () => undefined,
      onRead: () => undefined,
    })
    const failures = new Map((await loader.read(slots)).map(({ slot, error }) => [slot, error]))
    const answerOf = (slot: Kept): PlacedState<unknown> | Error => {
      const error = failures.get(slot)
      if (error && (whileAway === 'error' || slot.verifiedAt === 0)) return error
      if (!error) slot.position = positions.get(slot.stream) ?? slot.position
      const { state, revision } = pointOf(slot)
      return { state, revision, position: slot.position }
    }
    return new Map(slots.map((slot) => [slot, answerOf(slot)]))
  })

  const slotOf = (ref: StreamRef<unknown>): Kept => {
    const before = kept.get(ref.stream)
    if (before) return before
    const slot = { ...newSlot(ref), position: 0 }
    kept.set(ref.stream, slot)
    return slot
  }

  return async <State>(ref: StreamRef<State>) => {
    const found = (await load(slotOf(ref)))!
    if (found instanceof Error) throw found
    return found as PlacedState<State>
  }
}

/** The states of the streams of one kind. */
export const createLogStates = <State>(
  log: Pick<EventLog, 'readStreams'>,
  refOf: (owner: string) => StreamRef<State>,
  maxKept?: number,
): LogStates<State> => {
  const stateOf = createStreamStates(log, { maxKept })
  return (owner) => stateOf(refOf(owner))
}
