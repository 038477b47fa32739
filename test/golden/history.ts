import type { OrderDetails } from '../../src/domain/shared/order-terms.ts'
import type { Appends, Fold } from '../../src/kernel/decider.ts'
import type { Actor, DomainEvent, EventMetadata } from '../../src/kernel/event.ts'
import type { StreamName } from '../../src/kernel/streams.ts'
import { appendTo, emptyWorld, stateOf, statesFor } from '../support/world.ts'

/** A stored event as a golden file keeps it: one JSON line, in the order of the log. */
export type GoldenEvent = {
  readonly id: string
  readonly stream: StreamName
  readonly revision: number
  readonly type: string
  readonly data: unknown
  readonly metadata: EventMetadata
}

const stepMs = 1_000

/** A log that is written by decisions, with times and ids that are the same in every run. */
export const createHistory = (startMs: number) => {
  let world = emptyWorld
  let nowMs = startMs
  let actor: Actor = { kind: 'system', name: 'golden' }
  const written: GoldenEvent[] = []

  /** Writes one decision's appends, or the first of them as a crash would leave them. */
  const write = (appends: Appends, limit = appends.length): void => {
    const metadata: EventMetadata = {
      correlationId: `req_${written.length}`,
      causationId: null,
      actor,
      recordedAt: new Date(nowMs).toISOString(),
    }
    for (const append of appends.slice(0, limit)) {
      const { stream } = append
      for (const { type, data } of append.events) {
        const number = (written.length + 1).toString(16).padStart(12, '0')
        const id = `00000000-0000-7000-8000-${number}`
        written.push({ id, stream, revision: world.get(stream)?.length ?? 0, type, data, metadata })
        world = appendTo(world, [{ stream, events: [{ type, data }] }], nowMs)
      }
    }
    nowMs += stepMs
  }

  return {
    written,
    write,
    fact: (stream: StreamName, ...events: readonly DomainEvent[]): void => write([{ stream, events }]),
    // biome-ignore lint/suspicious/noExplicitAny: a fold is handed only its own stream's events
    state: <State>(stream: StreamName, fold: Fold<State, any>): State => stateOf(world, stream, fold),
    states: (order: OrderDetails) => statesFor(world, order),
    /** Every event in `act` is caused by another actor. */
    by: (other: Actor, act: () => void): void => {
      const before = actor
      actor = other
      act()
      actor = before
    },
    now: (): number => nowMs,
    wait: (ms: number): void => {
      nowMs += ms
    },
  }
}

export type History = ReturnType<typeof createHistory>
