import type { IncomingMessage } from 'node:http'
import { refuse } from './errors.ts'

export const bodyLimitBytes = 256 * 1024

const tooLarge = () => refuse('payload_too_large', 'the body is above 256 KiB')

/** The most that a body can take: what is declared, or the limit where nothing is. */
const atMost = ({ headers }: IncomingMessage): number => {
  const declared = Number(headers['content-length'] ?? Number.NaN)
  return Number.isNaN(declared) ? bodyLimitBytes : declared
}

/** A body that is read. */
export type Reading = {
  /** What it takes at the most. */
  readonly bytes: number
  /** Whether all of it came with the headers. */
  readonly there: boolean
  /** Ends the reading with this error, unless it has ended. */
  fail(error: Error): void
}

/**
 * Reads a body of at most 256 KiB and tells once of its bytes, or of what went wrong. What comes after an error is read and
 * thrown away: unread, it would stop the connection.
 * @throws payload_too_large when a larger one is declared
 */
export const readBody = (
  request: IncomingMessage,
  done: (error: Error | null, bytes: Buffer | null) => void,
): Reading => {
  const bytes = atMost(request)
  if (bytes > bodyLimitBytes) throw tooLarge()
  const chunks: Buffer[] = []
  let length = 0
  let ended = false
  const end = (error: Error | null): void => {
    if (ended) return
    ended = true
    request.off('data', take).off('end', finish).off('error', end).resume()
    done(error, error === null ? Buffer.concat(chunks, length) : null)
  }
  const take = (chunk: Buffer): void => {
    length += chunk.length
    if (length > bodyLimitBytes) end(tooLarge())
    else chunks.push(chunk)
  }
  const finish = (): void => end(null)
  request.on('data', take).on('end', finish).on('error', end)
  return { bytes, there: request.complete, fail: end }
}
