import { ProbeFailure } from './failure.ts'

/** Beyond it nothing is read: an answer of the judge has some hundred bytes. */
export const mostBytes = 16_384

const headEnd = '\r\n\r\n'

export type HttpHead = { readonly status: number; readonly head: string; readonly length: number }

/** The head of an HTTP/1 answer, or null while more of it is to come. @throws ProbeFailure when it is none */
export const headOf = (bytes: Buffer): HttpHead | null => {
  const text = bytes.toString('latin1')
  if (!'HTTP/1.'.startsWith(text.slice(0, 7)))
    throw new ProbeFailure('bad_response', 'the answer is not HTTP')
  const end = text.indexOf(headEnd)
  if (end === -1) return null
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?: |\r)/.exec(text)
  if (status === null) throw new ProbeFailure('bad_response', 'the answer is not HTTP')
  return { status: Number(status[1]), head: text.slice(0, end + 2), length: end + headEnd.length }
}

const fieldOf = (head: string, name: string): string | null => {
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon !== -1 && line.slice(0, colon).trim().toLowerCase() === name)
      return line.slice(colon + 1).trim()
  }
  return null
}

/** The chunks put together, or null while more of them are to come. */
const dechunked = (bytes: Buffer): Buffer | null => {
  const parts: Buffer[] = []
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at)
    if (end === -1) return null
    const size = /^([0-9a-fA-F]{1,6})(?:;|$)/.exec(bytes.toString('latin1', at, end).trim())
    if (size === null) throw new ProbeFailure('bad_response', 'the chunks of the answer cannot be read')
    const length = Number.parseInt(size[1]!, 16)
    if (length === 0) return Buffer.concat(parts)
    if (bytes.length < end + 2 + length + 2) return null
    parts.push(bytes.subarray(end + 2, end + 2 + length))
    at = end + 2 + length + 2
  }
}

/**
 * The body of a whole answer with status 200, or null while more of it is to come.
 * @param ended whether the other side will send nothing more
 * @throws ProbeFailure for another status, and for what is no answer
 */
export const bodyOf = (bytes: Buffer, ended: boolean): Buffer | null => {
  const found = headOf(bytes)
  if (found === null) return null
  if (found.status === 407)
    throw new ProbeFailure('auth_required', 'the proxy wants a username and a password')
  if (found.status !== 200)
    throw new ProbeFailure('bad_response', `the answer has the status ${found.status} in place of 200`)
  const rest = bytes.subarray(found.length)
  if (fieldOf(found.head, 'transfer-encoding')?.toLowerCase() === 'chunked') return dechunked(rest)
  const length = fieldOf(found.head, 'content-length')
  if (length === null) return ended ? rest : null
  return rest.length >= Number(length) ? rest.subarray(0, Number(length)) : null
}
