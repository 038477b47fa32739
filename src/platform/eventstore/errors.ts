import type { StreamName } from '../../kernel/streams.ts'
import { isDatabaseOutage, isOfOtherVersion, isWithoutRight } from '../postgres/errors.ts'
import type { Expected } from './port.ts'

/** The stream is not at the expected revision; nothing was written. */
export class WrongExpectedRevision extends Error {
  override readonly name = 'WrongExpectedRevision'
  readonly stream: StreamName
  readonly expected: Expected
  readonly actual: Expected
  constructor(stream: StreamName, expected: Expected, actual: Expected) {
    super(`stream ${stream} is at ${actual}, expected ${expected}`)
    this.stream = stream
    this.expected = expected
    this.actual = actual
  }
}

/** The log rejects this data (too large, not storable). Nothing was written. A retry fails again. */
export class AppendRejected extends Error {
  override readonly name = 'AppendRejected'
}

/** The log cannot be reached. Nothing was written. The cause is the error of the driver. */
export class LogUnavailable extends Error {
  override readonly name: string = 'LogUnavailable'
}

/** The time of the decision is after the current time. Nothing was written. The command must be decided again. */
export class DecidedInFuture extends LogUnavailable {
  override readonly name: string = 'DecidedInFuture'
}

/** The answer of an append was lost. Only sending the same bytes again shows whether it was written. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}

/** Whether the error is an outage of the log, on any adapter. The message of the error names the server. */
export const isLogOutage = (error: unknown): boolean =>
  error instanceof LogUnavailable || error instanceof OutcomeUnknown

/** Whether an error is a temporary outage, worth a retry, and not a bug. */
export const isOutage = (error: unknown): boolean =>
  isLogOutage(error) || isDatabaseOutage(error) || isOfOtherVersion(error) || isWithoutRight(error)
