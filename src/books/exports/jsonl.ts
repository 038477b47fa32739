import { createHash } from 'node:crypto'
import type { StoredEvent } from '../../platform/eventstore/port.ts'

/** The first line of a `jsonl` export. */
export const jsonlHead = { format: 'farebox-log', version: 1 } as const

/**
 * An event as its line holds it. `ordinal` counts from 1; positions are left out, for they differ between adapters.
 * `data` and `metadata` are the texts that the log stores, each as a JSON string: read back, they are the same bytes.
 */
export type JsonlEvent = {
  readonly ordinal: number
  readonly stream: string
  readonly revision: number
  readonly id: string
  readonly type: string
  readonly data: string
  readonly metadata: string
}

/** The last line: how many events, and the SHA-256 over all bytes before this line. */
export type JsonlEnd = { readonly events: number; readonly sha256: string }

/**
 * Writes the log itself, one event a line: complete, so that `ledger import` makes the same log of it. It names neither
 * its log nor a time: equal logs give equal files.
 */
export const createJsonlWriter = () => {
  const hash = createHash('sha256')
  let ordinal = 0
  const hashed = (text: string): string => {
    hash.update(text)
    return text
  }
  return {
    head: (): string => hashed(`${JSON.stringify(jsonlHead)}\n`),
    events: (events: readonly StoredEvent[]): string => {
      let text = ''
      for (const { stream, revision, id, type, data, metadata } of events) {
        ordinal += 1
        const line: JsonlEvent = { ordinal, stream, revision, id, type, data, metadata }
        text += `${JSON.stringify(line)}\n`
      }
      return hashed(text)
    },
    end: (): string => {
      const end: JsonlEnd = { events: ordinal, sha256: hash.digest('hex') }
      return `${JSON.stringify(end)}\n`
    },
  }
}
