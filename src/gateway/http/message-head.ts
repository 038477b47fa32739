/** A message that is not HTTP/1 as RFC 9112 has it; what is ambiguous in it is refused, never repaired. */
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
  /** As it was sent, without its line end. */
  readonly line: string
}

export type Head = {
  readonly startLine: string
  readonly fields: readonly Field[]
  /** Bytes, with the empty line. */
  readonly length: number
}

const endOfHead = Buffer.from('\r\n\r\n')
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

const parseField = (line: string): Field => {
  const colon = line.indexOf(':')
  const name = line.slice(0, colon === -1 ? 0 : colon)
  // Also refuses a folded line, and a blank before the colon.
  if (!token.test(name)) throw new BadMessage('a header line has no name')
  return { name: name.toLowerCase(), value: line.slice(colon + 1).trim(), line }
}

const tab = 0x09
const firstPrintable = 0x20
const deleteCharacter = 0x7f

/** Line ends are CR LF: whoever takes a bare one for a line end reads another message. @throws BadMessage */
const checkCharacters = (text: string): void => {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === carriageReturn && text.charCodeAt(at + 1) === lineFeed) at += 1
    else if (code === carriageReturn || code === lineFeed)
      throw new BadMessage('a line does not end in CR LF')
    else if ((code < firstPrintable && code !== tab) || code === deleteCharacter)
      throw new BadMessage('a control character in the head')
  }
}

/** @param text of a head with its empty line, one character a byte. @throws BadMessage */
export const parseHead = (text: string): Head => {
  checkCharacters(text)
  const lines = text.slice(0, -endOfHead.length).split('\r\n')
  if (lines.length > maxFields) throw new BadMessage(`more than ${maxFields} header lines`, 431)
  const [startLine = ''] = lines
  return { startLine, fields: lines.slice(1).map(parseField), length: text.length }
}

/** A bare line feed in what may still become a head: its end would never be found. */
const hasBareLineFeed = (bytes: Buffer): boolean => {
  for (let at = bytes.indexOf(lineFeed); at !== -1; at = bytes.indexOf(lineFeed, at + 1))
    if (bytes[at - 1] !== carriageReturn) return true
  return false
}

export const createHeadCollector = (maxBytes: number): HeadCollector => {
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
    const head = parseHead(all.toString('latin1', 0, end))
    return { head, rest: all.subarray(end) }
  }
  return {
    add: (chunk) => {
      if (length === 0) {
        // Nearly every head comes in one piece.
        const at = chunk.indexOf(endOfHead)
        if (at !== -1) return cut(chunk, at + endOfHead.length)
      }
      const from = Math.max(0, length - endOfHead.length + 1)
      append(chunk)
      const all = bytes.subarray(0, length)
      const at = all.indexOf(endOfHead, from)
      if (at !== -1) {
        length = 0
        bytes = Buffer.alloc(0)
        return cut(all, at + endOfHead.length)
      }
      if (length > maxBytes) throw tooLong()
      if (hasBareLineFeed(all)) throw new BadMessage('a line does not end in CR LF')
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
    .map((member) => member.trim().toLowerCase())
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

/** Reads what is about the connection and takes it out, with all of `Proxy-*`. @throws BadMessage */
export const connectionOf = (fields: readonly Field[]): Connection => {
  let named: readonly string[] = []
  let proxyConnection: readonly string[] = []
  for (const { name } of fields) {
    if (name === 'connection') named = listOf(fields, name)
    if (name === 'proxy-connection') proxyConnection = listOf(fields, name)
  }
  for (const name of named)
    if (never.has(name)) throw new BadMessage(`Connection names ${name}, which is not about the connection`)
  const upgrade = named.includes('upgrade') ? listOf(fields, 'upgrade').join(', ') : ''
  return {
    close: named.includes('close') || proxyConnection.includes('close'),
    keepAlive: named.includes('keep-alive') || proxyConnection.includes('keep-alive'),
    upgrade: upgrade === '' ? null : upgrade,
    passed: fields.filter(
      ({ name }) => !always.has(name) && !name.startsWith('proxy-') && !named.includes(name),
    ),
  }
}
