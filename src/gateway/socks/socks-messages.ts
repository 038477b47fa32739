import { isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'
import { type Target, targetOf } from '../targets/targets.ts'

export const version = 5

/** Address types of RFC 1928. */
const types = { ipv4: 1, name: 3, ipv6: 4 } as const

const addressBytes = (address: string): Buffer => Buffer.from(ipaddr.parse(address).toByteArray())

const portBytes = (port: number): Buffer => {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(port)
  return bytes
}

/** Encodes ATYP, address and port (RFC 1928). A name has at most 255 bytes. */
export const encodeTarget = ({ host, family, port }: Pick<Target, 'host' | 'family' | 'port'>): Buffer => {
  if (family !== 0)
    return Buffer.concat([
      Buffer.of(isIPv4(host) ? types.ipv4 : types.ipv6),
      addressBytes(host),
      portBytes(port),
    ])
  const name = Buffer.from(host, 'latin1')
  return Buffer.concat([Buffer.of(types.name, name.length), name, portBytes(port)])
}

/** The result of decoding ATYP, address and port. */
export type DecodedTarget =
  | { readonly kind: 'more' }
  | { readonly kind: 'unknown_type' }
  /** `target` is null if the text is neither a name nor an address, or if the port is 0. */
  | { readonly kind: 'read'; readonly target: Target | null; readonly length: number }

/** Decodes ATYP, address and port from the bytes at `at`. */
export const decodeTarget = (bytes: Buffer, at: number): DecodedTarget => {
  const type = bytes[at]
  if (type === undefined) return { kind: 'more' }
  const isName = type === types.name
  const size = type === types.ipv4 ? 4 : type === types.ipv6 ? 16 : isName ? bytes[at + 1] : null
  if (size === null) return { kind: 'unknown_type' }
  const from = at + (isName ? 2 : 1)
  if (size === undefined || bytes.length < from + size + 2) return { kind: 'more' }
  const raw = bytes.subarray(from, from + size)
  const text = isName ? raw.toString('latin1') : ipaddr.fromByteArray([...raw]).toString()
  return {
    kind: 'read',
    target: targetOf(text, bytes.readUInt16BE(from + size)),
    length: from + size + 2 - at,
  }
}

/** The length of ATYP, address and port, from their first two bytes; null: an unknown type. */
export const targetLength = (type: number, second: number): number | null => {
  if (type === types.ipv4) return 7
  if (type === types.ipv6) return 19
  return type === types.name ? 4 + second : null
}

/** A reply. For a tunnel the bound address is left out, which RFC 1928 section 6 allows. */
export const socksReply = (reply: number, bound: Buffer = Buffer.of(1, 0, 0, 0, 0, 0, 0)): Buffer =>
  Buffer.concat([Buffer.of(version, reply, 0), bound])
