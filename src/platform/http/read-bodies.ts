import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyContentTypeParser, FastifyInstance, FastifyRequest } from 'fastify'
import type { Reading } from './body.ts'
import { readBody } from './body.ts'
import { ApiError } from './errors.ts'
import type { Exchange } from './exchange.ts'
import { unsupportedMediaType } from './fault.ts'
import type { Hold } from './hold.ts'
import type { ParsedJson } from './json.ts'
import { parseJson } from './json.ts'

/** What becomes of a request whose body did not come with its headers. Both may throw a refusal. */
export type Door = {
  /** The body is on its way. */
  wait(exchange: Exchange, reading: Reading): void
  /** It is there. */
  enter(exchange: Exchange): void
  readonly hold: Hold
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
export const readBodies = (app: FastifyInstance, door: Door): void => {
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
          door.hold(request.exchange, () => there(bytes))
        } catch (refusal) {
          done(refusal as Error)
        }
      })
      if (reading.there) return
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
