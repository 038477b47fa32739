import { LRUCache } from 'lru-cache'
import { growingTo } from '../../src/kernel/growing.ts'
import type { Row } from './table-sql.ts'

/** Rows as committed, by table and `keyText`; null is a row known to be absent, undefined is not known. */
export type RowCache = {
  find(table: string, key: string): Row | null | undefined
  keep(table: string, key: string, row: Row | null): void
  /** A row was written and is not kept: from now on a row of its table that is not cached may exist all the same. */
  leaveOut(table: string, key: string): void
}

const absent: Row = Object.freeze({})

/**
 * The rows that this process wrote or loaded while it alone writes them; hot ones are then never selected again.
 * `complete` says that the tables are empty now: until the first eviction, what is not cached is known to be absent.
 */
export const createRowCache = (options: { maxRows: number; complete: boolean }): RowCache => {
  let complete = options.complete
  const leftOut = new Set<string>()
  const isComplete = (table: string): boolean => complete && !leftOut.has(table)
  const rows = new LRUCache<string, Row>({
    ...growingTo(options.maxRows),
    dispose: (_row, _key, reason) => {
      if (reason === 'evict') complete = false
    },
  })
  return {
    find: (table, key) => {
      const row = rows.get(key)
      if (row === undefined) return isComplete(table) ? null : undefined
      return row === absent ? null : row
    },
    keep: (table, key, row) => {
      // An absent row need not be kept while everything that exists is.
      if (row === null && isComplete(table)) rows.delete(key)
      else rows.set(key, row ?? absent)
    },
    leaveOut: (table, key) => {
      leftOut.add(table)
      rows.delete(key) // it may be cached as absent
    },
  }
}
