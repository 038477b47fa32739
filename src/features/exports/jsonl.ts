import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { type StreamName, streamPrefixes } from '../../kernel/streams.ts'
import { appendBytes, refusalOf } from '../../platform/eventstore/append-guards.ts'
import type { NewEvent, StoredEvent } from '../../platform/eventstore/port.ts'

/** The first line of a `jsonl` export. */
export const jsonlHead = { format: 'farebox-log', version: 1 } as const

/**
 * An event in its line. `ordinal` counts from 1. Positions are left out because they differ between adapters. `data`
 * and `metadata` are the stored texts of the log, each as a JSON string, so that reading restores the same bytes.
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

/** The last line: the number of events, and the SHA-256 of all bytes before this line. */
export type JsonlEnd = { readonly events: number; readonly sha256: string }

/**
 * Writes the complete log, one event in each line, so that `ledger import` can restore it. The file contains neither
 * the log id nor a time: equal logs give equal files.
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

/** The file is no complete export. The message has the problem and its place. */
export class NoExport extends Error {
  override readonly name = 'NoExport'
}

const chunkBytes = 1 << 20
/** An append of 1 MiB with every character escaped, plus the rest of the line. Bytes. */
const maxLineBytes = 8 << 20

/**
 * The lines of a file without line ends, with memory for one line. The last line must have a line end too.
 * @throws NoExport
 */
async function* linesOf(file: FileHandle): AsyncGenerator<Buffer> {
  const chunk = Buffer.allocUnsafe(chunkBytes)
  let unparsed: Buffer = Buffer.alloc(0)
  let number = 0
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(chunk, 0, chunkBytes, at)
    if (bytesRead === 0) break
    at += bytesRead
    const text = Buffer.concat([unparsed, chunk.subarray(0, bytesRead)])
    let start = 0
    for (let end = text.indexOf(10); end !== -1; end = text.indexOf(10, start)) {
      number += 1
      yield text.subarray(start, end)
      start = end + 1
    }
    unparsed = text.subarray(start)
    if (unparsed.length > maxLineBytes)
      throw new NoExport(`line ${number + 1} is longer than any line of an export`)
  }
  if (unparsed.length > 0) throw new NoExport(`line ${number + 1} is cut off: the file is not whole`)
}

const parseLine = (line: Buffer, number: number): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(line))
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {
    // Reported below.
  }
  throw new NoExport(`line ${number} is no JSON object`)
}

const eventKeys = 'ordinal,stream,revision,id,type,data,metadata'
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

const isObjectText = (text: string): boolean => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null
  } catch {
    return false
  }
}

const hasTime = (metadata: string): boolean => {
  try {
    return instant.test((JSON.parse(metadata) as { recordedAt: string }).recordedAt)
  } catch {
    return false
  }
}

/** Checks an event that must be the next one; `number` is its line. */
const checkEvent = (value: Record<string, unknown>, number: number, ordinal: number): JsonlEvent => {
  const refused = (reason: string) => new NoExport(`line ${number} is no event of an export: ${reason}`)
  if (Object.keys(value).join() !== eventKeys) throw refused(`it must hold ${eventKeys}`)
  const { stream, revision, id, type, data, metadata } = value
  if (value.ordinal !== ordinal) throw refused(`its ordinal must be ${ordinal}`)
  for (const [name, text] of Object.entries({ stream, id, type, data, metadata }))
    if (typeof text !== 'string' || text === '') throw refused(`${name} must be a text`)
  const event = { ordinal, stream, revision, id, type, data, metadata } as JsonlEvent
  if (!streamPrefixes.some((prefix) => event.stream.startsWith(prefix)))
    throw refused(`${event.stream} is no stream of ours`)
  if (!Number.isSafeInteger(revision) || event.revision < 0)
    throw refused('its revision must be a whole number')
  if (!isObjectText(event.data)) throw refused('its data are no JSON')
  if (!hasTime(event.metadata)) throw refused('its metadata have no recordedAt')
  const append = { stream: event.stream as StreamName, expected: 'noStream' as const, events: [event] }
  const refusal = refusalOf(append, appendBytes(append))
  if (refusal !== null) throw refused(refusal.message)
  return event
}

/** Events that are read, checked and written in one batch. */
export type JsonlBatch = {
  readonly events: readonly (JsonlEvent & NewEvent)[]
  /** SHA-256 of their lines, to detect changes since an earlier pass. */
  readonly sha256: string
  /** Bytes of the file that were read so far. */
  readonly bytes: number
}

const batchBytes = 512 << 10

/**
 * Reads an export from the first to the last byte, in batches of about 512 KiB. Only a read to the end without an error
 * shows that the file is complete: head, events without a gap, and an end with the right count and digest.
 * @throws NoExport
 */
export async function* readJsonl(file: FileHandle): AsyncGenerator<JsonlBatch> {
  const exportHash = createHash('sha256')
  let lines = createHash('sha256')
  let events: (JsonlEvent & NewEvent)[] = []
  let bytes = 0
  let readBytes = 0
  let number = 0
  let ordinal = 0
  let hasEnded = false
  const takeBatch = (): JsonlBatch => {
    const batch = { events, sha256: lines.digest('hex'), bytes: readBytes }
    events = []
    bytes = 0
    lines = createHash('sha256')
    return batch
  }
  for await (const line of linesOf(file)) {
    number += 1
    readBytes += line.length + 1
    if (hasEnded) throw new NoExport(`line ${number} follows the end of the export`)
    const value = parseLine(line, number)
    if (number === 1) {
      if (JSON.stringify(value) !== JSON.stringify(jsonlHead))
        throw new NoExport(`line 1 is not ${JSON.stringify(jsonlHead)}: no export that this version reads`)
    } else if (Object.keys(value).join() === 'events,sha256') {
      if (value.events !== ordinal)
        throw new NoExport(`the last line counts ${value.events} events, the file has ${ordinal}`)
      if (value.sha256 !== exportHash.digest('hex'))
        throw new NoExport('its digest does not fit: the file was changed or damaged')
      hasEnded = true
      continue
    } else {
      ordinal += 1
      events.push(checkEvent(value, number, ordinal))
      bytes += line.length
      lines.update(line)
    }
    exportHash.update(line).update('\n')
    if (bytes >= batchBytes) yield takeBatch()
  }
  if (number === 0) throw new NoExport('it is empty')
  if (!hasEnded) throw new NoExport('its last line is missing: the file is cut off')
  if (events.length > 0) yield takeBatch()
}
