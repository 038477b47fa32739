import type { BatchDone } from '../platform/projections/leadership.ts'
import { invariantGroup } from './invariants/invariants.ts'
import { type ViolationRow, violationsTable } from './invariants/violation.ts'

/** Positions after one and up to another. */
export type Range = { readonly after: number; readonly through: number }

/** A violation that this process found. */
export type FoundViolation = { readonly position: number; readonly eventId: string; readonly rule: string }

/**
 * What this process itself checked, and what it found, in its memory: no statement in the database can change it. It is about a
 * log in Postgres, whose positions have no gaps.
 */
export type CheckedEvents = {
  /** Events of a range were checked against the invariants, or against their signatures. */
  took(check: 'invariants' | 'signatures', range: Range, found: readonly FoundViolation[]): void
  /** A batch of read models was committed. */
  onBatch(batch: BatchDone): void
  /** How many events of a range were checked against both. */
  count(range: Range): number
  /** Of events up to a position. */
  found(through: number): readonly FoundViolation[]
  /** It was acknowledged. */
  forget(violation: FoundViolation): void
}

const keyOf = ({ position, rule }: FoundViolation): string => `${position} ${rule}`

const none: Range = { after: 0, through: 0 }

export const createCheckedEvents = (): CheckedEvents => {
  const checked = { invariants: none, signatures: none }
  const violations = new Map<string, FoundViolation>()
  const took: CheckedEvents['took'] = (check, range, found) => {
    const before = checked[check]
    // Another process checked what is between.
    checked[check] = range.after === before.through ? { ...before, through: range.through } : range
    for (const violation of found) violations.set(keyOf(violation), violation)
  }
  return {
    took,
    onBatch({ group, after, through, tables }) {
      if (group !== invariantGroup.name) return
      const changed = tables.find(({ table }) => table.name === violationsTable.name)
      const rows = (changed === undefined
        ? []
        : [...changed.inserted, ...changed.put]) as unknown as ViolationRow[]
      took(
        'invariants',
        { after, through },
        rows.map(({ position, event_id: eventId, rule }) => ({ position, eventId, rule })),
      )
    },
    count({ after, through }) {
      const { invariants, signatures } = checked
      const from = Math.max(after, invariants.after, signatures.after)
      return Math.max(0, Math.min(through, invariants.through, signatures.through) - from)
    },
    forget: (violation) => void violations.delete(keyOf(violation)),
    found: (through) => [...violations.values()].filter(({ position }) => position <= through),
  }
}
