import { ErrorType } from '@eventstore/db-client'
import { asError } from '../../../kernel/as-error.ts'
import type { StreamName } from '../../../kernel/streams.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown, WrongExpectedRevision } from '../errors.ts'
import type { Expected } from '../port.ts'

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

export const isStreamAbsent = (thrown: unknown): boolean =>
  typeOf(thrown) === ErrorType.STREAM_NOT_FOUND

/** A position that is no event's own: the server has no way to start there. */
export const isInvalidPosition = (thrown: unknown): boolean =>
  /invalid ?position/i.test(asError(thrown).message)
