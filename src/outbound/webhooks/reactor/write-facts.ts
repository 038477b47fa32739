import { isoTime } from '../../../kernel/clock.ts'
import { newEventId } from '../../../kernel/ids.ts'
import { encode } from '../../../platform/eventstore/codec.ts'
import type { Actor, DomainEvent, EventMetadata } from '../../../platform/eventstore/event.ts'
import type { AppendItem, EventLog, Expected, ItemOutcome } from '../../../platform/eventstore/port.ts'
import type { StreamName } from '../../../terms/streams.ts'

/** Appends of one call; a cut that the log's own batches have too. */
const maxItems = 200

/** The outcome of a write that is looked at again after a conflict, or the error that ends the attempt. */
const assertWritten = (outcome: ItemOutcome): void => {
  if (outcome.status === 'landed' || outcome.status === 'conflict') return
  throw new Error(`the log did not take a webhook event: ${outcome.status}`, { cause: outcome.cause })
}

export type WriteFact = {
  readonly stream: StreamName
  readonly expected: Expected
  readonly facts: readonly DomainEvent[]
  readonly correlationId: string
  readonly causationId: string | null
  /** Left out: the service itself. */
  readonly actor?: Actor
  /** Not before what it follows in its stream. */
  readonly atMs: number
}

/**
 * Appends the facts of many streams at once. A conflict is an answer: somebody wrote there before.
 * @throws when the log is away; what landed before stays, and writing again conflicts there
 */
export const writeFacts = async (
  log: EventLog,
  writes: readonly WriteFact[],
): Promise<readonly ItemOutcome[]> => {
  const outcomes: ItemOutcome[] = []
  for (let from = 0; from < writes.length; from += maxItems) {
    const items = writes.slice(from, from + maxItems).map((write): AppendItem => {
      const metadata: EventMetadata = {
        correlationId: write.correlationId,
        causationId: write.causationId,
        actor: write.actor ?? { kind: 'system', name: 'webhooks' },
        recordedAt: isoTime(write.atMs),
      }
      const events = write.facts.map((fact) => encode(fact, metadata, newEventId()))
      return { appends: [{ stream: write.stream, expected: write.expected, events }] }
    })
    const written = await log.appendAll(items)
    for (const outcome of written) assertWritten(outcome)
    outcomes.push(...written)
  }
  return outcomes
}
