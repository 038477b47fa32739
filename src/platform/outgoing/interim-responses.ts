import type { Socket } from 'node:net'

const newline = 0x0a
const carriageReturn = 0x0d

/** The length of a status line up to the end of its status code. */
const statusEnd = 'HTTP/1.1 100'.length

/**
 * The parser's state on a connection: in a status line, with its text so far; in the header lines of an interim
 * response, with the number of bytes of the current line (0 or 1: not empty); or in the rest, until the next request.
 */
type ParseState =
  | { readonly in: 'status'; readonly line: string }
  | { readonly in: 'headers'; readonly bytes: number }
  | { readonly in: 'response' }

const statusLine = { in: 'status', line: '' } as ParseState

const stateAfterStatus = (line: string): ParseState =>
  /^HTTP\/1\.\d 1(?!01)\d\d$/.test(line) ? { in: 'headers', bytes: 1 } : { in: 'response' }

/** The state after these bytes. Every 100 in them is changed to 102. */
const renameContinues = (start: ParseState, bytes: Buffer): ParseState => {
  let parseState = start
  for (let at = 0; at < bytes.length && parseState.in !== 'response'; at++) {
    const byte = bytes[at] as number
    const isEnd = byte === newline || byte === carriageReturn
    if (parseState.in === 'status') {
      if (parseState.line === '' && isEnd) continue
      const line: string = parseState.line + String.fromCharCode(byte)
      if (/^HTTP\/1\.\d 100$/.test(line)) bytes[at] = 0x32
      parseState = line.length < statusEnd ? { in: 'status', line } : stateAfterStatus(line)
    } else if (byte === newline)
      parseState = parseState.bytes === 0 ? statusLine : { in: 'headers', bytes: 0 }
    else if (byte !== carriageReturn) parseState = { in: 'headers', bytes: 1 }
  }
  return parseState
}

/**
 * A client must accept interim responses that it did not request (RFC 9110, 15.2). undici ignores all of them but
 * 100, which ends its connection. So a 100 is changed to 102 before undici reads it. The connection has one request
 * at a time: the first bytes after a write are a status line.
 */
export const ignoreContinue = (socket: Socket): void => {
  let parseState = statusLine
  const read = socket.read.bind(socket)
  const write = socket.write.bind(socket) as (...values: unknown[]) => boolean
  socket.write = ((...values: unknown[]) => {
    if (parseState.in === 'response') parseState = statusLine
    return write(...values)
  }) as Socket['write']
  socket.read = (size?: number) => {
    const bytes: Buffer | null = read(size)
    if (bytes !== null && parseState.in !== 'response') parseState = renameContinues(parseState, bytes)
    return bytes
  }
}
