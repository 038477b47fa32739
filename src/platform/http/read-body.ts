import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { FastifyContentTypeParser, FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError, refuse } from './errors.ts'
import type { Exchange } from './exchange.ts'
import { unsupportedMediaType } from './faults.ts'
import { type ParsedJson, parseJson } from './json.ts'
import type { MeasureEventLoopDelay } from './overload.ts'

export const bodyLimitBytes = 256 * 1024

const tooLarge = () => refuse('payload_too_large', 'the body is above 256 KiB')

/** The most that a body can take: what is declared, or the limit where nothing is. */
const atMost = ({ headers }: IncomingMessage): number => {
  const declared = Number(headers['content-length'] ?? Number.NaN)
  return Number.isNaN(declared) ? bodyLimitBytes : declared
}

/** A body that is read. */
export type BodyReading = {
  /** What it takes at the most. */
  readonly bytes: number
  /** Whether all of it came with the headers. */
  readonly isComplete: boolean
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
): BodyReading => {
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
  return { bytes, isComplete: request.complete, fail: end }
}

/** What becomes of a request whose body did not come with its headers. Both may throw a refusal. */
export type BodyHooks = {
  /** The body is on its way. */
  wait(exchange: Exchange, reading: BodyReading): void
  /** It is there. */
  enter(exchange: Exchange): void
  readonly measureEventLoopDelay: MeasureEventLoopDelay
}

/** Whether the bytes are the text itself: `identity` is the name of no encoding (RFC 9110, 8.4.1 and 12.5.3). */
const isPlainUtf8 = (headers: IncomingHttpHeaders): boolean => {
  const charset = /charset="?([^";\s]+)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8'
  const encoding = headers['content-encoding'] ?? 'identity'
  return charset.toLowerCase() === 'utf-8' && encoding.trim().toLowerCase() === 'identity'
}

const parsed = (request: FastifyRequest, bytes: Buffer): ParsedJson => {
  const { compiled } = request.routeOptions.config
  if (compiled?.route.rawBody === true) return { value: undefined, overflowing: false, raw: bytes }
  try {
    if (compiled?.route.form === true || !isPlainUtf8(request.headers)) throw unsupportedMediaType()
    return parseJson(bytes)
  } catch (error) {
    throw error instanceof ApiError && compiled ? compiled.unread(error) : error
  }
}

/** A form is for pages alone: no operation of the API takes one. */
const formOf = (request: FastifyRequest, bytes: Buffer): ParsedJson => {
  if (request.routeOptions.config.compiled?.route.form !== true || !isPlainUtf8(request.headers))
    throw unsupportedMediaType()
  return { value: undefined, overflowing: false, raw: bytes }
}

/** Reads the bodies of an app: JSON, and forms on the routes of pages. */
export const readBodies = (app: FastifyInstance, door: BodyHooks): void => {
  app.removeAllContentTypeParsers()
  const reader = (read: (request: FastifyRequest, bytes: Buffer) => ParsedJson) =>
    ((request, _payload, done) => {
      const there = (bytes: Buffer): void => {
        door.enter(request.exchange)
        done(null, read(request, bytes))
      }
      const reading = readBody(request.raw, (error, bytes) => {
        if (bytes === null) return done(error)
        try {
          door.measureEventLoopDelay(request.exchange, () => there(bytes))
        } catch (refusal) {
          done(refusal as Error)
        }
      })
      if (reading.isComplete) return
      try {
        door.wait(request.exchange, reading)
      } catch (refusal) {
        reading.fail(refusal as Error)
      }
    }) satisfies FastifyContentTypeParser
  app.addContentTypeParser('application/json', reader(parsed))
  app.addContentTypeParser('application/x-www-form-urlencoded', reader(formOf))
  app.addContentTypeParser('*', (_request, _payload, done) => done(unsupportedMediaType()))
}
