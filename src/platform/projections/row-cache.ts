import type { Row } from './definition.ts'

/** A Bloom filter of row keys: it knows for certain that a key was never added. Its size never changes. */
export type KeyFilter = {
  add(table: string, key: string): void
  /** False: the key was never added. True: it was added, or it collides, which is likelier with more keys. */
  mayHave(table: string, key: string): boolean
}

/** In bits: 4 MiB. With a million keys one in 1,600 other keys collides, with ten million one in 5. */
const defaultBits = 2 ** 25
const probes = 3

const seeds = new Map<string, number>()
const mixed = (text: string, seed: number): number => {
  let hash = seed
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash
}
const seedOf = (table: string): number => {
  let seed = seeds.get(table)
  if (seed === undefined) {
    seed = mixed(table, 0x811c9dc5)
    seeds.set(table, seed)
  }
  return seed
}

/** @param bits a power of two, at least 8 */
export const createKeyFilter = (bits = defaultBits): KeyFilter => {
  const bytes = new Uint8Array(bits / 8)
  const mask = bits - 1
  const each = (table: string, key: string, visitBit: (byte: number, bit: number) => boolean): boolean => {
    const hash = mixed(key, seedOf(table))
    let bitIndex = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
    bitIndex ^= bitIndex >>> 12
    let step = Math.imul(bitIndex, 0x297a2d39)
    step = (step ^ (step >>> 15)) | 1
    for (let probe = 0; probe < probes; probe += 1) {
      const at = (bitIndex + probe * step) & mask
      if (!visitBit(at >>> 3, 1 << (at & 7))) return false
    }
    return true
  }
  return {
    add: (table, key) => {
      each(table, key, (byte, bit) => {
        bytes[byte] = (bytes[byte] as number) | bit
        return true
      })
    },
    mayHave: (table, key) => each(table, key, (byte, bit) => ((bytes[byte] as number) & bit) !== 0),
  }
}

/** Rows of one table as committed, by `keyText`. */
export type TableCache = {
  /** Null: the row is known to be absent. Undefined: not known. */
  find(key: string): Row | null | undefined
  put(key: string, row: Row | null): void
  /** A row was written and is not cached. From then on, a row of this table that is not cached may exist. */
  leaveOut(key: string): void
}

export type RowCache = { of(table: string): TableCache }

const absent: Row = Object.freeze({})

/** Rows of one table: recently used rows, and rows used before that. A row is in one of the two maps. */
type Generations = { young: Map<string, Row>; old: Map<string, Row> }

/**
 * The rows that this process wrote or loaded as the only writer. Hot rows are then not selected again. `complete`:
 * the tables are empty now, so a row that is not cached is absent, unless a row with its key was dropped from the
 * cache. When more than two thirds of `maxRows` are cached, rows that were not used since a third of `maxRows` other
 * rows were used are dropped. Two maps per table cost less than one LRU list of all rows.
 */
export const createRowCache = (options: { maxRows: number; complete: boolean }): RowCache => {
  const { complete } = options
  const maxYoung = Math.max(1, Math.floor(options.maxRows / 3))
  const tables = new Map<string, Generations & TableCache>()
  /** Keys of rows that were dropped from the cache; null if there are none. */
  let droppedKeys: KeyFilter | null = null
  let young = 0
  let rowCount = 0

  const noteDropped = (table: string, rows: ReadonlyMap<string, Row>): void => {
    if (!complete) return
    droppedKeys ??= createKeyFilter()
    for (const [key, row] of rows) if (row !== absent) droppedKeys.add(table, key)
  }
  const dropOldGeneration = (): void => {
    for (const [name, table] of tables) {
      noteDropped(name, table.old)
      rowCount -= table.old.size
      table.old = table.young
      table.young = new Map()
    }
    young = 0
  }
  const touch = (table: Generations, key: string, row: Row): void => {
    if (!table.old.delete(key)) rowCount += 1
    table.young.set(key, row)
    young += 1
    if (young > maxYoung && rowCount > 2 * maxYoung) dropOldGeneration()
  }
  const drop = (table: Generations, key: string): void => {
    const wasYoung = table.young.delete(key)
    if (wasYoung) young -= 1
    if (wasYoung || table.old.delete(key)) rowCount -= 1
  }

  const create = (name: string): Generations & TableCache => {
    let isIncomplete = false
    /** Whether a key that is not cached has no row. */
    const isAbsent = (key: string): boolean =>
      complete && !isIncomplete && (droppedKeys === null || !droppedKeys.mayHave(name, key))
    const table: Generations & TableCache = {
      young: new Map(),
      old: new Map(),
      find: (key) => {
        let row = table.young.get(key)
        if (row === undefined) {
          row = table.old.get(key)
          if (row === undefined) return isAbsent(key) ? null : undefined
          touch(table, key, row)
        }
        return row === absent ? null : row
      },
      put: (key, row) => {
        // While all existing rows are cached, an absent row need not be cached.
        if (row === null && isAbsent(key)) {
          drop(table, key)
          return
        }
        if (table.young.has(key)) table.young.set(key, row ?? absent)
        else touch(table, key, row ?? absent)
      },
      leaveOut: (key) => {
        isIncomplete = true
        drop(table, key) // it may be cached as absent
      },
    }
    return table
  }

  return {
    of: (name) => {
      let table = tables.get(name)
      if (!table) {
        table = create(name)
        tables.set(name, table)
      }
      return table
    },
  }
}
