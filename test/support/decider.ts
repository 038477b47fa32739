import assert from 'node:assert/strict'
import type { Fold } from '../../src/kernel/decider.ts'
import type { DomainEvent } from '../../src/kernel/event.ts'

/** The forms of the results of decisions. Null is a refusal. */
type Result<Event> =
  | readonly Event[]
  | { readonly events: readonly Event[]; readonly answer?: unknown }
  | { readonly outcome: 'refused'; readonly refusal: unknown }
  | null

type Decide<State, Made> = (state: State, nowMs: number) => Made

/** A stream with its events so far. */
export type Given<State, Event extends DomainEvent> = {
  readonly state: State
  /** Sets the time of the events and decisions that follow. */
  at(nowMs: number): Given<State, Event>
  /** Adds these events, and those of these decisions. */
  given(...past: readonly (Event | Decide<State, Result<Event>>)[]): Given<State, Event>
  when<Made extends Result<Event>>(decide: Decide<State, Made>): When<State, Event, Made>
}

export type When<State, Event extends DomainEvent, Made> = {
  readonly result: Made
  /** Asserts exactly these events, each whole or only its type. Returns the stream with them. */
  thenEvents(
    ...expected: readonly (Event['type'] | { readonly type: Event['type']; readonly data: object })[]
  ): Given<State, Event>
  /** Asserts no event and this refusal, whole or only its code. */
  thenRefused(expected: unknown): void
}

/** The reason of a refusal; undefined if the decision is none. */
const refusalIn = (result: Result<unknown>): unknown => {
  if (result === null) return null
  if ('refusal' in result) return result.refusal
  const answer = 'answer' in result ? (result.answer as { outcome?: unknown } | null) : null
  if (answer?.outcome !== 'refused') return undefined
  const { outcome: _, ...refusal } = answer
  return refusal
}

/** The events of a decision that must not be refused. */
export const eventsOf = <Event>(result: Result<Event>): readonly Event[] => {
  assert.equal(refusalIn(result), undefined)
  if (result === null || 'refusal' in result) return []
  return 'events' in result ? result.events : result
}

const stream = <State, Event extends DomainEvent>(
  fold: Pick<Fold<State, Event>, 'evolve'>,
  state: State,
  revision: number,
  nowMs: number,
): Given<State, Event> => {
  const append = (events: readonly Event[]): Given<State, Event> => {
    const evolve = (before: State, event: Event, n: number) =>
      fold.evolve(before, { ...event, revision: revision + n, recordedAtMs: nowMs })
    return stream(fold, events.reduce(evolve, state), revision + events.length, nowMs)
  }
  const here: Given<State, Event> = {
    state,
    at: (ms) => stream(fold, state, revision, ms),
    given: (next, ...rest) => {
      if (next === undefined) return here
      return append(typeof next === 'function' ? eventsOf(next(state, nowMs)) : [next]).given(...rest)
    },
    when: (decide) => {
      const result = decide(state, nowMs)
      return {
        result,
        thenEvents: (...expected) => {
          const events = eventsOf<Event>(result)
          const shown = events.map((event, n) => (typeof expected[n] === 'string' ? event.type : event))
          assert.deepEqual(shown, expected)
          return append(events)
        },
        thenRefused: (expected) => {
          const refusal = refusalIn(result)
          const { code, reason } = (refusal ?? {}) as { code?: unknown; reason?: unknown }
          const byCode = typeof expected === 'string' && typeof refusal !== 'string'
          assert.deepEqual(byCode ? (code ?? reason) : refusal, expected)
          if (result !== null && 'events' in result) assert.deepEqual(result.events, [])
        },
      }
    },
  }
  return here
}

/** Tests of decisions as sentences: given a stream, when this is decided, then these events or this refusal. */
export const decider = <State, Event extends DomainEvent>(
  fold: Pick<Fold<State, Event>, 'initial' | 'evolve'>,
): Given<State, Event> => stream(fold, fold.initial, 0, 0)
