import { LogUnavailable, OutcomeUnknown } from '../eventstore/errors.ts'
import { isDatabaseOutage } from '../postgres/outage.ts'

/** Whether it is the log that is away, wherever it is kept; its error names the server. */
export const isLogOutage = (error: unknown): boolean =>
  error instanceof LogUnavailable || error instanceof OutcomeUnknown

/** Whether an error is an outage that a retry outlives (503), not a bug (500). */
export const isOutage = (error: unknown): boolean => isLogOutage(error) || isDatabaseOutage(error)
