import { isDeepStrictEqual } from 'node:util'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'

/** Caches rows of Postgres for a second, and longer while Postgres does not answer. */
export type CachedLookup<Key extends string, Value> = {
  /**
   * The value as of at most a second ago, or of half a minute while Postgres does not answer; null: there is none.
   * Rejects when Postgres does not answer and nothing is cached. Concurrent calls for one key share a query.
   * @param sinceMs by the monotonic clock: values read before are read again. Default: any fresh cached value is
   * returned
   */
  find(key: Key, sinceMs?: number): Promise<Value | null>
  /** Caches a value; `requestedMs` is the start of its query, by the monotonic clock. */
  store(key: Key, value: Value | null, requestedMs: number): void
}

const freshMs = 1_000
/** While Postgres or the log does not answer, milliseconds. Leases last as long. */
const staleMs = 30_000

export const createCachedLookup = <Key extends string, Value extends object>(dependencies: {
  readonly read: (key: Key) => Promise<Value | null>
  readonly max: number
  readonly monotonicMs: MonotonicClock
}): CachedLookup<Key, Value> => {
  const { read, monotonicMs } = dependencies
  const cachedValues = new LRUCache<Key, { readonly value: Value | null; readonly requestedMs: number }>({
    max: dependencies.max,
  })
  const runningQueries = new Map<
    Key,
    { readonly value: Promise<Value | null>; readonly requestedMs: number }
  >()

  const store = (key: Key, value: Value | null, requestedMs: number): void => {
    cachedValues.set(key, { value, requestedMs })
  }

  const readAndStore = async (key: Key, requestedMs: number): Promise<Value | null> => {
    const value = await read(key)
    store(key, value, requestedMs)
    return value
  }
  /** The running query if it began at `sinceMs` or later, else a new one. */
  const sharedQuery = (key: Key, sinceMs: number): Promise<Value | null> => {
    const existing = runningQueries.get(key)
    if (existing && existing.requestedMs >= sinceMs) return existing.value
    const requestedMs = monotonicMs()
    const started = { value: readAndStore(key, requestedMs), requestedMs }
    runningQueries.set(key, started)
    const removeIfCurrent = (): void => {
      if (runningQueries.get(key) === started) runningQueries.delete(key)
    }
    started.value.then(removeIfCurrent, removeIfCurrent)
    return started.value
  }

  return {
    store,
    find: async (key, sinceMs = Number.NEGATIVE_INFINITY) => {
      const cachedValue = cachedValues.get(key)
      const ageMs = cachedValue ? monotonicMs() - cachedValue.requestedMs : Number.POSITIVE_INFINITY
      if (cachedValue && ageMs < freshMs && cachedValue.requestedMs >= sinceMs) return cachedValue.value
      try {
        return await sharedQuery(key, sinceMs)
      } catch (error) {
        if (cachedValue && ageMs < staleMs) return cachedValue.value
        throw error
      }
    },
  }
}

/** The position up to which the read tables include the log. For queries that read rows to compare with the log. */
export const foldedThrough = `(select position from engine.checkpoints where name = 'hot') as folded_through`

/** A row of a read table, from a query with `foldedThrough`. */
export type ComparedRow = { readonly folded_through: number | null }

/** The facts of the log (null: the object no longer exists), and the position of the last event that they depend on. */
export type LoggedFacts<Facts> = { readonly facts: Facts | null; readonly position: number }

type CachedComparison<RowFacts, Facts> = {
  readonly rowFacts: RowFacts | null
  readonly facts: Facts | null
  readonly readMs: number
  readonly reported: boolean
}

/** The fields of a row that differ from the log. */
const differences = <RowFacts extends object>(
  rowFacts: RowFacts | null,
  facts: RowFacts | null,
): readonly string[] => {
  if (rowFacts === null) return facts === null ? [] : ['the row has ended']
  if (facts === null) return ['the log has none']
  return Object.entries(rowFacts).flatMap(([name, value]) =>
    isDeepStrictEqual(value, facts[name as keyof RowFacts]) ? [] : [name],
  )
}

/**
 * An unchanged row is compared again after this time, milliseconds: SQL may have prevented its update while the log
 * grew.
 */
const compareEveryMs = 10_000

/**
 * Takes facts from the log, because SQL can change a row of a read table. A row only triggers a read of the log: on
 * first use, when the row changes, and in the background after `compareEveryMs`. A row that differs from the log
 * although it was written after the log's last event is reported once.
 *
 * While the log does not answer, facts are used up to `staleMs` after they were read. Then the error of the log is
 * thrown.
 */
export const createComparison = <
  Row extends ComparedRow,
  RowFacts extends object,
  Facts extends RowFacts,
>(dependencies: {
  /** The object that a row describes, for the log line, such as `plan`. */
  readonly entity: string
  readonly idOf: (row: Row) => string
  /** Null: by the row the object no longer exists. */
  readonly rowFactsOf: (row: Row) => RowFacts | null
  /** May return more fields than the row has. */
  readonly readLog: (row: Row) => Promise<LoggedFacts<Facts>>
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'error'>
  readonly maxCached: number
}): ((row: Row) => Promise<Facts | null>) => {
  const { entity, idOf, rowFactsOf, readLog, monotonicMs, logger } = dependencies
  const comparisons = new LRUCache<string, CachedComparison<RowFacts, Facts>>(
    growingCacheOptions(dependencies.maxCached),
  )
  const rereading = new Set<string>()

  const read = async (row: Row, rowFacts: RowFacts | null): Promise<Facts | null> => {
    const id = idOf(row)
    const readMs = monotonicMs()
    const { facts, position } = await readLog(row)
    const fields = (row.folded_through ?? 0) < position ? [] : differences<RowFacts>(rowFacts, facts)
    const previous = comparisons.get(id)
    const reported = previous?.reported && isDeepStrictEqual(previous.rowFacts, rowFacts)
    if (fields.length > 0 && !reported)
      logger.error({ id, fields }, `a row of a ${entity} differs from the log: the log is used`)
    comparisons.set(id, { rowFacts, facts, readMs, reported: fields.length > 0 })
    return facts
  }

  const rereadInBackground = (row: Row, rowFacts: RowFacts | null): void => {
    const id = idOf(row)
    if (rereading.has(id)) return
    rereading.add(id)
    read(row, rowFacts)
      // The log does not answer. The next use reads again, and waits for the answer once the facts are stale.
      .catch(() => undefined)
      .finally(() => rereading.delete(id))
  }

  return async (row) => {
    const rowFacts = rowFactsOf(row)
    const cached = comparisons.get(idOf(row))
    const ageMs = cached ? monotonicMs() - cached.readMs : Number.POSITIVE_INFINITY
    if (cached && ageMs < staleMs && isDeepStrictEqual(cached.rowFacts, rowFacts)) {
      if (ageMs >= compareEveryMs) rereadInBackground(row, rowFacts)
      return cached.facts
    }
    try {
      return await read(row, rowFacts)
    } catch (error) {
      if (cached && ageMs < staleMs) return cached.facts
      throw error
    }
  }
}
