import pg from 'pg'

/**
 * What a failed batch means:
 * - `data`: Postgres refused what was sent; nothing was written, and sending it again will not help;
 * - `unavailable`: Postgres undid it; nothing was written;
 * - `unknown`: it may have committed. Also every code that is not listed: taking a failure for unknown only costs a
 *   resend, taking an unknown outcome for a failure loses a decision.
 */
export type Failure = 'data' | 'unavailable' | 'unknown'

// https://www.postgresql.org/docs/18/errcodes-appendix.html
const dataClasses = new Set([
  '22', // data exception
  '23', // integrity constraint violation
  '44', // with check option violation
  '54', // program limit exceeded, e.g. a stream name too long for its index
  'P0', // raised by a trigger
])
const undoneClasses = new Set([
  '25', // invalid transaction state, e.g. a read-only standby after a fail-over
  '40', // transaction rollback: deadlock, serialization
  '42', // access rule violation, or a database that was not migrated
  '53', // insufficient resources: disk full, out of memory
  '55', // object not in prerequisite state: lock not available
])
const undoneCodes = new Set(['57014']) // the statement's time limit
const unknownCodes = new Set(['40003']) // statement completion unknown

export const failureOf = (error: unknown): Failure => {
  // What is not Postgres's own message is a broken or silent connection.
  if (!(error instanceof pg.DatabaseError) || error.code === undefined) return 'unknown'
  if (unknownCodes.has(error.code)) return 'unknown'
  const group = error.code.slice(0, 2)
  if (dataClasses.has(group)) return 'data'
  return undoneClasses.has(group) || undoneCodes.has(error.code) ? 'unavailable' : 'unknown'
}

/** Whether Postgres refused a row whose key stands already. */
export const isDuplicate = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '23505'
