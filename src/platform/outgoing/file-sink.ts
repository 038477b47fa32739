import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { link, lstat, open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Writable } from 'node:stream'

/** The target of an export. If possible, no part of it is visible before `finish`. */
export type Sink = {
  write(data: string | Buffer): Promise<void>
  finish(): Promise<void>
  /** For use after an error: removes what was written, if possible. */
  abandon(): Promise<void>
}

/** The file cannot be written at the requested path. Nothing was written. */
export class UnwritableFile extends Error {
  override readonly name = 'UnwritableFile'
}

const syncDirectory = async (path: string): Promise<void> => {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

type FileOptions = {
  /** The permissions of the file; default: only the owner may read and write it. */
  readonly mode?: number
  /** Whether an existing file may be replaced; default: yes. */
  readonly replace?: boolean
}

/** The file exists already and must not be replaced. */
export class FileExists extends UnwritableFile {
  constructor(path: string) {
    super(`${path} exists: name another file, or replace it with --force`)
  }
}

/** @throws UnwritableFile if an existing file must not be replaced, or if the path is not a file */
const checkTarget = async (path: string, replace: boolean): Promise<void> => {
  const currentStats = await lstat(path).catch(() => null)
  if (currentStats === null) return
  if (!replace) throw new FileExists(path)
  if (!currentStats.isFile() && !currentStats.isSymbolicLink())
    throw new UnwritableFile(`${path} cannot be written: it is no file`)
}

/**
 * Renames the file to its path. If nothing may be replaced, a file that another process created in the meantime
 * remains.
 */
const moveToTarget = async (half: string, path: string, replace: boolean): Promise<void> => {
  if (replace) return rename(half, path)
  try {
    await link(half, path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') throw new FileExists(path)
    // Some file systems do not support hard links.
    await checkTarget(path, false)
    return rename(half, path)
  }
  await rm(half)
}

/**
 * A file that is written completely or not at all: it is written next to its path under another name, synced, and
 * renamed.
 * @throws UnwritableFile before anything is written; from `finish` if the file was created in the meantime
 */
export const fileSink = async (
  path: string,
  { mode = 0o600, replace = true }: FileOptions = {},
): Promise<Sink> => {
  await checkTarget(path, replace)
  const directory = dirname(path)
  // A random name, because two containers that share a folder may have the same process id.
  const half = join(directory, `.${basename(path)}.${randomUUID()}.part`)
  const file = await open(half, 'wx', mode).catch((cause: NodeJS.ErrnoException) => {
    const reason = cause.code === 'ENOENT' ? `there is no folder ${directory}; make it first` : cause.message
    throw new UnwritableFile(`${path} cannot be written: ${reason}`, { cause })
  })
  return {
    write: async (data) => {
      await file.writeFile(data)
    },
    finish: async () => {
      await file.sync()
      await file.close()
      await moveToTarget(half, path, replace)
      await syncDirectory(directory)
    },
    abandon: async () => {
      await file.close().catch(() => undefined)
      await rm(half, { force: true })
    },
  }
}

/** @throws UnwritableFile, or the error of the disk; then the file is unchanged */
export const writeFileAtomically = async (
  path: string,
  data: string,
  options?: FileOptions,
): Promise<void> => {
  const sink = await fileSink(path, options)
  try {
    await sink.write(data)
    await sink.finish()
  } catch (error) {
    await sink.abandon()
    throw error
  }
}

/** A stream such as standard output. It writes at the speed of the reader and does not close the stream. */
export const streamSink = (stream: Writable): Sink => {
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => undefined)
  stream.once('error', broken.reject)
  return {
    write: async (data) => {
      if (data.length > 0 && !stream.write(data)) await Promise.race([once(stream, 'drain'), broken.promise])
    },
    finish: async () => {
      const flushed = Promise.withResolvers<void>()
      stream.write('', () => flushed.resolve())
      await Promise.race([flushed.promise, broken.promise])
    },
    abandon: async () => undefined,
  }
}
