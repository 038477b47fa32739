import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { FastifyContentTypeParser, FastifyInstance, FastifyRequest } from 'fastify'
import { trimEnd } from '../../kernel/formats.ts'
import { ApiError, refuse, unsupportedMediaType } from './errors.ts'
import type { Exchange, ParsedJson } from './exchange.ts'
import type { MeasureEventLoopDelay } from './rate-limit.ts'

const bodyLimitBytes = 256 * 1024

const tooLarge = () => refuse('payload_too_large', 'the body is above 256 KiB')

/** The maximum size of the body, bytes: the declared length, or the limit if none is declared. */
const atMost = ({ headers }: IncomingMessage): number => {
  const declared = Number(headers['content-length'] ?? Number.NaN)
  return Number.isNaN(declared) ? bodyLimitBytes : declared
}

/** A body in transit. */
type BodyReading = {
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
const readBody = (
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
type BodyHooks = {
  /** The body is in transit. */
  wait(exchange: Exchange, reading: BodyReading): void
  /** The body is complete. */
  enter(exchange: Exchange): void
  readonly measureEventLoopDelay: MeasureEventLoopDelay
}

/** Other names of UTF-8, and ASCII, which is a part of it. */
const utf8Names: ReadonlySet<string> = new Set(['utf-8', 'utf8', 'us-ascii', 'ascii'])

/** Whether the bytes are the plain text: `identity` means no encoding (RFC 9110, 8.4.1 and 12.5.3). */
const isPlainUtf8 = (headers: IncomingHttpHeaders): boolean => {
  const charset = /charset="?([^";\s]+)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8'
  const encoding = headers['content-encoding'] ?? 'identity'
  return utf8Names.has(charset.toLowerCase()) && encoding.trim().toLowerCase() === 'identity'
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

/** Deeper than any documented body. It limits the recursion of `walk`. */
const maxDepth = 32

/**
 * More than any documented body has (an extension has 1,000 addresses). Reading and checking a body blocks all other
 * requests, and the time grows with the number of values. 256 KiB can have 130,000 values, which took a third of a
 * second.
 */
const maxValues = 2_000

/**
 * The longest useful number, in characters: a double has up to 17 significant digits and an exponent. Zeros may
 * surround them.
 */
const maxNumberLength = 100

type Walk = { members: number; overflowing: boolean; readonly escapes: boolean }

const checkText = (text: string, label: string): void => {
  if (text.includes('\u0000')) throw refuse('invalid_body', `${label} holds a NUL character`)
  if (!text.isWellFormed()) throw refuse('invalid_body', `${label} holds half of a surrogate pair`)
}

const walk = (value: unknown, depth: number, walkState: Walk): void => {
  if (typeof value === 'string') {
    if (walkState.escapes) checkText(value, 'a text')
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) walkState.overflowing = true
  } else if (typeof value === 'object' && value !== null) {
    if (depth === maxDepth) throw refuse('invalid_body', `the body is nested deeper than ${maxDepth} levels`)
    if (Array.isArray(value)) for (const item of value) walk(item, depth + 1, walkState)
    else walkMembers(value as Record<string, unknown>, depth, walkState)
  }
}

const walkMembers = (object: Record<string, unknown>, depth: number, walkState: Walk): void => {
  for (const key of Object.keys(object)) {
    walkState.members++
    if (key === '__proto__') throw refuse('invalid_body', 'the field name "__proto__" is not accepted')
    if (walkState.escapes) checkText(key, 'a field name')
    walk(object[key], depth + 1, walkState)
  }
}

const quote = 0x22
const backslash = 0x5c
const colon = 0x3a
const comma = 0x2c

type Written = { readonly members: number; readonly commas: number; readonly longestNumber: number }

/**
 * Counts what a JSON text has outside of its strings, before it is parsed. The text may be invalid. `members`: the
 * colons, one per member; a higher count than the parsed members means a duplicate. `commas`: one before each value of
 * an object or list except the first. `longestNumber`: in characters.
 */
const written = (text: string): Written => {
  let members = 0
  let commas = 0
  let longestNumber = 0
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === colon) members++
    else if (char === comma) commas++
    else if (char === quote) at = endOfText(text, at)
    else if (isOfNumber(char)) {
      const end = endOfNumber(text, at)
      longestNumber = Math.max(longestNumber, end - at)
      at = end - 1
    }
  }
  return { members, commas, longestNumber }
}

/** A character of a number: a digit, a point, a sign, or the e of an exponent. */
const isOfNumber = (char: number): boolean =>
  (char >= 0x30 && char <= 0x39) ||
  char === 0x2e ||
  char === 0x2d ||
  char === 0x2b ||
  char === 0x65 ||
  char === 0x45

const endOfNumber = (text: string, start: number): number => {
  let at = start + 1
  while (at < text.length && isOfNumber(text.charCodeAt(at))) at++
  return at
}

const endOfText = (text: string, start: number): number => {
  let at = start + 1
  for (; at < text.length && text.charCodeAt(at) !== quote; at++) if (text.charCodeAt(at) === backslash) at++
  return at
}

/**
 * A number this long, or below 1 by an exponent, may be a fraction that a double rounds to a whole number:
 * 5.0000000000000001.
 */
const longNumber = /[\d.]{16}|e-\d/i

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown

/** Turns a fraction that a double would round to a whole number into NaN, so that a schema refuses it. */
const parseExactly = (text: string): unknown => {
  const reviver: Reviver = (_key, value, { source }) =>
    Number.isInteger(value) && source !== undefined && isFraction(source) ? Number.NaN : value
  return JSON.parse(text, reviver as Parameters<typeof JSON.parse>[1])
}

/** Whether a JSON number, as written, has a fractional part other than 0. */
export const isFraction = (source: string): boolean => {
  const [mantissa = '', exponent = '0'] = source.toLowerCase().split('e')
  const [whole = '', decimals = ''] = mantissa.replace('-', '').split('.')
  const digits = `${whole}${decimals}`
  const significant = trimEnd(digits, '0')
  if (significant === '') return false
  return decimals.length - Number(exponent) > digits.length - significant.length
}

/** Some clients start the text with a byte order mark. RFC 8259, 8.1 allows a reader to ignore it. */
const withoutMark = (body: Buffer): Buffer =>
  body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body

/**
 * Parses a JSON body. It refuses bytes that are not UTF-8, invalid JSON, duplicate fields, `__proto__`, NUL and lone
 * surrogates (the log accepts neither), deep nesting, thousands of values, and very long numbers. Its time grows
 * linearly with the length of the body.
 * @returns `value` undefined for an empty body
 * @throws invalid_body
 */
export const parseJson = (body: Buffer): ParsedJson => {
  const bytes = withoutMark(body)
  if (bytes.length === 0) return { value: undefined, overflowing: false }
  if (!isUtf8(bytes)) throw refuse('invalid_body', 'the body is not UTF-8')
  const text = bytes.toString('utf8')
  const { members, commas, longestNumber } = written(text)
  if (commas >= maxValues) throw refuse('invalid_body', `the body holds more than ${maxValues} values`)
  if (longestNumber > maxNumberLength)
    throw refuse('invalid_body', `the body holds a number of more than ${maxNumberLength} characters`)
  const value = parseText(text)
  const walkState: Walk = { members: 0, overflowing: false, escapes: text.includes('\\u') }
  walk(value, 0, walkState)
  if (members !== walkState.members) throw refuse('invalid_body', 'the body names a field twice')
  return { value, overflowing: walkState.overflowing }
}

const parseText = (text: string): unknown => {
  try {
    return longNumber.test(text) ? parseExactly(text) : JSON.parse(text)
  } catch {
    throw refuse('invalid_body', 'the body is not valid JSON')
  }
}
