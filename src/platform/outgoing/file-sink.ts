import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { link, open, rename, rm } from 'node:fs/promises'
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

/**
 * A file that is replaced whole or not at all: written beside its place under another name, synced, then renamed.
 * @param mode who may read it; left out: its owner alone
 * @param finish `create`: a file that is there already stays, and the end fails with EEXIST
 * @throws UnwritableFile before anything is written
 */
export const fileSink = async (
  path: string,
  mode = 0o600,
  finish: 'create' | 'replace' = 'replace',
): Promise<Sink> => {
  const directory = dirname(path)
  // Two containers that share a folder may have one process id.
  const half = join(directory, `.${basename(path)}.${randomUUID()}.part`)
  const file = await open(half, 'wx', mode).catch((cause: NodeJS.ErrnoException) => {
    throw new UnwritableFile(`${path} cannot be written: ${cause.message}`, { cause })
  })
  return {
    write: async (data) => {
      await file.writeFile(data)
    },
    finish: async () => {
      await file.sync()
      await file.close()
      if (finish === 'replace') await rename(half, path)
      else {
        await link(half, path)
        await rm(half)
      }
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
  mode?: number,
  finish?: 'create' | 'replace',
): Promise<void> => {
  const sink = await fileSink(path, mode, finish)
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
