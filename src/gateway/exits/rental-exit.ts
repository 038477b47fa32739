import { BlockList, isIP } from 'node:net'
import { addressesHost, whoamiHost } from '../../domain/shared/endpoint-fields.ts'
import type { SandboxExits } from '../../features/exits/index.ts'
import type { Rental } from '../authenticate/rentals.ts'
import type { Exit } from '../gateway-ports.ts'

/** A hash that selects the first exit, so that the rentals of a carrier are spread over its exits. */
const firstIndexOf = (text: string): number => {
  let hash = 0
  for (const character of text) hash = (hash * 31 + character.charCodeAt(0)) >>> 0
  return hash
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')
const isLoopback = (host: string): boolean =>
  isIP(host) !== 0 && loopback.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4')

/**
 * The exit of a rented address: its supplier's proxy, or the address itself on this machine.
 * @param sandbox null: there is no sandbox
 * @param allowLoopback allows targets on this machine through the sandbox, and through local proxies that simulate a
 * supplier
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
    const simulatedProxy = { host: '127.0.0.1', port: sandbox.supplier.port }
    const via = { kind, ...simulatedProxy, username: ip, password: sandbox.supplier.password }
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
 * The exit of a rental: its own address, or for a mobile rental the next live exit of its carrier. It switches by the
 * interval, or each time the link is used. If the carrier has no live exit, the rental uses its own address.
 * @param own the exit of its own address
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
  return exits[(firstIndexOf(proxyId) + turn) % exits.length] ?? own
}
