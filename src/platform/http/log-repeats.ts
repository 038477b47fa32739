import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'

/** A trouble that lasts is told again this often, milliseconds. */
const againMs = 60_000

/** Troubles that are known apart; the one that was not met for longest is forgotten, and told when it is met again. */
const knownTroubles = 1_000

export type TroubleLine = Readonly<Record<string, unknown>> & { readonly err: Error }

/** What tells troubles apart: texts, so ids and names, never figures, which change from one try to the next. */
const identityOf = (level: number, message: unknown, { err, ...fields }: TroubleLine): string =>
  JSON.stringify([
    level,
    message,
    err.name,
    err.message,
    ...Object.entries(fields).filter(([, value]) => typeof value === 'string'),
  ])

/**
 * Whether a line about a trouble says something new. What is tried again several times a second fails as often during an
 * outage: its first line is told, then one a minute.
 */
export const createRepeats = (monotonicMs: MonotonicClock) => {
  const told = new LRUCache<string, { readonly atMs: number; leftOut: number }>({ max: knownTroubles })

  /** How many lines like this one were left out since the last that was told; null for one to leave out. */
  return (level: number, message: unknown, line: TroubleLine): number | null => {
    const identity = identityOf(level, message, line)
    const last = told.get(identity)
    const nowMs = monotonicMs()
    if (last !== undefined && nowMs - last.atMs < againMs) {
      last.leftOut += 1
      return null
    }
    told.set(identity, { atMs: nowMs, leftOut: 0 })
    return last?.leftOut ?? 0
  }
}
