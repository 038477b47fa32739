import { BadMessage, type Field, listOf, singleHeader } from './message-head.ts'

/** How the end of a body is found. */
export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  /** Up to the end of the connection: of responses alone. */
  | { readonly kind: 'close' }

const none: Framing = { kind: 'none' }
const wholeNumber = /^\d{1,15}$/

/**
 * What the fields say; two answers are none. @returns null when they say nothing
 * @throws BadMessage for everything that two readers may understand differently
 */
export const framingOf = (fields: readonly Field[], version: 0 | 1): Framing | null => {
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

export type BodyReader = {
  /** @returns how many of the bytes belong to the body. @throws BadMessage */
  take(chunk: Buffer): number
  readonly done: boolean
}

const lengthReader = (length: number): BodyReader => {
  let left = length
  return {
    take: (chunk) => {
      const taken = Math.min(left, chunk.length)
      left -= taken
      return taken
    },
    get done() {
      return left === 0
    },
  }
}

const untilClose: BodyReader = { take: (chunk) => chunk.length, done: false }

const cr = 0x0d
const lf = 0x0a
/** Of a line with a chunk's size and its extensions. */
const maxSizeLine = 256
const maxTrailers = 8_192
const sizeLine = /^([0-9A-Fa-f]{1,12})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/
const trailerLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t\x20-\x7e\x80-\xff]*$/
/** What frames or routes a message may not be said after it (RFC 9110 section 6.5.1). */
const noTrailer =
  /^(?:content-length|transfer-encoding|host|trailer|connection|te|upgrade|proxy-.*|authorization)$/i

/**
 * Walks through the chunks of RFC 9112 section 7.1 without copying them: what it lets through has one meaning.
 * @throws BadMessage from `take`
 */
const chunkedReader = (): BodyReader => {
  let state: 'size' | 'data' | 'data_end' | 'trailers' | 'done' = 'size'
  let left = 0
  let line = ''
  let trailers = 0

  /** The line that ends in this chunk, or null with what there is of it kept. */
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
    take: (chunk) => {
      let at = 0
      while (at < chunk.length && state !== 'done') {
        if (state === 'size') at = readSize(chunk, at)
        else if (state === 'data') at = readData(chunk, at)
        else if (state === 'data_end') at = readDataEnd(chunk, at)
        else at = readTrailer(chunk, at)
      }
      return at
    },
    get done() {
      return state === 'done'
    },
  }
}

const noBody: BodyReader = { take: () => 0, done: true }

export const readerOf = (framing: Framing): BodyReader => {
  switch (framing.kind) {
    case 'none':
      return noBody
    case 'length':
      return lengthReader(framing.length)
    case 'chunked':
      return chunkedReader()
    case 'close':
      return untilClose
    default:
      return framing satisfies never
  }
}
