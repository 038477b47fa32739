import assert from 'node:assert/strict'
import type { AllStreamResolvedEvent, EventData, Position, ResolvedEvent } from '@eventstore/db-client'
import { type StreamName, streamPrefixes } from '../../../kernel/streams.ts'
import type { AppendItem, NewEvent, StoredEvent } from '../port.ts'

/** Whether readers of the log see this stream: the server holds its own streams too, and perhaps other programs'. */
export const isOwnStream = (stream: string): boolean =>
  streamPrefixes.some((prefix) => stream.startsWith(prefix))

/** @throws Error for a stream that no reader of the log would ever see: a bug */
export const assertOwnStreams = (items: readonly AppendItem[]): void => {
  for (const { appends } of items)
    for (const { stream } of appends)
      if (!isOwnStream(stream))
        throw new Error(`stream ${stream} has none of the prefixes of src/kernel/streams.ts`)
}

const encoder = new TextEncoder()

/**
 * Stands before the metadata. The client parses metadata that is JSON and gives only the parsed value, in which key
 * order, spaces and large numbers are lost; a byte order mark makes it leave the bytes alone, and most other readers
 * of UTF-8 skip it.
 */
const mark = '\ufeff'
const markBytes = 3

/** Binary content, because the client writes `JSON.stringify` of anything that it is told is JSON. */
export const toEventData = ({ id, type, data, metadata }: NewEvent): EventData => ({
  id,
  type,
  contentType: 'application/octet-stream',
  data: encoder.encode(data),
  // A plain Uint8Array: the client would write a Buffer as JSON.
  metadata: encoder.encode(mark + metadata),
})

const text = (bytes: unknown, skip: number): string | null =>
  bytes instanceof Uint8Array
    ? Buffer.from(bytes.buffer, bytes.byteOffset + skip, bytes.byteLength - skip).toString('utf8')
    : null

/** Bytes into the server's log, so it stays far below 2^53; `commit` alone, for `prepare` may be 0 (research, trap 14). */
export const toPosition = (position: Position): number => {
  const value = Number(position.commit)
  assert(Number.isSafeInteger(value), `position ${position.commit} is too large`)
  return value
}

export const fromPosition = (position: number): Position => ({
  commit: BigInt(position),
  prepare: BigInt(position),
})

/** @throws Error for an event that Farebox did not write: nothing may be derived from it */
export const toStored = (resolved: ResolvedEvent | AllStreamResolvedEvent): StoredEvent => {
  const { event } = resolved
  assert(event?.position !== undefined, 'an event came without its position')
  const data = text(event.data, 0)
  const metadata = text(event.metadata, markBytes)
  if (data === null || metadata === null)
    throw new Error(`event ${event.revision} of ${event.streamId} was not written by Farebox`)
  return {
    id: event.id,
    type: event.type,
    data,
    metadata,
    stream: event.streamId as StreamName,
    revision: Number(event.revision),
    position: toPosition(event.position),
  }
}
