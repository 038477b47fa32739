import { isDeepStrictEqual } from 'node:util'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'

/** What the read tables hold of the log: all events up to this position. For a query that reads rows to compare. */
export const foldedThrough = `(select position from engine.checkpoints where name = 'hot') as folded_through`

/** A row of a read table, as a query with `foldedThrough` reads it. */
export type ComparedRow = { readonly folded_through: number | null }

/** What the log says, null: there is nothing any more; and the position of the last event that says so. */
export type LoggedFacts<Facts> = { readonly facts: Facts | null; readonly position: number }

type Known<Said, Facts> = {
  readonly said: Said | null
  readonly facts: Facts | null
  readonly readMs: number
  readonly reported: boolean
}

/** What of a row the log does not confirm. */
const differences = <Said extends object>(said: Said | null, facts: Said | null): readonly string[] => {
  if (said === null) return facts === null ? [] : ['the row says that it is over']
  if (facts === null) return ['the log has none']
  return Object.entries(said).flatMap(([name, value]) =>
    isDeepStrictEqual(value, facts[name as keyof Said]) ? [] : [name],
  )
}

/** A row that does not change is compared again after this time: somebody may keep it as it is while the log goes on. */
const compareEveryMs = 10_000
/** As for what was read from Postgres: leases last as long. */
const staleMs = 30_000

/**
 * Takes facts from the log, and from rows of a read table only that the log is to be read: SQL can change a row. The log
 * is read when something is first asked for, when its row changes, and after `compareEveryMs` beside the answer. A row that
 * says otherwise than the log, although it was written after the log's last event, is reported once.
 *
 * While the log does not answer, facts that were read before are used for `staleMs`; then it throws what the log throws.
 */
export const createComparison = <Row extends ComparedRow, Said extends object, Facts extends Said>(deps: {
  /** What a row describes, for the log line, e.g. `plan`. */
  readonly what: string
  readonly idOf: (row: Row) => string
  /** Null: there is nothing any more. */
  readonly saidBy: (row: Row) => Said | null
  /** May hold more than the row says. */
  readonly logged: (row: Row) => Promise<LoggedFacts<Facts>>
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'error'>
  readonly maxKept: number
}): ((row: Row) => Promise<Facts | null>) => {
  const { what, idOf, saidBy, logged, monotonicMs, logger } = deps
  const kept = new LRUCache<string, Known<Said, Facts>>(growingCacheOptions(deps.maxKept))
  const rereading = new Set<string>()

  const read = async (row: Row, said: Said | null): Promise<Facts | null> => {
    const id = idOf(row)
    const readMs = monotonicMs()
    const { facts, position } = await logged(row)
    const fields = (row.folded_through ?? 0) < position ? [] : differences<Said>(said, facts)
    const before = kept.get(id)
    const reported = before?.reported && isDeepStrictEqual(before.said, said)
    if (fields.length > 0 && !reported)
      logger.error({ id, fields }, `a row of a ${what} differs from the log: the log is used`)
    kept.set(id, { said, facts, readMs, reported: fields.length > 0 })
    return facts
  }

  const rereadBeside = (row: Row, said: Said | null): void => {
    const id = idOf(row)
    if (rereading.has(id)) return
    rereading.add(id)
    read(row, said)
      // The log does not answer: the next use asks again, and waits for it once the facts are old.
      .catch(() => undefined)
      .finally(() => rereading.delete(id))
  }

  return async (row) => {
    const said = saidBy(row)
    const known = kept.get(idOf(row))
    const ageMs = known ? monotonicMs() - known.readMs : Number.POSITIVE_INFINITY
    if (known && ageMs < staleMs && isDeepStrictEqual(known.said, said)) {
      if (ageMs >= compareEveryMs) rereadBeside(row, said)
      return known.facts
    }
    try {
      return await read(row, said)
    } catch (error) {
      if (known && ageMs < staleMs) return known.facts
      throw error
    }
  }
}
