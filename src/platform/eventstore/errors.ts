import type { StreamName } from '../../kernel/streams.ts'
import { isDatabaseOutage, isOfOtherVersion } from '../postgres/errors.ts'
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

/** The log does not take this data (too large, not storable); nothing was written and sending it again will not help. */
export class AppendRejected extends Error {
  override readonly name = 'AppendRejected'
}

/** The log cannot be reached; nothing was written. The cause is the driver's own error. */
export class LogUnavailable extends Error {
  override readonly name: string = 'LogUnavailable'
}

/**
 * What is to be appended was decided later than the clock reads; the log does not have it and never takes it as it is.
 */
export class DecidedInFuture extends LogUnavailable {
  override readonly name: string = 'DecidedInFuture'
}

/** The answer of an append was lost; whether it was written is not known until the same bytes are sent again. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}

/** Whether it is the log that is away, wherever it is kept; its error names the server. */
export const isLogOutage = (error: unknown): boolean =>
  error instanceof LogUnavailable || error instanceof OutcomeUnknown

/** Whether an error is an outage that a retry outlives, not a bug. */
export const isOutage = (error: unknown): boolean =>
  isLogOutage(error) || isDatabaseOutage(error) || isOfOtherVersion(error)

/**
 * Settles as the promise does, or rejects with what `late` makes once `limitMs` have passed. What is waited for goes on
 * all the same; its outcome is dropped then, a failure too.
 */
export const withTimeout = <Value>(
  promise: Promise<Value>,
  limitMs: number,
  late: () => Error,
): Promise<Value> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), limitMs)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
