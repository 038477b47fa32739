import { digestBytes } from '../digest.ts'
import type { DigestRow, DigestStore } from '../digest-store.ts'

/** The kept digests around one ordinal; rows that were passed are dropped. */
export type KeptRows = {
  /** Loads what is kept of these ordinals. */
  load(from: number, through: number): Promise<void>
  /** Of an ordinal that was loaded; null when no digest of it is kept. */
  at(ordinal: number): Buffer | null
}

export const createKeptRows = (store: DigestStore): KeptRows => {
  const source = store.rows()[Symbol.asyncIterator]()
  let rows: DigestRow[] = []
  let ended = false
  return {
    async load(from, through) {
      while (!ended && (rows.at(-1)?.lastOrdinal ?? 0) < through) {
        const next = await source.next()
        if (next.done) ended = true
        else rows.push(next.value)
      }
      if ((rows[0]?.lastOrdinal ?? from) < from) rows = rows.filter(({ lastOrdinal }) => lastOrdinal >= from)
    },
    at(ordinal) {
      for (const { firstOrdinal, lastOrdinal, digests } of rows)
        if (ordinal >= firstOrdinal && ordinal <= lastOrdinal) {
          const start = (ordinal - firstOrdinal) * digestBytes
          return digests.subarray(start, start + digestBytes)
        }
      return null
    },
  }
}
