import { isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Denied } from '../gateway-ports.ts'
import { type Target, targetOf } from '../targets.ts'

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
export const encodeTarget = ({ host, family, port }: Target): Buffer => {
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
type DecodedTarget =
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

/** Replies of RFC 1928 section 6. */
export const socksReplies = {
  succeeded: 0x00,
  failure: 0x01,
  notAllowed: 0x02,
  networkUnreachable: 0x03,
  hostUnreachable: 0x04,
  refused: 0x05,
  ttlExpired: 0x06,
  commandNotSupported: 0x07,
  addressNotSupported: 0x08,
} as const

/** The SOCKS reply for a refusal. 407 never gets here: it is answered in the RFC 1929 handshake. */
export const socksReplyOf = ({ status, error }: Denied): number => {
  switch (status) {
    case 403:
    case 407:
    case 464:
    case 466:
    case 467:
      return socksReplies.notAllowed
    case 465:
      return socksReplies.networkUnreachable
    case 502:
      return error === 'target_refused' ? socksReplies.refused : socksReplies.hostUnreachable
    case 504:
      return socksReplies.ttlExpired
    case 400:
    case 503:
    case 568:
      return socksReplies.failure
    default:
      return status satisfies never
  }
}
