import type { StreamName } from '../../../terms/streams.ts'
import type { AppendItem } from '../port.ts'

export const maxBatchItems = 200
export const maxBatchBytes = 524_288

export type Waiting = { readonly item: AppendItem; readonly bytes: number }

/**
 * Takes the next batch off a queue, in order of arrival: at most 200 items and 512 KiB (one item may be larger and then
 * goes alone). An item that shares a stream with one before it, taken or not, waits: so each stream keeps its order and
 * the items of a batch are disjoint.
 */
export const cutBatch = <Each extends Waiting>(queue: readonly Each[]): { batch: Each[]; rest: Each[] } => {
  const batch: Each[] = []
  const rest: Each[] = []
  const taken = new Set<StreamName>()
  let bytes = 0
  for (const [index, waiting] of queue.entries()) {
    const full = batch.length === maxBatchItems || (batch.length > 0 && bytes + waiting.bytes > maxBatchBytes)
    if (full) return { batch, rest: rest.concat(queue.slice(index)) }
    const { appends } = waiting.item
    const waits = appends.some(({ stream }) => taken.has(stream))
    for (const { stream } of appends) taken.add(stream)
    if (waits) {
      rest.push(waiting)
      continue
    }
    batch.push(waiting)
    bytes += waiting.bytes
  }
  return { batch, rest }
}
