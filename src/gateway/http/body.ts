import { BadMessage, type Field, listOf, ownHeaders, trimBlanks } from './message-head.ts'

/** How the end of a body is found. */
export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  /** The body ends with the connection. Responses only. */
  | { readonly kind: 'close' }

const none: Framing = { kind: 'none' }
const lengthNumber = /^0*\d{1,15}$/

/** The length that all members of all Content-Length fields have in common. @throws BadMessage if there is none */
const agreedLength = (members: readonly string[]): number => {
  const [length, ...others] = members.map((member) => (lengthNumber.test(member) ? Number(member) : null))
  if (length === undefined || length === null || others.some((other) => other !== length))
    throw new BadMessage('a Content-Length that is not one number')
  return length
}

/** Replaces all fields of this name with one line. */
const withSingleField = (fields: readonly Field[], name: string, value: string): readonly Field[] => {
  const onlyField = { name: name.toLowerCase(), value, line: `${name}: ${value}` }
  const [first, second] = fields.filter((field) => field.name === onlyField.name)
  if (first?.value === value && second === undefined) return fields
  const at = fields.findIndex((field) => field.name === onlyField.name)
  return fields.flatMap((field, index) =>
    index === at ? [onlyField] : field.name === onlyField.name ? [] : [field],
  )
}
const withoutField = (fields: readonly Field[], name: string): readonly Field[] =>
  fields.filter((field) => field.name !== name)

/** The framing of a response body, and the forwarded fields, which state that framing once. */
type ResponseFraming = {
  readonly framing: Framing
  readonly fields: readonly Field[]
  /** The target's connection must not be reused, because its framing is unreliable (RFC 9112 section 6.1). */
  readonly faulty: boolean
}

/**
 * The framing of a response body, by RFC 9112 section 6.3.
 * @param isBodyless whether the status or the request's method rules a body out
 * @throws BadMessage when the length cannot be determined
 */
export const responseFraming = (
  fields: readonly Field[],
  version: 0 | 1,
  isBodyless: boolean,
): ResponseFraming => {
  // `identity` (RFC 2616) has no effect.
  const codings = listOf(fields, 'transfer-encoding').filter((coding) => coding !== 'identity')
  const lengths = listOf(fields, 'content-length')
  const hasLength = fields.some(({ name }) => name === 'content-length')
  if (codings.length > 0) {
    // Transfer-Encoding overrides Content-Length, which is removed before the message is forwarded (item 3).
    const rest = withoutField(fields, 'content-length')
    const faulty = hasLength || version === 0
    if (isBodyless) return { framing: none, fields: rest, faulty }
    // Some servers send the field twice for one coding.
    if (codings.every((coding) => coding === 'chunked'))
      return {
        framing: { kind: 'chunked' },
        fields: withSingleField(rest, 'Transfer-Encoding', 'chunked'),
        faulty,
      }
    const isLast = codings.indexOf('chunked') === codings.length - 1
    return { framing: { kind: isLast ? 'chunked' : 'close' }, fields: rest, faulty: true }
  }
  const rest = withoutField(fields, 'transfer-encoding')
  if (!hasLength) return { framing: isBodyless ? none : { kind: 'close' }, fields: rest, faulty: false }
  const length = agreedLength(lengths)
  const framing: Framing = isBodyless || length === 0 ? none : { kind: 'length', length }
  return { framing, fields: withSingleField(rest, 'Content-Length', String(length)), faulty: false }
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
  let remaining = length
  return {
    take: (chunk, pass) => {
      const consumed = Math.min(remaining, chunk.length)
      remaining -= consumed
      pass(chunk.subarray(0, consumed))
      return consumed
    },
    get done() {
      return remaining === 0
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
const forbiddenTrailer =
  /^(?:content-length|transfer-encoding|host|trailer|connection|te|upgrade|proxy-.*|authorization)$/i

/**
 * Checks the chunks of a request (RFC 9112 section 7.1) without copying them. Accepted input has exactly one meaning.
 * @throws BadMessage from `take`
 */
const strictChunks = (): BodyReader => {
  let state: 'size' | 'data' | 'data_end' | 'trailers' | 'done' = 'size'
  let remaining = 0
  let line = ''
  let trailers = 0

  /** The line that ends in this chunk. Null: the line is incomplete, and its first part is stored in `line`. */
  const lineFrom = (chunk: Buffer, at: number, max: number): { text: string; next: number } | null => {
    const end = chunk.indexOf(lf, at)
    const lineEnd = end === -1 ? chunk.length : end
    if (line.length + lineEnd - at > max + 1) throw new BadMessage('a line of a chunk is too long')
    line += chunk.toString('latin1', at, lineEnd)
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
    remaining = Number.parseInt(size, 16)
    state = remaining === 0 ? 'trailers' : 'data'
    return found.next
  }
  const readData = (chunk: Buffer, at: number): number => {
    const consumed = Math.min(remaining, chunk.length - at)
    remaining -= consumed
    if (remaining === 0) {
      state = 'data_end'
      remaining = 2
    }
    return at + consumed
  }
  const readDataEnd = (chunk: Buffer, at: number): number => {
    if (chunk[at] !== (remaining === 2 ? cr : lf)) throw new BadMessage('a chunk is longer than its size')
    remaining -= 1
    if (remaining === 0) state = 'size'
    return at + 1
  }
  const readTrailer = (chunk: Buffer, at: number): number => {
    const found = lineFrom(chunk, at, maxTrailers)
    if (found === null) return chunk.length
    if (found.text === '') state = 'done'
    else {
      const name = trailerLine.exec(found.text)?.[1]
      trailers += found.text.length
      if (name === undefined || forbiddenTrailer.test(name) || trailers > maxTrailers)
        throw new BadMessage('a forbidden trailer')
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
  if (!trailerName.test(name) || forbiddenTrailer.test(name) || ownHeaders.has(name.toLowerCase())) return ''
  return `${name}${text.slice(colon)}\r\n`.replace(/\0|\r(?!\n$)/g, ' ')
}

/**
 * Reads the chunks of a response. Accepts lines that end in LF only, and sizes with blanks around them. The forwarded
 * form is always correct. Correct input is not copied.
 * @param decode forwards the data without chunks, as a client of HTTP/1.0 needs it (RFC 9112 section 7.1.3)
 */
const lenientChunks = (decode: boolean): BodyReader => {
  let state: 'size' | 'data' | 'data_end' | 'trailers' | 'done' = 'size'
  let remaining = 0
  let isAfterCr = false
  let line = ''
  let trailers = 0

  return {
    take: (chunk, pass) => {
      let at = 0
      let from = 0
      /** Passes on the bytes read so far, and `replacement` in place of the bytes up to `to`. */
      const replace = (to: number, replacement: string): void => {
        if (at > from) pass(chunk.subarray(from, at))
        if (replacement !== '' && !decode) pass(Buffer.from(replacement, 'latin1'))
        at = to
        from = to
      }
      /** The next line with its end. Null: the line is incomplete, and its first part is stored in `line`. */
      const nextLine = (): {
        readonly raw: string
        readonly to: number
        readonly isWithinChunk: boolean
      } | null => {
        const end = chunk.indexOf(lf, at)
        const to = end === -1 ? chunk.length : end + 1
        if (line.length + to - at > maxLenientLine) throw new BadMessage('a line of a chunk is too long')
        const raw = line + chunk.toString('latin1', at, to)
        const isWithinChunk = line === ''
        line = end === -1 ? raw : ''
        if (end !== -1) return { raw, to, isWithinChunk }
        replace(to, '')
        return null
      }
      const readSize = (): void => {
        const found = nextLine()
        if (found === null) return
        const { raw, to, isWithinChunk } = found
        const text = raw.slice(0, raw.endsWith('\r\n') ? -2 : -1)
        const digits = lenientSize.exec(text)?.[1]?.replace(/^0+/, '')
        if (digits === undefined || digits.length > 12) throw new BadMessage('a chunk without a size')
        remaining = digits === '' ? 0 : Number.parseInt(digits, 16)
        if (isWithinChunk && !decode && cleanSizeLine.test(raw)) at = to
        else replace(to, `${remaining.toString(16)}\r\n`)
        state = remaining === 0 ? 'trailers' : 'data'
      }
      const readData = (): void => {
        const consumed = Math.min(remaining, chunk.length - at)
        remaining -= consumed
        at += consumed
        if (remaining === 0) state = 'data_end'
      }
      const readDataEnd = (): void => {
        const code = chunk[at]
        if (code === lf) {
          if (decode) replace(at + 1, '')
          else if (isAfterCr) at += 1
          else replace(at + 1, '\r\n')
          isAfterCr = false
          state = 'size'
        } else if (code === cr && !isAfterCr) {
          isAfterCr = true
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

/** @param bodyKind a request, a response with forwarded chunks, or a response with decoded chunks */
export const readerOf = (framing: Framing, bodyKind: 'request' | 'response' | 'decoded'): BodyReader => {
  switch (framing.kind) {
    case 'none':
      return noBody
    case 'length':
      return lengthReader(framing.length)
    case 'chunked':
      return bodyKind === 'request' ? strictChunks() : lenientChunks(bodyKind === 'decoded')
    case 'close':
      return untilClose
    default:
      return framing satisfies never
  }
}
