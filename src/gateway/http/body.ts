import { BadMessage, type Field, listOf, ownHeaders, singleHeader, trimBlanks } from './message-head.ts'

/** How the end of a body is found. */
export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  /** The body ends with the connection. Responses only. */
  | { readonly kind: 'close' }

const none: Framing = { kind: 'none' }
const wholeNumber = /^\d{1,15}$/

/**
 * The framing of a request body. @returns null: the fields define no body
 * @throws BadMessage for ambiguous framing, which two parsers may read differently
 */
export const requestFraming = (fields: readonly Field[], version: 0 | 1): Framing | null => {
  const length = singleHeader(fields, 'content-length')
  const codings = listOf(fields, 'transfer-encoding')
  const encoded = fields.some(({ name }) => name === 'transfer-encoding')
  if (encoded) {
    if (length !== null) throw new BadMessage('both Content-Length and Transfer-Encoding')
    if (version === 0) throw new BadMessage('Transfer-Encoding in HTTP/1.0')
    if (codings.length !== 1 || codings[0] !== 'chunked')
      throw new BadMessage('a Transfer-Encoding other than chunked')
    return { kind: 'chunked' }
  }
  if (length === null) return null
  if (!wholeNumber.test(length)) throw new BadMessage('a Content-Length that is not a number')
  return length === '0' ? none : { kind: 'length', length: Number(length) }
}

const lengthNumber = /^0*\d{1,15}$/

/** The length that all members of all Content-Length fields have in common. @throws BadMessage if there is none */
const agreedLength = (members: readonly string[]): number => {
  const [length, ...others] = members.map((member) => (lengthNumber.test(member) ? Number(member) : null))
  if (length === undefined || length === null || others.some((other) => other !== length))
    throw new BadMessage('a Content-Length that is not one number')
  return length
}

/** Replaces all fields of this name with one line. */
const withOnly = (fields: readonly Field[], name: string, value: string): readonly Field[] => {
  const only = { name: name.toLowerCase(), value, line: `${name}: ${value}` }
  const [first, second] = fields.filter((field) => field.name === only.name)
  if (first?.value === value && second === undefined) return fields
  const at = fields.findIndex((field) => field.name === only.name)
  return fields.flatMap((field, n) => (n === at ? [only] : field.name === only.name ? [] : [field]))
}
const without = (fields: readonly Field[], name: string): readonly Field[] =>
  fields.filter((field) => field.name !== name)

/** The framing of a response body, and the forwarded fields, which state that framing once. */
export type ResponseFraming = {
  readonly framing: Framing
  readonly fields: readonly Field[]
  /** The target's connection must not be reused, because its framing is unreliable (RFC 9112 section 6.1). */
  readonly faulty: boolean
}

/**
 * The framing of a response body, by RFC 9112 section 6.3.
 * @param bodyless whether the status or the request's method rules a body out
 * @throws BadMessage when the length cannot be determined
 */
export const responseFraming = (
  fields: readonly Field[],
  version: 0 | 1,
  bodyless: boolean,
): ResponseFraming => {
  // `identity` (RFC 2616) has no effect.
  const codings = listOf(fields, 'transfer-encoding').filter((coding) => coding !== 'identity')
  const lengths = listOf(fields, 'content-length')
  const hasLength = fields.some(({ name }) => name === 'content-length')
  if (codings.length > 0) {
    // Transfer-Encoding overrides Content-Length, which is removed before the message is forwarded (item 3).
    const rest = without(fields, 'content-length')
    const faulty = hasLength || version === 0
    if (bodyless) return { framing: none, fields: rest, faulty }
    // Some servers send the field twice for one coding.
    if (codings.every((coding) => coding === 'chunked'))
      return { framing: { kind: 'chunked' }, fields: withOnly(rest, 'Transfer-Encoding', 'chunked'), faulty }
    const isLast = codings.indexOf('chunked') === codings.length - 1
    return { framing: { kind: isLast ? 'chunked' : 'close' }, fields: rest, faulty: true }
  }
  const rest = without(fields, 'transfer-encoding')
  if (!hasLength) return { framing: bodyless ? none : { kind: 'close' }, fields: rest, faulty: false }
  const length = agreedLength(lengths)
  const framing: Framing = bodyless || length === 0 ? none : { kind: 'length', length }
  return { framing, fields: withOnly(rest, 'Content-Length', String(length)), faulty: false }
}

export type BodyReader = {
  /**
   * Consumes the bytes of the body and passes on their forwarded form.
   * @returns how many of the bytes belong to the body. @throws BadMessage
   */
  take(chunk: Buffer, pass: (piece: Buffer) => void): number
  readonly done: boolean
}

const lengthReader = (length: number): BodyReader => {
  let left = length
  return {
    take: (chunk, pass) => {
      const taken = Math.min(left, chunk.length)
      left -= taken
      pass(chunk.subarray(0, taken))
      return taken
    },
    get done() {
      return left === 0
    },
  }
}

const untilClose: BodyReader = {
  take: (chunk, pass) => {
    pass(chunk)
    return chunk.length
  },
  done: false,
}

const cr = 0x0d
const lf = 0x0a
/** The longest line with a chunk size and its extensions, bytes. */
const maxSizeLine = 256
const maxTrailers = 8_192
const sizeLine = /^([0-9A-Fa-f]{1,12})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/
const trailerLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t\x20-\x7e\x80-\xff]*$/
/** Fields that frame or route a message are not allowed as trailers (RFC 9110 section 6.5.1). */
const noTrailer =
  /^(?:content-length|transfer-encoding|host|trailer|connection|te|upgrade|proxy-.*|authorization)$/i

/**
 * Checks the chunks of a request (RFC 9112 section 7.1) without copying them. Accepted input has exactly one meaning.
 * @throws BadMessage from `take`
 */
const strictChunks = (): BodyReader => {
  let state: 'size' | 'data' | 'data_end' | 'trailers' | 'done' = 'size'
  let left = 0
  let line = ''
  let trailers = 0

  /** The line that ends in this chunk. Null: the line is incomplete, and its first part is stored in `line`. */
  const lineFrom = (chunk: Buffer, at: number, max: number): { text: string; next: number } | null => {
    const end = chunk.indexOf(lf, at)
    const stop = end === -1 ? chunk.length : end
    if (line.length + stop - at > max + 1) throw new BadMessage('a line of a chunk is too long')
    line += chunk.toString('latin1', at, stop)
    if (end === -1) return null
    if (!line.endsWith('\r')) throw new BadMessage('a line of a chunk does not end in CR LF')
    const text = line.slice(0, -1)
    line = ''
    return { text, next: end + 1 }
  }
  const readSize = (chunk: Buffer, at: number): number => {
    const found = lineFrom(chunk, at, maxSizeLine)
    if (found === null) return chunk.length
    const size = sizeLine.exec(found.text)?.[1]
    if (size === undefined) throw new BadMessage('a chunk without a size')
    left = Number.parseInt(size, 16)
    state = left === 0 ? 'trailers' : 'data'
    return found.next
  }
  const readData = (chunk: Buffer, at: number): number => {
    const taken = Math.min(left, chunk.length - at)
    left -= taken
    if (left === 0) {
      state = 'data_end'
      left = 2
    }
    return at + taken
  }
  const readDataEnd = (chunk: Buffer, at: number): number => {
    if (chunk[at] !== (left === 2 ? cr : lf)) throw new BadMessage('a chunk is longer than its size')
    left -= 1
    if (left === 0) state = 'size'
    return at + 1
  }
  const readTrailer = (chunk: Buffer, at: number): number => {
    const found = lineFrom(chunk, at, maxTrailers)
    if (found === null) return chunk.length
    if (found.text === '') state = 'done'
    else {
      const name = trailerLine.exec(found.text)?.[1]
      trailers += found.text.length
      if (name === undefined || noTrailer.test(name) || trailers > maxTrailers)
        throw new BadMessage('a trailer that may not stand there')
    }
    return found.next
  }
  return {
    take: (chunk, pass) => {
      let at = 0
      while (at < chunk.length && state !== 'done') {
        if (state === 'size') at = readSize(chunk, at)
        else if (state === 'data') at = readData(chunk, at)
        else if (state === 'data_end') at = readDataEnd(chunk, at)
        else at = readTrailer(chunk, at)
      }
      pass(chunk.subarray(0, at))
      return at
    },
    get done() {
      return state === 'done'
    },
  }
}

/** The longest line of a chunked response, and the longest sum of its trailers, bytes. */
const maxLenientLine = 16_384
const maxLenientTrailers = 65_536
const lenientSize = /^[ \t]*([0-9A-Fa-f]+)[ \t]*(?:;.*)?$/
const cleanSizeLine = /^[0-9A-Fa-f]{1,12}(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n$/
const trailerName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** The forwarded form of a response's trailer line; empty: the line is dropped. */
const lenientTrailer = (text: string): string => {
  const colon = text.indexOf(':')
  const name = trimBlanks(text.slice(0, Math.max(colon, 0)))
  if (!trailerName.test(name) || noTrailer.test(name) || ownHeaders.has(name.toLowerCase())) return ''
  return `${name}${text.slice(colon)}\r\n`.replace(/\0|\r(?!\n$)/g, ' ')
}

/**
 * Reads the chunks of a response. Accepts lines that end in LF only, and sizes with blanks around them. The forwarded
 * form is always correct. Correct input is not copied.
 * @param decode forwards the data without chunks, as a client of HTTP/1.0 needs it (RFC 9112 section 7.1.3)
 */
const lenientChunks = (decode: boolean): BodyReader => {
  let state: 'size' | 'data' | 'data_end' | 'trailers' | 'done' = 'size'
  let left = 0
  let afterReturn = false
  let line = ''
  let trailers = 0

  return {
    take: (chunk, pass) => {
      let at = 0
      let from = 0
      /** Passes on the bytes read so far, and `instead` in place of the bytes up to `to`. */
      const replace = (to: number, instead: string): void => {
        if (at > from) pass(chunk.subarray(from, at))
        if (instead !== '' && !decode) pass(Buffer.from(instead, 'latin1'))
        at = to
        from = to
      }
      /** The next line with its end. Null: the line is incomplete, and its first part is stored in `line`. */
      const nextLine = (): { readonly raw: string; readonly to: number; readonly here: boolean } | null => {
        const end = chunk.indexOf(lf, at)
        const to = end === -1 ? chunk.length : end + 1
        if (line.length + to - at > maxLenientLine) throw new BadMessage('a line of a chunk is too long')
        const raw = line + chunk.toString('latin1', at, to)
        const here = line === ''
        line = end === -1 ? raw : ''
        if (end !== -1) return { raw, to, here }
        replace(to, '')
        return null
      }
      const readSize = (): void => {
        const found = nextLine()
        if (found === null) return
        const { raw, to, here } = found
        const text = raw.slice(0, raw.endsWith('\r\n') ? -2 : -1)
        const digits = lenientSize.exec(text)?.[1]?.replace(/^0+/, '')
        if (digits === undefined || digits.length > 12) throw new BadMessage('a chunk without a size')
        left = digits === '' ? 0 : Number.parseInt(digits, 16)
        if (here && !decode && cleanSizeLine.test(raw)) at = to
        else replace(to, `${left.toString(16)}\r\n`)
        state = left === 0 ? 'trailers' : 'data'
      }
      const readData = (): void => {
        const taken = Math.min(left, chunk.length - at)
        left -= taken
        at += taken
        if (left === 0) state = 'data_end'
      }
      const readDataEnd = (): void => {
        const code = chunk[at]
        if (code === lf) {
          if (decode) replace(at + 1, '')
          else if (afterReturn) at += 1
          else replace(at + 1, '\r\n')
          afterReturn = false
          state = 'size'
        } else if (code === cr && !afterReturn) {
          afterReturn = true
          if (decode) replace(at + 1, '')
          else at += 1
        } else throw new BadMessage('a chunk is longer than its size')
      }
      const readTrailer = (): void => {
        const found = nextLine()
        if (found === null) return
        const { raw, to } = found
        trailers += raw.length
        if (trailers > maxLenientTrailers) throw new BadMessage('the trailers are too long')
        const text = raw.slice(0, raw.endsWith('\r\n') ? -2 : -1)
        if (text === '') state = 'done'
        replace(to, text === '' ? '\r\n' : lenientTrailer(text))
      }
      while (at < chunk.length && state !== 'done') {
        if (state === 'size') readSize()
        else if (state === 'data') readData()
        else if (state === 'data_end') readDataEnd()
        else readTrailer()
      }
      if (at > from) pass(chunk.subarray(from, at))
      return at
    },
    get done() {
      return state === 'done'
    },
  }
}

const noBody: BodyReader = { take: () => 0, done: true }

/** @param of a request, a response with forwarded chunks, or a response with decoded chunks */
export const readerOf = (framing: Framing, of: 'request' | 'response' | 'decoded'): BodyReader => {
  switch (framing.kind) {
    case 'none':
      return noBody
    case 'length':
      return lengthReader(framing.length)
    case 'chunked':
      return of === 'request' ? strictChunks() : lenientChunks(of === 'decoded')
    case 'close':
      return untilClose
    default:
      return framing satisfies never
  }
}
