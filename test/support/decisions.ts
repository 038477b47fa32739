import assert from 'node:assert/strict'
import type { Decision } from '../../src/kernel/decider.ts'
import type { DomainEvent } from '../../src/kernel/event.ts'

/** The facts of a decision that must not be refused. */
export const factsOf = <Event extends DomainEvent>(decision: Decision<Event, unknown>): readonly Event[] => {
  assert.ok(decision.outcome === 'decided', JSON.stringify(decision))
  return decision.events
}
