import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { FastifyContentTypeParser, FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError, refuse } from './errors.ts'
import type { Exchange } from './exchange.ts'
import { unsupportedMediaType } from './faults.ts'
import { type ParsedJson, parseJson } from './json.ts'
import type { MeasureEventLoopDelay } from './overload.ts'

export const bodyLimitBytes = 256 * 1024

const tooLarge = () => refuse('payload_too_large', 'the body is above 256 KiB')

/** The maximum size of the body, bytes: the declared length, or the limit if none is declared. */
const atMost = ({ headers }: IncomingMessage): number => {
  const declared = Number(headers['content-length'] ?? Number.NaN)
  return Number.isNaN(declared) ? bodyLimitBytes : declared
}

/** A body in transit. */
export type BodyReading = {
  /** Its maximum size, bytes. */
  readonly bytes: number
  /** Whether it arrived completely with the headers. */
  readonly isComplete: boolean
  /** Ends the reading with this error, unless it has ended. */
  fail(error: Error): void
}

/**
 * Reads a body of at most 256 KiB and calls `done` once, with its bytes or with the error. Data after an error is read
 * and dropped, because unread data would block the connection.
 * @throws payload_too_large if the declared length is larger
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
    request.off('data', onData).off('end', finish).off('error', end).resume()
    done(error, error === null ? Buffer.concat(chunks, length) : null)
  }
  const onData = (chunk: Buffer): void => {
    length += chunk.length
    if (length > bodyLimitBytes) end(tooLarge())
    else chunks.push(chunk)
  }
  const finish = (): void => end(null)
  request.on('data', onData).on('end', finish).on('error', end)
  return { bytes, isComplete: request.complete, fail: end }
}

/** Called for a request whose body did not arrive with its headers. Both functions may throw a refusal. */
export type BodyHooks = {
  /** The body is in transit. */
  wait(exchange: Exchange, reading: BodyReading): void
  /** The body is complete. */
  enter(exchange: Exchange): void
  readonly measureEventLoopDelay: MeasureEventLoopDelay
}

/** Whether the bytes are the plain text: `identity` means no encoding (RFC 9110, 8.4.1 and 12.5.3). */
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

/** Only pages accept forms; no API operation does. */
const formOf = (request: FastifyRequest, bytes: Buffer): ParsedJson => {
  if (request.routeOptions.config.compiled?.route.form !== true || !isPlainUtf8(request.headers))
    throw unsupportedMediaType()
  return { value: undefined, overflowing: false, raw: bytes }
}

/** Installs the body readers of an app: JSON, and forms on page routes. */
export const readBodies = (app: FastifyInstance, hooks: BodyHooks): void => {
  app.removeAllContentTypeParsers()
  const reader = (read: (request: FastifyRequest, bytes: Buffer) => ParsedJson) =>
    ((request, _payload, done) => {
      const onComplete = (bytes: Buffer): void => {
        hooks.enter(request.exchange)
        done(null, read(request, bytes))
      }
      const reading = readBody(request.raw, (error, bytes) => {
        if (bytes === null) return done(error)
        try {
          hooks.measureEventLoopDelay(request.exchange, () => onComplete(bytes))
        } catch (refusal) {
          done(refusal as Error)
        }
      })
      if (reading.isComplete) return
      try {
        hooks.wait(request.exchange, reading)
      } catch (refusal) {
        reading.fail(refusal as Error)
      }
    }) satisfies FastifyContentTypeParser
  app.addContentTypeParser('application/json', reader(parsed))
  app.addContentTypeParser('application/x-www-form-urlencoded', reader(formOf))
  app.addContentTypeParser('*', (_request, _payload, done) => done(unsupportedMediaType()))
}
