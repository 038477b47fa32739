/** A message that violates HTTP/1 (RFC 9112). */
export class BadMessage extends Error {
  override readonly name = 'BadMessage'
  readonly status: 400 | 431 | 505
  constructor(message: string, status: 400 | 431 | 505 = 400) {
    super(message)
    this.status = status
  }
}

export type Field = {
  /** In lower case. */
  readonly name: string
  readonly value: string
  /** The forwarded line, without its line end. */
  readonly line: string
}

export type Head = {
  readonly startLine: string
  readonly fields: readonly Field[]
  /** Bytes, including the empty line. */
  readonly length: number
}

const endOfHead = Buffer.from('\r\n\r\n')
const endOfLine = '\r\n'
const lineFeed = 0x0a
const carriageReturn = 0x0d
const maxFields = 200

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** Collects the chunks of a head. */
type HeadCollector = {
  /** @returns null: the head is incomplete. `rest` is the part after the head. @throws BadMessage */
  add(chunk: Buffer): { readonly head: Head; readonly rest: Buffer } | null
  /** Whether a part of a head was received. */
  readonly begun: boolean
}

/** Optional whitespace (RFC 9110 section 5.6.3) is only a blank or a tab. 0xA0 belongs to the value. */
const isBlank = (code: number): boolean => code === blank || code === tab

/** Removes blanks and tabs at both ends. A loop, because a regular expression needs quadratic time for many blanks. */
export const trimBlanks = (text: string): string => {
  let from = 0
  let to = text.length
  while (from < to && isBlank(text.charCodeAt(from))) from += 1
  while (to > from && isBlank(text.charCodeAt(to - 1))) to -= 1
  return text.slice(from, to)
}

const parseField = (line: string): Field => {
  const colon = line.indexOf(':')
  const name = line.slice(0, colon === -1 ? 0 : colon)
  // Also refuses folded lines, and a blank before the colon (RFC 9112 section 5.1).
  if (!token.test(name)) throw new BadMessage('a header line has no name')
  return { name: name.toLowerCase(), value: trimBlanks(line.slice(colon + 1)), line }
}

const tab = 0x09
const blank = 0x20
const deleteCharacter = 0x7f

/**
 * Line ends must be CR LF. A parser that accepts a bare CR or LF as a line end reads a different message.
 * @param from earlier bytes are already checked
 * @param endsWithLine whether the bytes end with a line; otherwise the LF of a last CR may be in the next chunk
 * @throws BadMessage
 */
const checkCharacters = (bytes: Buffer, from: number, endsWithLine: boolean): void => {
  for (let at = from; at < bytes.length; at++) {
    const code = bytes[at]!
    if (code === carriageReturn) {
      const next = bytes[at + 1]
      if (next === undefined ? endsWithLine : next !== lineFeed)
        throw new BadMessage('a line does not end in CR LF')
    } else if (code === lineFeed) {
      if (bytes[at - 1] !== carriageReturn) throw new BadMessage('a line does not end in CR LF')
    } else if ((code < blank && code !== tab) || code === deleteCharacter)
      throw new BadMessage('a control character in the head')
  }
}

/** The parsing rules of a head. */
type HeadGrammar = {
  /** Removes the bytes that may precede the first line. */
  withoutPrefix(bytes: Buffer): Buffer
  /** The end of the first head; -1: the head is incomplete. @param from the number of bytes at the last call */
  endOf(bytes: Buffer, from: number): number
  /** @throws BadMessage when the bytes can never become a head */
  checkPart(bytes: Buffer, from: number): void
  /** @param bytes a head with its empty line. @throws BadMessage */
  parse(bytes: Buffer): Head
}

/** The target may contain bytes that are illegal in URLs, such as UTF-8: curl and browsers send them unchanged. */
const requestLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([\x21-\x7e\x80-\xff]+) HTTP\/(\d)\.(\d)$/

/** Method, target, major and minor version of a request line. @throws BadMessage for any other line */
export const splitRequestLine = (line: string): readonly string[] => {
  const found = requestLine.exec(line)
  if (found === null) throw new BadMessage('the first line is no request line')
  return found.slice(1)
}

/** The rules for requests. They refuse input that two parsers may read differently. */
const strictHeads: HeadGrammar = {
  withoutPrefix: (bytes) => bytes,
  endOf: (bytes, from) => {
    const at = bytes.indexOf(endOfHead, Math.max(0, from - endOfHead.length + 1))
    return at === -1 ? -1 : at + endOfHead.length
  },
  checkPart: (bytes, from) => {
    checkCharacters(bytes, from, false)
    const end = bytes.indexOf(endOfLine)
    // Fails early: an SSH client sends one line and waits for an answer.
    if (end > 0 && end + endOfLine.length > from) splitRequestLine(bytes.toString('latin1', 0, end))
  },
  parse: (bytes) => {
    checkCharacters(bytes, 0, true)
    const lines = bytes.toString('latin1', 0, bytes.length - endOfHead.length).split('\r\n')
    if (lines.length > maxFields) throw new BadMessage(`more than ${maxFields} header lines`, 431)
    const [startLine = ''] = lines
    return { startLine, fields: lines.slice(1).map(parseField), length: bytes.length }
  },
}

/** Replaces CR and NUL in a value with a blank (RFC 9110 section 5.5). */
const printable = (line: string): string => line.replace(/[\0\r]/g, ' ')

/**
 * The fields of a response. Ignores or repairs the same mistakes as other clients. The forwarded fields are correct
 * HTTP, so the client's parser cannot read them differently.
 */
const lenientFields = (lines: readonly string[]): readonly Field[] => {
  const fields: Field[] = []
  let lastField: Field | null = null
  for (const raw of lines) {
    const line = printable(raw)
    if (isBlank(line.charCodeAt(0))) {
      // A folded line continues the previous field (RFC 9112 section 5.2). After the status line it is dropped (section
      // 2.2).
      if (lastField === null) continue
      const { name, value, line: previousLine }: Field = lastField
      const continuation = trimBlanks(line)
      lastField = {
        name,
        value: trimBlanks(`${value} ${continuation}`),
        line: `${previousLine} ${continuation}`,
      }
      fields[fields.length - 1] = lastField
      continue
    }
    const colon = line.indexOf(':')
    const rawName = line.slice(0, Math.max(colon, 0))
    // A proxy removes blanks before the colon of a response (RFC 9112 section 5.1).
    const name = trimBlanks(rawName)
    if (!token.test(name)) {
      lastField = null
      continue
    }
    lastField = {
      name: name.toLowerCase(),
      value: trimBlanks(line.slice(colon + 1)),
      line: name === rawName ? line : `${name}${line.slice(colon)}`,
    }
    fields.push(lastField)
  }
  return fields
}

/**
 * The rules for responses. A line may end in LF only (RFC 9112 section 2.2), and only the length of the head is
 * limited.
 */
export const lenientHeads: HeadGrammar = {
  withoutPrefix: (bytes) => {
    let at = 0
    while (bytes[at] === carriageReturn || bytes[at] === lineFeed) at += 1
    return bytes.subarray(at)
  },
  endOf: (bytes, from) => {
    for (let at = bytes.indexOf(lineFeed, Math.max(0, from - 2)); at !== -1; ) {
      if (bytes[at + 1] === lineFeed) return at + 2
      if (bytes[at + 1] === carriageReturn && bytes[at + 2] === lineFeed) return at + 3
      at = bytes.indexOf(lineFeed, at + 1)
    }
    return -1
  },
  checkPart: () => undefined,
  parse: (bytes) => {
    const [startLine = '', ...lines] = bytes.toString('latin1').split(/\r?\n/)
    return { startLine: printable(startLine), fields: lenientFields(lines), length: bytes.length }
  },
}

export const createHeadCollector = (maxBytes: number, grammar: HeadGrammar = strictHeads): HeadCollector => {
  let bytes = Buffer.alloc(0)
  let length = 0
  const tooLong = (): BadMessage => new BadMessage(`the head has more than ${maxBytes} bytes`, 431)
  const append = (chunk: Buffer): void => {
    if (length + chunk.length > bytes.length) {
      const largerBuffer = Buffer.allocUnsafe(Math.max(2 * bytes.length, length + chunk.length))
      bytes.copy(largerBuffer, 0, 0, length)
      bytes = largerBuffer
    }
    chunk.copy(bytes, length)
    length += chunk.length
  }
  const splitHead = (bytesSoFar: Buffer, end: number): { head: Head; rest: Buffer } => {
    if (end > maxBytes) throw tooLong()
    return { head: grammar.parse(bytesSoFar.subarray(0, end)), rest: bytesSoFar.subarray(end) }
  }
  return {
    add: (raw) => {
      const chunk = length === 0 ? grammar.withoutPrefix(raw) : raw
      if (length === 0) {
        // Nearly every head arrives in one chunk.
        const end = grammar.endOf(chunk, 0)
        if (end !== -1) return splitHead(chunk, end)
      }
      const from = length
      append(chunk)
      const bytesSoFar = bytes.subarray(0, length)
      const end = grammar.endOf(bytesSoFar, from)
      if (end !== -1) {
        length = 0
        bytes = Buffer.alloc(0)
        return splitHead(bytesSoFar, end)
      }
      if (length > maxBytes) throw tooLong()
      grammar.checkPart(bytesSoFar, from)
      return null
    },
    get begun() {
      return length > 0
    },
  }
}

/** All members of the comma-separated lists of a field, in lower case. */
export const listOf = (fields: readonly Field[], name: string): readonly string[] =>
  fields
    .filter((field) => field.name === name)
    .flatMap(({ value }) => value.split(','))
    .map((member) => trimBlanks(member).toLowerCase())
    .filter((member) => member !== '')

/** The value of a field; null if it is absent. @throws BadMessage when it occurs twice */
export const singleHeader = (fields: readonly Field[], name: string): string | null => {
  let found: string | null = null
  for (const field of fields) {
    if (field.name !== name) continue
    if (found !== null) throw new BadMessage(`two header lines ${name}`)
    found = field.value
  }
  return found
}

/**
 * Hop-by-hop fields (RFC 9110 section 7.6.1). `Transfer-Encoding` is forwarded, because chunks are forwarded unchanged.
 */
const hopByHopFields: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'te', 'upgrade'])

/** Fields that define the meaning of a message. `Connection` must not remove them. */
const protectedFields: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'content-encoding',
])

export type Connection = {
  readonly close: boolean
  readonly keepAlive: boolean
  /** The protocols of `Upgrade`; null if `Connection` does not name it. */
  readonly upgrade: string | null
  /** The forwarded fields. */
  readonly passed: readonly Field[]
}

/** Fields that only the gateway sets. They are removed from responses, so that a target cannot forge them. */
export const ownHeaders: ReadonlySet<string> = new Set([
  'x-proxy-error',
  'x-proxy-detail',
  'x-proxy-fallback',
  'x-proxy-request-id',
  'x-proxy-session-minutes',
])

/**
 * Reads the connection fields and removes them together with `Proxy-*`, and for a response also `ownHeaders`. If the
 * `Connection` of a response names a field such as Transfer-Encoding, as some servers do, that field is forwarded.
 * @throws BadMessage for a request that does this
 */
export const connectionOf = (fields: readonly Field[], messageKind: 'request' | 'response'): Connection => {
  const connectionOptions = listOf(fields, 'connection')
  const proxyConnection = listOf(fields, 'proxy-connection')
  const protectedName = connectionOptions.find((name) => protectedFields.has(name))
  if (protectedName !== undefined && messageKind === 'request')
    throw new BadMessage(`Connection names ${protectedName}, which is not about the connection`)
  const upgrade = connectionOptions.includes('upgrade') ? listOf(fields, 'upgrade').join(', ') : ''
  return {
    close: connectionOptions.includes('close') || proxyConnection.includes('close'),
    keepAlive: connectionOptions.includes('keep-alive') || proxyConnection.includes('keep-alive'),
    upgrade: upgrade === '' ? null : upgrade,
    passed: fields.filter(
      ({ name }) =>
        protectedFields.has(name) ||
        !(
          hopByHopFields.has(name) ||
          name.startsWith('proxy-') ||
          connectionOptions.includes(name) ||
          (messageKind === 'response' && ownHeaders.has(name))
        ),
    ),
  }
}
