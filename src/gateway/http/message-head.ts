/** A message that is not HTTP/1 as RFC 9112 has it. */
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
  /** As it goes on, without its line end. */
  readonly line: string
}

export type Head = {
  readonly startLine: string
  readonly fields: readonly Field[]
  /** Bytes, with the empty line. */
  readonly length: number
}

const endOfHead = Buffer.from('\r\n\r\n')
const endOfLine = '\r\n'
const lineFeed = 0x0a
const carriageReturn = 0x0d
const maxFields = 200

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** What waits for the rest of a head. */
export type HeadCollector = {
  /** @returns null: more is needed. `rest` is what came behind the head. @throws BadMessage */
  add(chunk: Buffer): { readonly head: Head; readonly rest: Buffer } | null
  /** Whether a part of a head has come. */
  readonly begun: boolean
}

/** Optional whitespace of RFC 9110 section 5.6.3 is a blank or a tab and nothing else: 0xA0 belongs to the value. */
const isBlank = (code: number): boolean => code === blank || code === tab

/** Without the blanks and tabs at both ends. A loop, since a regular expression takes quadratic time for many blanks. */
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
  // Also refuses a folded line, and a blank before the colon (RFC 9112 section 5.1).
  if (!token.test(name)) throw new BadMessage('a header line has no name')
  return { name: name.toLowerCase(), value: trimBlanks(line.slice(colon + 1)), line }
}

const tab = 0x09
const blank = 0x20
const deleteCharacter = 0x7f

/**
 * Line ends are CR LF: whoever takes a bare one for a line end reads another message.
 * @param from what comes before it was checked
 * @param whole whether the bytes end with a line; else a last CR may still get its LF
 * @throws BadMessage
 */
const checkCharacters = (bytes: Buffer, from: number, whole: boolean): void => {
  for (let at = from; at < bytes.length; at++) {
    const code = bytes[at]!
    if (code === carriageReturn) {
      const next = bytes[at + 1]
      if (next === undefined ? whole : next !== lineFeed) throw new BadMessage('a line does not end in CR LF')
    } else if (code === lineFeed) {
      if (bytes[at - 1] !== carriageReturn) throw new BadMessage('a line does not end in CR LF')
    } else if ((code < blank && code !== tab) || code === deleteCharacter)
      throw new BadMessage('a control character in the head')
  }
}

/** How a head is read. */
export type HeadGrammar = {
  /** What may come before the first line is left out. */
  withoutPrefix(bytes: Buffer): Buffer
  /** Where the first head ends; -1: its end has not come. @param from the length of what was there the last time */
  endOf(bytes: Buffer, from: number): number
  /** @throws BadMessage when what came can never become a head */
  checkPart(bytes: Buffer, from: number): void
  /** @param bytes of a head with its empty line. @throws BadMessage */
  parse(bytes: Buffer): Head
}

/** The target may hold bytes that URLs do not, UTF-8 among them: curl and the URL parser of browsers leave them as they are. */
const requestLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([\x21-\x7e\x80-\xff]+) HTTP\/(\d)\.(\d)$/

/** Method, target, and major and minor version of a request line. @throws BadMessage when it is none */
export const splitRequestLine = (line: string): readonly string[] => {
  const found = requestLine.exec(line)
  if (found === null) throw new BadMessage('the first line is no request line')
  return found.slice(1)
}

/** Requests: what two readers may understand differently is refused. */
export const strictHeads: HeadGrammar = {
  withoutPrefix: (bytes) => bytes,
  endOf: (bytes, from) => {
    const at = bytes.indexOf(endOfHead, Math.max(0, from - endOfHead.length + 1))
    return at === -1 ? -1 : at + endOfHead.length
  },
  checkPart: (bytes, from) => {
    checkCharacters(bytes, from, false)
    const end = bytes.indexOf(endOfLine)
    // An SSH client sends one line and waits for an answer.
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

/** A recipient replaces CR and NUL within a value with a blank (RFC 9110 section 5.5). */
const printable = (line: string): string => line.replace(/[\0\r]/g, ' ')

/**
 * The fields of a response. What other clients ignore or repair is ignored or repaired here too, and what goes on is right
 * HTTP, so that the client's reader finds nothing to disagree about.
 */
const lenientFields = (lines: readonly string[]): readonly Field[] => {
  const fields: Field[] = []
  let folding: Field | null = null
  for (const sent of lines) {
    const line = printable(sent)
    if (isBlank(line.charCodeAt(0))) {
      // A folded line belongs to the field before it (RFC 9112 section 5.2); behind the status line it is consumed (section 2.2).
      if (folding === null) continue
      const { name, value, line: before }: Field = folding
      const more = trimBlanks(line)
      folding = { name, value: trimBlanks(`${value} ${more}`), line: `${before} ${more}` }
      fields[fields.length - 1] = folding
      continue
    }
    const colon = line.indexOf(':')
    const sentName = line.slice(0, Math.max(colon, 0))
    // A proxy removes blanks before the colon of a response (RFC 9112 section 5.1).
    const name = trimBlanks(sentName)
    if (!token.test(name)) {
      folding = null
      continue
    }
    folding = {
      name: name.toLowerCase(),
      value: trimBlanks(line.slice(colon + 1)),
      line: name === sentName ? line : `${name}${line.slice(colon)}`,
    }
    fields.push(folding)
  }
  return fields
}

/** Responses: a line may end in LF alone (RFC 9112 section 2.2), and only the length of the head is limited. */
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
      const grown = Buffer.allocUnsafe(Math.max(2 * bytes.length, length + chunk.length))
      bytes.copy(grown, 0, 0, length)
      bytes = grown
    }
    chunk.copy(bytes, length)
    length += chunk.length
  }
  const cut = (all: Buffer, end: number): { head: Head; rest: Buffer } => {
    if (end > maxBytes) throw tooLong()
    return { head: grammar.parse(all.subarray(0, end)), rest: all.subarray(end) }
  }
  return {
    add: (sent) => {
      const chunk = length === 0 ? grammar.withoutPrefix(sent) : sent
      if (length === 0) {
        // Nearly every head comes in one piece.
        const end = grammar.endOf(chunk, 0)
        if (end !== -1) return cut(chunk, end)
      }
      const from = length
      append(chunk)
      const all = bytes.subarray(0, length)
      const end = grammar.endOf(all, from)
      if (end !== -1) {
        length = 0
        bytes = Buffer.alloc(0)
        return cut(all, end)
      }
      if (length > maxBytes) throw tooLong()
      grammar.checkPart(all, from)
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

/** The one value of a field, null where it is absent. @throws BadMessage when it is there twice */
export const singleHeader = (fields: readonly Field[], name: string): string | null => {
  let found: string | null = null
  for (const field of fields) {
    if (field.name !== name) continue
    if (found !== null) throw new BadMessage(`two header lines ${name}`)
    found = field.value
  }
  return found
}

/** About this connection alone (RFC 9110 section 7.6.1); `Transfer-Encoding` stays, since chunks go through as they are. */
const always: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'te', 'upgrade'])

/** Without these a message means something else: nobody may have them taken out. */
const never: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'content-encoding',
])

export type Connection = {
  readonly close: boolean
  readonly keepAlive: boolean
  /** What `Upgrade` asks for or agrees to; null where `Connection` does not name it. */
  readonly upgrade: string | null
  /** The fields that go on to the next side. */
  readonly passed: readonly Field[]
}

/** What only the gateway itself says: a target that says it too would speak in its name. */
export const ownHeaders: ReadonlySet<string> = new Set([
  'x-proxy-error',
  'x-proxy-detail',
  'x-proxy-fallback',
  'x-proxy-session-minutes',
])

/**
 * Reads what is about the connection and takes it out, with all of `Proxy-*`; of a response also `ownHeaders`. A response whose
 * `Connection` names a field such as Transfer-Encoding, as some servers do, keeps that field.
 * @throws BadMessage for such a request
 */
export const connectionOf = (fields: readonly Field[], of: 'request' | 'response'): Connection => {
  const named = listOf(fields, 'connection')
  const proxyConnection = listOf(fields, 'proxy-connection')
  const kept = named.find((name) => never.has(name))
  if (kept !== undefined && of === 'request')
    throw new BadMessage(`Connection names ${kept}, which is not about the connection`)
  const upgrade = named.includes('upgrade') ? listOf(fields, 'upgrade').join(', ') : ''
  return {
    close: named.includes('close') || proxyConnection.includes('close'),
    keepAlive: named.includes('keep-alive') || proxyConnection.includes('keep-alive'),
    upgrade: upgrade === '' ? null : upgrade,
    passed: fields.filter(
      ({ name }) =>
        never.has(name) ||
        !(
          always.has(name) ||
          name.startsWith('proxy-') ||
          named.includes(name) ||
          (of === 'response' && ownHeaders.has(name))
        ),
    ),
  }
}
