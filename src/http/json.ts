import { isUtf8 } from 'node:buffer'
import { refuse } from './errors.ts'

/** Deeper nesting than any documented body has; a limit on the walk below. */
const maxDepth = 32

/** A body as it was parsed. `overflowing`: it holds a number that no double is (1e999), which schemas refuse. */
export type ParsedJson = {
  readonly value: unknown
  readonly overflowing: boolean
  /** The bytes as they came, unparsed: on routes with `rawBody` only. */
  readonly raw?: Buffer
}

type Walk = { members: number; overflowing: boolean; readonly escapes: boolean }

const checkText = (text: string, what: string): void => {
  if (text.includes('\u0000')) throw refuse('invalid_body', `${what} holds a NUL character`)
  if (!text.isWellFormed()) throw refuse('invalid_body', `${what} holds half of a surrogate pair`)
}

const walk = (value: unknown, depth: number, seen: Walk): void => {
  if (typeof value === 'string') {
    if (seen.escapes) checkText(value, 'a text')
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) seen.overflowing = true
  } else if (typeof value === 'object' && value !== null) {
    if (depth === maxDepth) throw refuse('invalid_body', `the body is nested deeper than ${maxDepth} levels`)
    if (Array.isArray(value)) for (const item of value) walk(item, depth + 1, seen)
    else walkMembers(value as Record<string, unknown>, depth, seen)
  }
}

const walkMembers = (object: Record<string, unknown>, depth: number, seen: Walk): void => {
  for (const key of Object.keys(object)) {
    seen.members++
    if (key === '__proto__') throw refuse('invalid_body', 'the field name "__proto__" is not accepted')
    if (seen.escapes) checkText(key, 'a field name')
    walk(object[key], depth + 1, seen)
  }
}

const quote = 0x22
const backslash = 0x5c
const colon = 0x3a

/** Members that a valid JSON text writes: each has one colon outside of texts. More than were parsed means a duplicate. */
const countMembers = (text: string): number => {
  let members = 0
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === colon) members++
    else if (char === quote) at = endOfText(text, at)
  }
  return members
}

const endOfText = (text: string, start: number): number => {
  let at = start + 1
  for (let char = text.charCodeAt(at); char !== quote; char = text.charCodeAt(++at))
    if (char === backslash) at++
  return at
}

/** Numbers as long as this, or below 1 by an exponent, may be fractions that a double reads as whole: 5.0000000000000001. */
const longNumber = /[\d.]{16}|e-\d/i

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown

/** Fractions that a double rounds to a whole number become NaN, so that a schema refuses them (never rounds them). */
const parseExactly = (text: string): unknown => {
  const reviver: Reviver = (_key, value, { source }) =>
    Number.isInteger(value) && source !== undefined && isFraction(source) ? Number.NaN : value
  return JSON.parse(text, reviver as Parameters<typeof JSON.parse>[1])
}

/** Whether a JSON number, as written, has digits other than 0 below its point. */
export const isFraction = (source: string): boolean => {
  const [mantissa = '', exponent = '0'] = source.toLowerCase().split('e')
  const [whole = '', decimals = ''] = mantissa.replace('-', '').split('.')
  const digits = `${whole}${decimals}`.replace(/0+$/, '')
  if (digits.replace(/^0+/, '') === '') return false
  const trailingZeros = whole.length + decimals.length - digits.length
  return decimals.length - Number(exponent) > trailingZeros
}

/** Some clients begin a text with the mark of its byte order; RFC 8259, 8.1 lets a reader ignore it. */
const withoutMark = (body: Buffer): Buffer =>
  body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body

/**
 * Parses a JSON body and refuses what no client means: bytes that are no UTF-8, broken JSON, fields that are named
 * twice, `__proto__`, NUL and lone surrogates (the log takes neither), and deep nesting.
 * @returns `value` undefined for an empty body
 * @throws invalid_body
 */
export const parseJson = (body: Buffer): ParsedJson => {
  const bytes = withoutMark(body)
  if (bytes.length === 0) return { value: undefined, overflowing: false }
  if (!isUtf8(bytes)) throw refuse('invalid_body', 'the body is not UTF-8')
  const text = bytes.toString('utf8')
  const value = parseText(text)
  const seen: Walk = { members: 0, overflowing: false, escapes: text.includes('\\u') }
  walk(value, 0, seen)
  if (countMembers(text) !== seen.members) throw refuse('invalid_body', 'the body names a field twice')
  return { value, overflowing: seen.overflowing }
}

const parseText = (text: string): unknown => {
  try {
    return longNumber.test(text) ? parseExactly(text) : JSON.parse(text)
  } catch {
    throw refuse('invalid_body', 'the body is not valid JSON')
  }
}
