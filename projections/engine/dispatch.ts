import type { RecordedEvent } from '../../src/platform/eventstore/event.ts'
import type { ReadModel } from './read-model.ts'

/** Tells which models an event says something to, in their order. */
export type Dispatch<Model> = (event: Pick<RecordedEvent, 'type' | 'stream'>) => readonly Model[]

/** A log of ours has fewer types, each in one or two kinds of streams; a log of another may have any number. */
const mostKnown = 2_000

/** `ledger-` of `ledger-acc_…`; the whole name where nothing of it is an id. */
export const kindOfStream = (stream: string): string => stream.slice(0, stream.indexOf('-') + 1) || stream

export const createDispatch = <Model extends Pick<ReadModel, 'takes'>>(
  models: readonly Model[],
): Dispatch<Model> => {
  const known = new Map<string, Map<string, readonly Model[]>>()
  let count = 0
  return ({ type, stream }) => {
    const kind = kindOfStream(stream)
    const found = known.get(type)?.get(kind)
    if (found !== undefined) return found
    const asked = models.filter(
      ({ takes }) => takes === undefined || takes.types.has(type) || takes.streams?.has(kind),
    )
    if (count === mostKnown) {
      known.clear()
      count = 0
    }
    const ofType = known.get(type)
    if (ofType) ofType.set(kind, asked)
    else known.set(type, new Map([[kind, asked]]))
    count += 1
    return asked
  }
}
