import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { link, lstat, open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Writable } from 'node:stream'

/** Where an export goes. Nothing of it can be seen before `finish`, where that is possible. */
export type Sink = {
  write(data: string | Buffer): Promise<void>
  finish(): Promise<void>
  /** After an error: leaves nothing behind where that is possible. */
  abandon(): Promise<void>
}

/** The file cannot be written where it was asked for; nothing was. */
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
  /** Who may read it; left out: its owner alone. */
  readonly mode?: number
  /** Whether a file that is there may be replaced; left out: it may. */
  readonly replace?: boolean
}

/** A file has that name already, and must not be replaced. */
export class FileExists extends UnwritableFile {
  constructor(path: string) {
    super(`${path} exists: name another file, or replace it with --force`)
  }
}

/** @throws UnwritableFile for what must not be replaced */
const checkPlace = async (path: string, replace: boolean): Promise<void> => {
  const there = await lstat(path).catch(() => null)
  if (there === null) return
  if (!replace) throw new FileExists(path)
  if (!there.isFile() && !there.isSymbolicLink())
    throw new UnwritableFile(`${path} cannot be written: it is no file`)
}

/** Gives a file its place. Where nothing may be replaced, one that somebody made meanwhile stays. */
const putInPlace = async (half: string, path: string, replace: boolean): Promise<void> => {
  if (replace) return rename(half, path)
  try {
    await link(half, path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') throw new FileExists(path)
    // Some file systems have no second names.
    await checkPlace(path, false)
    return rename(half, path)
  }
  await rm(half)
}

/**
 * A file that is written whole or not at all: beside its place under another name, synced, then given its name.
 * @throws UnwritableFile before anything is written; from `finish` where the file was made meanwhile
 */
export const fileSink = async (
  path: string,
  { mode = 0o600, replace = true }: FileOptions = {},
): Promise<Sink> => {
  await checkPlace(path, replace)
  const directory = dirname(path)
  // Two containers that share a folder may have one process id.
  const half = join(directory, `.${basename(path)}.${randomUUID()}.part`)
  const file = await open(half, 'wx', mode).catch((cause: NodeJS.ErrnoException) => {
    const why = cause.code === 'ENOENT' ? `there is no folder ${directory}; make it first` : cause.message
    throw new UnwritableFile(`${path} cannot be written: ${why}`, { cause })
  })
  return {
    write: async (data) => {
      await file.writeFile(data)
    },
    finish: async () => {
      await file.sync()
      await file.close()
      await putInPlace(half, path, replace)
      await syncDirectory(directory)
    },
    abandon: async () => {
      await file.close().catch(() => undefined)
      await rm(half, { force: true })
    },
  }
}

/** @throws UnwritableFile, or what the disk says; then the file is as it was */
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

/** A stream such as standard output, at the pace of whoever reads it. It stays open. */
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
