import { isIP, type Socket } from 'node:net'
import ipaddr from 'ipaddr.js'

/** The addresses of a client connection: of the client, and the one that the client dialled. */
export type Peer = { readonly source: string; readonly dialled: string }

/** The bytes of a header, and the addresses that it names; null: none, e.g. a health check of the balancer. */
type ProxyHeader = { readonly length: number; readonly peer: Peer | null }

/*
 * The PROXY protocol of balancers, https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt: version 1 is a line of
 * text, version 2 is binary.
 */
const version1 = Buffer.from('PROXY ')
const maxLine = 107
const version2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const fixedLength = 16
/** The addresses and extensions of a header. Extensions are skipped. */
const maxBody = 4_096

const beginsWith = (bytes: Buffer, prefix: Buffer): boolean => {
  const length = Math.min(bytes.length, prefix.length)
  return bytes.subarray(0, length).equals(prefix.subarray(0, length))
}

/** In the form of `remoteAddress`. */
const addressText = (address: ipaddr.IPv4 | ipaddr.IPv6): string =>
  ipaddr.process(address.toString()).toString()

const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) <= 65_535

const invalid = (reason: string): RangeError => new RangeError(`no valid PROXY header: ${reason}`)

const parseLine = (bytes: Buffer): ProxyHeader | null => {
  const end = bytes.subarray(0, maxLine).indexOf('\r\n')
  if (end === -1) {
    if (bytes.length >= maxLine) throw invalid('its line does not end')
    return null
  }
  const [, family, source = '', dialled = '', ...ports] = bytes.toString('latin1', 0, end).split(' ')
  const length = end + 2
  if (family === 'UNKNOWN') return { length, peer: null }
  const version = family === 'TCP4' ? 4 : family === 'TCP6' ? 6 : 0
  const areAddresses = [source, dialled].every((text) => isIP(text) === version && !text.includes('%'))
  if (version === 0 || !areAddresses || ports.length !== 2 || !ports.every(isPort))
    throw invalid('its line has no two addresses of one family with ports')
  const [from, to] = [source, dialled].map((text) => addressText(ipaddr.parse(text)))
  return { length, peer: { source: from!, dialled: to! } }
}

const parseBinary = (bytes: Buffer): ProxyHeader | null => {
  if (bytes.length < fixedLength) return null
  const [command, family] = [bytes[12]!, bytes[13]!]
  const bodyLength = bytes.readUInt16BE(14)
  if (command >> 4 !== 2 || (command & 0x0f) > 1) throw invalid('its version or command is unknown')
  if (bodyLength > maxBody) throw invalid('it is too long')
  const length = fixedLength + bodyLength
  if (bytes.length < length) return null
  const isLocal = (command & 0x0f) === 0
  const addressBytes = family === 0x11 ? 4 : family === 0x21 ? 16 : 0
  if (isLocal || addressBytes === 0) return { length, peer: null }
  if (bodyLength < 2 * addressBytes + 4) throw invalid('its addresses are incomplete')
  const address = (index: number): string => {
    const part = bytes.subarray(fixedLength + index * addressBytes, fixedLength + (index + 1) * addressBytes)
    return addressText(ipaddr.fromByteArray([...part]))
  }
  return { length, peer: { source: address(0), dialled: address(1) } }
}

/**
 * Reads the PROXY header at the start of a connection; null: it is incomplete.
 * @throws RangeError if the bytes begin no valid header
 */
export const parseProxyHeader = (bytes: Buffer): ProxyHeader | null => {
  if (beginsWith(bytes, version2)) return parseBinary(bytes)
  if (beginsWith(bytes, version1)) return parseLine(bytes)
  throw invalid('the connection begins otherwise')
}

/**
 * Takes the PROXY header from a connection of a balancer, and calls `serve` with the addresses of the client; null: the
 * header names none. The bytes after the header are still to be read. A connection without a valid header within `limitMs` is closed.
 */
export const withProxyHeader = (
  socket: Socket,
  limitMs: number,
  serve: (peer: Peer | null) => void,
  refused: (reason: string) => void,
): void => {
  let bytes = Buffer.alloc(0)
  const close = (reason: string): void => {
    refused(reason)
    socket.destroy()
  }
  const timer = setTimeout(close, limitMs, 'no header came in time')
  const stop = (): void => clearTimeout(timer)
  const read = (chunk: Buffer): void => {
    bytes = Buffer.concat([bytes, chunk])
    try {
      const header = parseProxyHeader(bytes)
      if (header === null) return
      stop()
      socket.off('data', read).off('end', end).off('close', stop).pause()
      if (bytes.length > header.length) socket.unshift(bytes.subarray(header.length))
      serve(header.peer)
    } catch (error) {
      close((error as Error).message)
    }
  }
  const end = (): void => void socket.destroy() // a health check that only connects
  socket.on('error', () => undefined)
  socket.on('data', read).once('end', end).once('close', stop)
}
