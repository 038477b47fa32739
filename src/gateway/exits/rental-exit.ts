import { BlockList, isIP } from 'node:net'
import { addressesHost, whoamiHost } from '../../domain/shared/endpoint-fields.ts'
import type { SandboxExits } from '../../features/exits/index.ts'
import type { Rental } from '../authenticate/rentals.ts'
import type { Exit } from '../gateway-ports.ts'

/** A place in the exits to begin at, so that the rentals of a carrier spread over them. */
const placeOf = (text: string): number => {
  let hash = 0
  for (const letter of text) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0
  return hash
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')
const isLoopback = (host: string): boolean =>
  isIP(host) !== 0 && loopback.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4')

/**
 * The way out of a rented address: through its supplier's proxy, or from the address itself, which is this machine's.
 * @param sandbox null: there is none
 * @param allowLoopback targets on this machine are legal, by the sandbox and by proxies on this machine that stand for a supplier
 */
export const addressExit = (
  { ip, endpoint }: Pick<Rental, 'ip' | 'endpoint'>,
  sandbox: Pick<SandboxExits, 'whoamiPort' | 'supplier'> | null,
  allowLoopback: boolean,
): Exit => {
  const exitId = `address ${ip}`
  if (endpoint === null)
    return {
      exitId,
      via: { kind: 'direct', localAddress: ip },
      sandbox: allowLoopback,
      udp: true,
      ...(sandbox && { places: { [`${whoamiHost}:80`]: { host: '127.0.0.1', port: sandbox.whoamiPort } } }),
    }
  const { protocol: kind, host, port, udp, login } = endpoint
  if (sandbox && host === addressesHost) {
    const place = { host: '127.0.0.1', port: sandbox.supplier.port }
    const via = { kind, ...place, username: ip, password: sandbox.supplier.password }
    return { exitId, via, sandbox: allowLoopback, udp }
  }
  const { username = null, password = null } = login ?? {}
  return {
    exitId,
    via: { kind, host, port, username, password },
    sandbox: allowLoopback && isLoopback(host),
    udp,
  }
}

/**
 * Where a rental goes out: from its own address, or, of a mobile line, through the live exits of its carrier, one after
 * the other: by its interval, or each time that its link is used. A carrier without live exits leaves the address itself.
 * @param own the address itself
 */
export const rentalExit = (
  { proxyId, rotation }: Pick<Rental, 'proxyId' | 'rotation'>,
  own: Exit,
  ofCarrier: (carrierId: string) => readonly Exit[],
  nowMs: number,
): Exit => {
  if (rotation === null) return own
  const exits = [...ofCarrier(rotation.carrierId)].sort((one, other) => (one.exitId < other.exitId ? -1 : 1))
  const { everyMs, sinceMs, turns } = rotation
  const turn = everyMs === null ? turns : Math.floor((nowMs - sinceMs) / everyMs)
  return exits[(placeOf(proxyId) + turn) % exits.length] ?? own
}
