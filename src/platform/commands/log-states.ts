import { LRUCache } from 'lru-cache'
import type { StreamRef } from '../../kernel/decider.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { decode } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import { createBatchLoader } from '../postgres/batch-loader.ts'
import { advance, emptyPoint, type FoldPoint } from './fold-cache.ts'

/** The state of a stream, and the revision of its last event; -1: it has none. */
export type LogState<State> = { readonly state: State; readonly revision: number }
/** By whom the stream is named, e.g. `acc_…`. */
export type LogStates<State> = (owner: string) => Promise<LogState<State>>

/**
 * The states of short streams as the log has them now. What a key or a person may do is read here and not in the read
 * tables, which whoever may write to the database can change.
 *
 * Each state is kept, so that a read fetches only the events since the last one; all who ask at once share one query. It
 * needs no command: a process whose clock is wrong may decide nothing, and still knows who asks. While the log is away, a
 * state that was read before is given as it was.
 * @throws what the log throws, of a stream that was never read here
 */
export const createLogStates = <State>(
  log: Pick<EventLog, 'readStreams'>,
  refOf: (owner: string) => StreamRef<State>,
  /** States that are kept; the least recently used go first. */
  maxKept = 20_000,
): LogStates<State> => {
  const kept = new LRUCache<StreamName, FoldPoint>(growingCacheOptions(maxKept))

  const load = createBatchLoader<string, LogState<State>>(async (owners) => {
    const refs = owners.map((owner) => ({ owner, ...refOf(owner) }))
    const points = new Map(refs.map(({ stream, fold }) => [stream, kept.get(stream) ?? emptyPoint(fold)]))
    const tails = refs.map(({ stream }) => ({ stream, from: points.get(stream)!.revision + 1 }))
    try {
      const read = await log.readStreams(tails)
      for (const { stream, fold } of refs) {
        let point = points.get(stream)!
        for (const stored of read.get(stream) ?? []) {
          if (stored.revision !== point.revision + 1)
            throw new Error(
              `stream ${stream} was read with a gap: ${stored.revision} after ${point.revision}`,
            )
          const event = decode(stored)
          point = advance(fold, point, event, event.id, Date.parse(event.metadata.recordedAt))
        }
        points.set(stream, point)
        kept.set(stream, point)
      }
    } catch (error) {
      if (refs.some(({ stream }) => !kept.has(stream))) throw error
    }
    return new Map(refs.map(({ owner, stream }) => [owner, points.get(stream)! as LogState<State>]))
  })
  return async (owner) => (await load(owner))!
}
