import { readFile } from 'node:fs/promises'

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
export const withFilesIn = async <Value>(dataDir: string, work: () => Promise<Value>): Promise<Value> => {
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
export const readOwnFile = async (path: string): Promise<string> => {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || !fileTrouble.has(code)) throw error
    throw new StartRefused(`${path} cannot be read (${message}). Let this user read it.`, { cause: error })
  }
}
