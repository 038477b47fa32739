import assert from 'node:assert/strict'
import {
  type AllStreamResolvedEvent,
  ErrorType,
  type EventData,
  type Position,
  type ResolvedEvent,
} from '@eventstore/db-client'
import { asError } from '../../../kernel/as-error.ts'
import { type StreamName, streamPrefixes } from '../../../kernel/streams.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown, WrongExpectedRevision } from '../errors.ts'
import type { AppendItem, Expected, NewEvent, StoredEvent } from '../port.ts'

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

/** What the client's errors have in common; each of them may be missing (research: they are not uniform). */
type ClientError = Error & {
  readonly type?: string
  readonly actualVersion?: bigint | 'no_stream'
}

/** The server took up the request and says that it did nothing; or the call never found a connection to leave by. */
const nothingSent =
  /No connection established|Channel closed before call started|Server Is Not Ready|Server Is Too Busy|Failed to discover|No leader info/

/** Refused before the append is looked at: this server is not the leader, or the caller has no right. */
const refusedTypes: ReadonlySet<string> = new Set([ErrorType.NOT_LEADER, ErrorType.ACCESS_DENIED])

/** Refused for what is in it: no retry helps. */
const rejectedTypes: ReadonlySet<string> = new Set([
  ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED,
  ErrorType.STREAM_DELETED,
  ErrorType.INVALID_ARGUMENT,
  ErrorType.MISSING_REQUIRED_METADATA_PROPERTY,
])

/** Nothing is guessed about an append: unless it is known not to be written its outcome is unknown, and it is sent again. */
export const appendFailure = (thrown: unknown, stream: StreamName, expected: Expected): Error => {
  const error: ClientError = asError(thrown)
  if (error instanceof OutcomeUnknown || error instanceof LogUnavailable) return error
  if (error.type === ErrorType.WRONG_EXPECTED_VERSION) {
    const actual = error.actualVersion === 'no_stream' ? 'noStream' : Number(error.actualVersion)
    return new WrongExpectedRevision(stream, expected, actual)
  }
  const { type = '', message } = error
  if (rejectedTypes.has(type)) return new AppendRejected(message, { cause: error })
  if (refusedTypes.has(type) || nothingSent.test(message)) return logUnavailable(error)
  return new OutcomeUnknown(`the answer of an append to ${stream} was lost: ${message}`, { cause: error })
}

export const logUnavailable = (thrown: unknown): LogUnavailable => {
  if (thrown instanceof LogUnavailable) return thrown
  const error = asError(thrown)
  return new LogUnavailable(`EventStoreDB cannot be reached: ${error.message}`, { cause: error })
}

const typeOf = (thrown: unknown): string | undefined => (asError(thrown) as ClientError).type

/** The server accepted the append and did not finish it in time. */
export const isServerTimeout = (thrown: unknown): boolean => typeOf(thrown) === ErrorType.TIMEOUT

export const isStreamAbsent = (thrown: unknown): boolean => typeOf(thrown) === ErrorType.STREAM_NOT_FOUND

/** A position that is no event's own: the server has no way to start there. */
export const isInvalidPosition = (thrown: unknown): boolean =>
  /invalid ?position/i.test(asError(thrown).message)
