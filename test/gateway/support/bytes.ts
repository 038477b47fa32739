import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'

/** Bytes with a recognizable position: no piece of the stream equals another one within megabytes. */
const pattern = ((): Buffer => {
  // A prime, so that no power of two falls together with the period.
  const bytes = Buffer.alloc(1_048_583)
  let state = 0x2545f491
  for (let at = 0; at < bytes.length; at++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    bytes[at] = state & 0xff
  }
  return bytes
})()

/** The bytes of the stream from one place on, so many of them or fewer. */
const piece = (from: number, length: number): Buffer => {
  const at = from % pattern.length
  return pattern.subarray(at, Math.min(at + length, pattern.length))
}

const fastBytes = 65_536

const drainOrClose = (stream: Writable): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done)
      resolve()
    }
    stream.on('drain', done).on('close', done)
    if (stream.closed) done()
  })

/**
 * Writes so many bytes of the stream as fast as the socket takes them. Ends quietly when the socket does.
 * @param pieceBytes of one write; small ones go out one by one
 */
export const pour = async (socket: Writable, bytes: number, pieceBytes = fastBytes): Promise<void> => {
  for (let sent = 0; sent < bytes && socket.writable; ) {
    const next = piece(sent, Math.min(pieceBytes, bytes - sent))
    sent += next.length
    if (pieceBytes < fastBytes) await new Promise((resolve) => setImmediate(resolve))
    if (!socket.write(next)) await drainOrClose(socket)
  }
}

export type Read = { readonly bytes: number; readonly whole: boolean; readonly reset: boolean }

/**
 * Reads up to the end and compares each byte with the stream.
 * @param pauseEvery bytes between two pauses of some milliseconds; null: as fast as they come
 * @throws at the first byte that is another one
 */
export const drink = async (socket: Readable, pauseEvery: number | null = null): Promise<Read> => {
  let bytes = 0
  let sinceP = 0
  let reset = false
  try {
    for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      for (let at = 0; at < chunk.length; ) {
        const expected = piece(bytes + at, chunk.length - at)
        if (!expected.equals(chunk.subarray(at, at + expected.length)))
          throw new Error(`other bytes after ${bytes + at}`)
        at += expected.length
      }
      bytes += chunk.length
      sinceP += chunk.length
      if (pauseEvery === null || sinceP < pauseEvery) continue
      sinceP = 0
      await sleep(5 + (bytes % 8))
    }
  } catch (error) {
    if (
      (error as NodeJS.ErrnoException).code !== 'ECONNRESET' &&
      (error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE'
    )
      throw error
    reset = true
  }
  return { bytes, whole: socket.readableEnded, reset }
}
