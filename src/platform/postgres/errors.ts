import { readFile } from 'node:fs/promises'

/** Codes of Node for a broken connection. */
const socketCodes: readonly string[] = [
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENETDOWN',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
]

/**
 * Codes of Postgres (SQLSTATE): the connection is lost (08), resources or the disk are exhausted (53), an operator or
 * a limit ended the statement or the session (57, 25P03, 25P04), the system below Postgres failed (58), the database
 * is read-only (25006), another session was first (40, 55P03).
 */
const sqlStates = /^(08...|53...|57...|58...|25006|25P03|25P04|40001|40003|40P01|55P03)$/

/** Messages of node-postgres without a code. */
const driverMessages =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed/

/** With the code of a connection that the network timed out, because it is the same outage. */
export const noAnswerWithin = (limitMs: number): Error =>
  Object.assign(new Error(`Postgres did not answer within ${limitMs} ms`), { code: 'ETIMEDOUT' })

/** Errors of attempts to connect. */
const connectErrors = new WeakSet<Error>()

/** Records that a connection was not opened because of this error. It then counts as an outage, whatever its code. */
export const noteConnectError = (error: Error): void => {
  connectErrors.add(error)
}

/**
 * Whether an error of a query or a connection means that the database cannot answer now; a retry may succeed. Every
 * error of an attempt to connect counts: a changed password, a database that accepts no connections, a name that does
 * not resolve.
 */
export const isDatabaseOutage = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  if (connectErrors.has(error)) return true
  const { code } = error as { code?: unknown }
  if (typeof code === 'string') return socketCodes.includes(code) || sqlStates.test(code)
  return driverMessages.test(error.message)
}

/**
 * Codes of lock and statement timeouts, deadlocks and serialization failures. Another session can cause these on
 * purpose.
 */
const waitCodes: readonly unknown[] = ['55P03', '57014', '40P01', '40001']

/** Whether an error means that Postgres cannot be reached: an outage that no other session can cause with a lock. */
export const isConnectionLost = (error: unknown): boolean =>
  isDatabaseOutage(error) && !waitCodes.includes((error as { code?: unknown }).code)

/**
 * SQLSTATEs of a statement that does not fit the tables: a table, a column or a function is missing (42P01, 42703,
 * 42883), or a column has another type (42804).
 */
const schemaMismatchCodes: ReadonlySet<unknown> = new Set(['42P01', '42703', '42883', '42804'])

/** A prepared statement whose columns now have other types. Postgres uses one code for all that it does not support. */
const isOutdatedPlan = (error: Error & { code?: unknown; routine?: unknown }): boolean =>
  error.code === '0A000' && error.routine === 'RevalidateCachedQuery'

/**
 * Whether the tables are not those of this program. During an upgrade the newer version replaces them while processes
 * of the older version still serve.
 */
export const isOfOtherVersion = (error: unknown): boolean =>
  error instanceof Error &&
  (schemaMismatchCodes.has((error as { code?: unknown }).code) || isOutdatedPlan(error))

/** Whether the role of the session lacks a right, e.g. after an operator revoked it or restored a dump without rights. */
export const isWithoutRight = (error: unknown): boolean =>
  error instanceof Error && (error as { code?: unknown }).code === '42501'

/**
 * The table that a statement needs and that does not exist in schema `read` (42P01), or that this role has no right to
 * read (42501); null for other errors. Both are the state of a stopped read model.
 */
export const unreadableTable = (error: unknown): string | null => {
  if (!(error instanceof Error)) return null
  const { code } = error as { code?: unknown }
  if (code === '42P01') return /"read\.([a-z0-9_]+)"/.exec(error.message)?.[1] ?? null
  return isWithoutRight(error) ? (/ (\w+)$/.exec(error.message)?.[1] ?? null) : null
}

/** Ignores that a read fails because its read model is stopped. That is reported elsewhere, and the rest continues. */
export const unlessStopped = (read: Promise<unknown>): Promise<unknown> =>
  read.catch((error) => {
    if (unreadableTable(error) === null) throw error
  })

/**
 * Whether the error may come from the state of the session: a read-only default (25006) or a role (42501) from the
 * time when it was opened, or a statement that was prepared before its table was replaced. The same statement may
 * succeed in another session.
 */
export const isFaultOfSession = (error: Error & { code?: unknown }): boolean =>
  error.code === '25006' || isWithoutRight(error) || isOutdatedPlan(error)

/** Stops the start with this message, which says what to do. No stack is shown, because it would hide the message. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused'
}

/** Codes of the system for files in the wrong state: another kind, no permission, a read-only disk. */
const fileTrouble: ReadonlySet<unknown> = new Set([
  'EACCES',
  'EPERM',
  'EROFS',
  'ENOTDIR',
  'EISDIR',
  'EEXIST',
  'ENOENT',
  'ELOOP',
  'ENAMETOOLONG',
  'EINVAL',
])

/** System calls that do not concern a file in the data directory. */
const otherCalls = /^(spawn|connect|listen|bind|getaddrinfo)/

/**
 * Runs `work` on files in `dataDir`. An error of the system there becomes a StartRefused with its message.
 * @throws StartRefused
 */
export const withStartFiles = async <Value>(dataDir: string, work: () => Promise<Value>): Promise<Value> => {
  try {
    return await work()
  } catch (error) {
    const { code, syscall, message } = error as NodeJS.ErrnoException
    if (!fileTrouble.has(code) || syscall === undefined || otherCalls.test(syscall)) throw error
    throw new StartRefused(
      `${dataDir} cannot be used as FAREBOX_DATA (${message}). Set it to a directory that this user may read and write.`,
      { cause: error },
    )
  }
}

/**
 * The text of a UTF-8 file.
 * @throws StartRefused if the file exists and cannot be read; the system's error if there is no file
 */
export const readStartFile = async (path: string): Promise<string> => {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || !fileTrouble.has(code)) throw error
    throw new StartRefused(`${path} cannot be read (${message}). Let this user read it.`, { cause: error })
  }
}
