import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StartRefused } from './errors.ts'

/** The contents of a file in the data directory during its use (mode 600: the address contains the password). */
export type DataUser = {
  readonly pid: number
  /** What the process is, for messages: `server`, `command`, `test run`. */
  readonly role: string
  /** The address of its Postgres; null while it starts. */
  readonly url: string | null
}

/** Another process uses this data directory. */
export class DataInUse extends Error {
  override readonly name = 'DataInUse'
  readonly user: DataUser | null
  constructor(dataDir: string, user: DataUser | null) {
    super(
      `${dataDir} is in use by ${user ? `a Farebox ${user.role} with process id ${user.pid}` : 'another Farebox process'}. Stop it first, or set FAREBOX_DATA to another directory.`,
    )
    this.user = user
  }
}

export type DataLock = {
  /** Publishes the address of Postgres for other processes. */
  publish(url: string | null): Promise<void>
  release(): Promise<void>
}

/** In the data directory. The file remains when it is not locked. */
export const lockFile = 'lock'

const userFile = (dataDir: string): string => join(dataDir, 'running.json')

/** The user of this data directory according to its file, which may be left over from a killed process. */
export const readDataUser = async (dataDir: string): Promise<DataUser | null> => {
  const text = await readFile(userFile(dataDir), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  try {
    return text === null ? null : (JSON.parse(text) as DataUser)
  } catch {
    // Farebox replaces the file as a whole, so it did not write this content.
    return null
  }
}

/**
 * Locks a data directory for this process. The lock is SQLite's lock on an empty database file: the kernel releases
 * it at the end of the process, however it ends, so a lock is never stale. (A pid file can be stale, and its pid
 * reused.)
 * @throws DataInUse if another process uses the directory
 */
export const lockData = async (dataDir: string, role: string): Promise<DataLock> => {
  await makeFolder(dataDir)
  const lock = openExclusive(join(dataDir, lockFile))
  if (!lock) throw new DataInUse(dataDir, await readDataUser(dataDir))
  const publish = async (url: string | null): Promise<void> => {
    const user: DataUser = { pid: process.pid, role, url }
    const temporary = `${userFile(dataDir)}.new`
    await writeFile(temporary, `${JSON.stringify(user)}\n`, { mode: 0o600 })
    await rename(temporary, userFile(dataDir))
  }
  await publish(null)
  return {
    publish,
    release: async () => {
      await rm(userFile(dataDir), { force: true })
      lock.close()
    },
  }
}

/** SQLite's code for a database that is locked. */
const busy = 5
/** SQLite's code for a full disk. */
const full = 13

/** @throws StartRefused if the file cannot be a lock: it is a directory, or this user has no permission */
const openExclusive = (path: string): DatabaseSync | null => {
  let database: DatabaseSync | null = null
  try {
    database = new DatabaseSync(path)
    database.exec('pragma busy_timeout = 0; begin exclusive')
    return database
  } catch (error) {
    database?.close()
    const { errcode, message } = error as { readonly errcode?: number; readonly message: string }
    if (errcode === busy) return null
    if (errcode === undefined || errcode === full) throw error
    throw new StartRefused(
      `${path} cannot be locked (${message}). Let this user read and write it, or move it away; it holds nothing.`,
      { cause: error },
    )
  }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/**
 * Creates a folder and its parents, if they do not exist. Node's own `recursive` never ends in a folder that accepts
 * no folders and answers ENOENT, such as /proc.
 * @throws the system's error
 */
export const makeFolder = async (path: string): Promise<void> => {
  try {
    await mkdir(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const parent = dirname(path)
    if (code === 'EEXIST') {
      if ((await stat(path)).isDirectory()) return
      throw error
    }
    if (code !== 'ENOENT' || (await exists(parent))) throw error
    await makeFolder(parent)
    await makeFolder(path)
  }
}
