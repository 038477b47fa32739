import type { StreamName } from '../../../terms/streams.ts'
import { revisionBefore } from '../checks.ts'
import type { AppendItem } from '../port.ts'

/**
 * How far streams reach at least, from what one connection appended to them. Nothing is ever taken out of the log, so
 * what landed over a connection stands for as long as that connection lives: a log that was restored to an earlier
 * point has ended all of them.
 */
export type OwnTails = {
  /** Whether the stream is known to have this revision. */
  reaches(stream: StreamName, revision: number): boolean
  /** These landed. Streams that did not exist before are not remembered: most of them are hardly appended to again. */
  landed(items: readonly AppendItem[]): void
  /**
   * Another process appends to the stream too. From now on its end is looked up before each append: one that only the
   * index refuses leaves its rows in the table until they are vacuumed, and two processes would leave many.
   */
  contested(stream: StreamName): void
}

/** Of each kind; beyond that all are forgotten, and looked at once more. */
const maxStreams = 20_000

export const createOwnTails = (): OwnTails => {
  const tails = new Map<StreamName, number>()
  const shared = new Set<StreamName>()
  return {
    reaches: (stream, revision) => (tails.get(stream) ?? -1) >= revision,
    landed: (items) => {
      if (tails.size > maxStreams) tails.clear()
      for (const { appends } of items)
        for (const { stream, expected, events } of appends)
          if (expected !== 'noStream' && !shared.has(stream))
            tails.set(stream, revisionBefore(expected) + events.length)
    },
    contested: (stream) => {
      if (shared.size > maxStreams) shared.clear()
      tails.delete(stream)
      shared.add(stream)
    },
  }
}
