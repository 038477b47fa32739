import { readFile } from 'node:fs/promises'

/** Codes of Node and Postgres (SQLSTATE) that mean: not reachable, shutting down, out of connections, out of time. */
const socketCodes: readonly string[] = [
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOENT',
  'EAI_AGAIN',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
]
const sqlStates = /^(08...|53...|57014|57P0.|55P03|40001|40P01)$/

/** node-postgres gives these without a code. */
const driverMessages =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/

/** Whether an error of a query or a connection says that the database cannot answer just now; a retry may succeed. */
export const isDatabaseOutage = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: unknown }
  if (typeof code === 'string') return socketCodes.includes(code) || sqlStates.test(code)
  return driverMessages.test(error.message)
}

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
