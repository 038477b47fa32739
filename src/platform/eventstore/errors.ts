import type { StreamName } from '../../terms/streams.ts'
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

/** The answer of an append was lost; whether it was written is not known until the same bytes are sent again. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}
