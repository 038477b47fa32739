import { readFile } from 'node:fs/promises'

/** Codes of Node for a connection that broke. */
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
 * Codes of Postgres (SQLSTATE): the connection is lost (08), resources or the disk are exhausted (53), an operator or a
 * limit ended the statement or the session (57, 25P03, 25P04), the system below Postgres failed (58), the database is
 * read-only (25006), somebody else was first (40, 55P03).
 */
const sqlStates = /^(08...|53...|57...|58...|25006|25P03|25P04|40001|40003|40P01|55P03)$/

/** node-postgres gives these without a code. */
const driverMessages =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed/

/** Errors of attempts to connect. */
const connectErrors = new WeakSet<Error>()

/** Notes that a connection was not opened because of this error: whatever its code, it is an outage. */
export const noteConnectError = (error: Error): void => {
  connectErrors.add(error)
}

/**
 * Whether an error of a query or a connection says that the database cannot answer just now; a retry may succeed. That is
 * every error of an attempt to connect: a password that was changed, a database that takes no connections, a name that is
 * not found.
 */
export const isDatabaseOutage = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  if (connectErrors.has(error)) return true
  const { code } = error as { code?: unknown }
  if (typeof code === 'string') return socketCodes.includes(code) || sqlStates.test(code)
  return driverMessages.test(error.message)
}

/**
 * SQLSTATEs of a statement that does not fit the tables: one of them, a column or a function is missing (42P01, 42703, 42883),
 * or a column has another type (42804).
 */
const misfits: ReadonlySet<unknown> = new Set(['42P01', '42703', '42883', '42804'])

/** A prepared statement whose columns have other types by now. Postgres has one code for all that it does not support. */
const isOutdatedPlan = (error: Error & { code?: unknown; routine?: unknown }): boolean =>
  error.code === '0A000' && error.routine === 'RevalidateCachedQuery'

/**
 * Whether the tables are not those that this program made. During an upgrade the newer version exchanges them while processes
 * of the older one still serve.
 */
export const isOfOtherVersion = (error: unknown): boolean =>
  error instanceof Error && (misfits.has((error as { code?: unknown }).code) || isOutdatedPlan(error))

/**
 * Whether a session may answer so because of what it has from before: a read-only default (25006) or a role (42501) of the
 * time at which it was opened, or a statement that was prepared before its table was exchanged. Another session may do what
 * it refuses.
 */
export const isFaultOfSession = (error: Error & { code?: unknown }): boolean =>
  error.code === '25006' || error.code === '42501' || isOutdatedPlan(error)

/** The start is to stop with this message, which says what to do; a stack would only hide it. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused'
}

/** What a system says of files that are not as they must be: of another kind, closed to this user, on a disk that is read-only. */
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

/** Calls of the system that are about no file under the data directory. */
const otherCalls = /^(spawn|connect|listen|bind|getaddrinfo)/

/**
 * Does work on files under `dataDir`; what goes wrong there is the start's refusal, with what the system says.
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
 * A file's text, UTF-8.
 * @throws StartRefused when there is something by this name that cannot be read; the system's error when there is nothing
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
