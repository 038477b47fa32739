import assert from 'node:assert/strict'
import {
  type AllStreamResolvedEvent,
  ErrorType,
  type EventData,
  type Position,
  type ResolvedEvent,
} from '@eventstore/db-client'
import { asError } from '../../../kernel/failures.ts'
import { type StreamName, streamPrefixes } from '../../../kernel/streams.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown, WrongExpectedRevision } from '../errors.ts'
import type { AppendItem, Expected, NewEvent, StoredEvent } from '../port.ts'

/**
 * Whether the stream belongs to Farebox. The server also stores its own streams, and perhaps those of other programs.
 */
export const isOwnStream = (stream: string): boolean =>
  streamPrefixes.some((prefix) => stream.startsWith(prefix))

/** @throws Error for a stream that no reader of the log would see: a bug */
export const assertOwnStreams = (items: readonly AppendItem[]): void => {
  for (const { appends } of items)
    for (const { stream } of appends)
      if (!isOwnStream(stream))
        throw new Error(`stream ${stream} has none of the prefixes of src/kernel/streams.ts`)
}

const encoder = new TextEncoder()

/**
 * A byte order mark before the metadata. The client parses JSON metadata and returns only the parsed value, which loses
 * key order, spaces and large numbers. With the mark it returns the bytes. Most other readers of UTF-8 skip the mark.
 */
const byteOrderMark = '\ufeff'
const markBytes = 3

/** Binary content, because the client writes `JSON.stringify` of all content of type JSON. */
export const toEventData = ({ id, type, data, metadata }: NewEvent): EventData => ({
  id,
  type,
  contentType: 'application/octet-stream',
  data: encoder.encode(data),
  // A plain Uint8Array: the client would write a Buffer as JSON.
  metadata: encoder.encode(byteOrderMark + metadata),
})

const text = (bytes: unknown, skip: number): string | null =>
  bytes instanceof Uint8Array
    ? Buffer.from(bytes.buffer, bytes.byteOffset + skip, bytes.byteLength - skip).toString('utf8')
    : null

/**
 * Converts a position. It is a byte offset in the server's log, so it is far below 2^53. Only `commit` is used, because
 * `prepare` may be 0 (research, trap 14).
 */
export const toPosition = (position: Position): number => {
  const value = Number(position.commit)
  assert(Number.isSafeInteger(value), `position ${position.commit} is too large`)
  return value
}

export const fromPosition = (position: number): Position => ({
  commit: BigInt(position),
  prepare: BigInt(position),
})

/** @throws Error for an event that Farebox did not write */
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

/** Properties of the client's errors. Any of them may be missing (research: they are not uniform). */
type ClientError = Error & {
  readonly type?: string
  readonly actualVersion?: bigint | 'no_stream'
}

/** The server reports that it did nothing, or the call had no connection. */
const nothingSent =
  /No connection established|Channel closed before call started|Server Is Not Ready|Server Is Too Busy|Failed to discover|No leader info/

/**
 * The server refused the request before it processed the append: it is not the leader, or the caller lacks permission.
 */
const refusedTypes: ReadonlySet<string> = new Set([ErrorType.NOT_LEADER, ErrorType.ACCESS_DENIED])

/** The server rejected the content of the append: a retry fails again. */
const rejectedTypes: ReadonlySet<string> = new Set([
  ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED,
  ErrorType.STREAM_DELETED,
  ErrorType.INVALID_ARGUMENT,
  ErrorType.MISSING_REQUIRED_METADATA_PROPERTY,
])

/**
 * The error of a failed append. Its outcome is unknown, and it is resent, unless the error proves that it was not
 * written.
 */
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

/** Whether the error is about a position that is not the position of an event: the server cannot start there. */
export const isInvalidPosition = (thrown: unknown): boolean =>
  /invalid ?position/i.test(asError(thrown).message)
