import { once } from 'node:events'
import { open, rename, rm } from 'node:fs/promises'
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
 * @throws UnwritableFile before anything is written
 */
export const fileSink = async (path: string, mode = 0o600): Promise<Sink> => {
  const directory = dirname(path)
  const half = join(directory, `.${basename(path)}.${process.pid}.part`)
  // One that a killed process left would keep its mode.
  await rm(half, { force: true }).catch(() => undefined)
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
      await rename(half, path)
      await syncDirectory(directory)
    },
    abandon: async () => {
      await file.close().catch(() => undefined)
      await rm(half, { force: true })
    },
  }
}

/** @throws UnwritableFile, or what the disk says; then the file is as it was */
export const writeFileAtomically = async (path: string, data: string, mode?: number): Promise<void> => {
  const sink = await fileSink(path, mode)
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
