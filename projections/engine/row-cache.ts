import { LRUCache } from 'lru-cache'
import type { Row } from './table-sql.ts'

/** Rows as committed, by `keyText`; null is a row known to be absent, undefined is not known. */
export type RowCache = {
  find(key: string): Row | null | undefined
  keep(key: string, row: Row | null): void
}

const absent: Row = Object.freeze({})

/**
 * The rows that this process wrote or loaded while it alone writes them; hot ones are then never selected again.
 * `complete` says that the tables are empty now: until the first eviction, what is not cached is known to be absent.
 */
export const createRowCache = (options: { maxRows: number; complete: boolean }): RowCache => {
  let complete = options.complete
  const rows = new LRUCache<string, Row>({
    max: options.maxRows,
    dispose: (_row, _key, reason) => {
      if (reason === 'evict') complete = false
    },
  })
  return {
    find: (key) => {
      const row = rows.get(key)
      if (row === undefined) return complete ? null : undefined
      return row === absent ? null : row
    },
    keep: (key, row) => {
      // An absent row need not be kept while everything that exists is.
      if (row === null && complete) rows.delete(key)
      else rows.set(key, row ?? absent)
    },
  }
}
