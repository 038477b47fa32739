import type { RecordedEvent } from '../../src/platform/eventstore/event.ts'

/**
 * The part of a batch that surely ends where a command ends. Events that share the correlation id of the last one are
 * left for the next batch, unless `next` (the event that follows, where it is known) shows that the command is over,
 * or nothing would be left.
 */
export const cutAtCommand = (
  events: readonly RecordedEvent[],
  next?: RecordedEvent,
): readonly RecordedEvent[] => {
  const last = events.at(-1)
  if (!last) return events
  const { correlationId } = last.metadata
  if (next && next.metadata.correlationId !== correlationId) return events
  const end = events.findLastIndex((event) => event.metadata.correlationId !== correlationId)
  return end === -1 ? events : events.slice(0, end + 1)
}
