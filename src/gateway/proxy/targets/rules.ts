import { networkInterfaces } from 'node:os'
import { isAllowedAddress } from '../../../platform/outgoing/target.ts'
import type { Denied } from '../ports.ts'
import { blocked } from '../refusals.ts'
import type { Target } from './host.ts'
import { isBlockedHost, type TargetPolicy } from './policy.ts'

export type TargetRules = {
  /** What the request's text alone rules out, before an exit is chosen. */
  refused(target: Target): Denied | null
  /**
   * Whether an address may be dialled: asked for literal addresses, and for what a name resolved to just before it is
   * dialled. A name that the exit itself resolves is never an address here: where it leads is the exit's affair.
   * @param loopback whether this machine's own loopback is a legal target of the exit
   */
  refusedAddress(address: string, port: number, loopback: boolean): Denied | null
  /** Whether a name can only mean the machine that resolves it. */
  refusedName(host: string, loopback: boolean): Denied | null
}

export type OwnAddresses = {
  /** Addresses of this machine. */
  has(address: string): boolean
  /** Ports that the gateway itself listens on. */
  readonly ports: ReadonlySet<number>
}

const localName = /(?:^|\.)localhost$/
const plain = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '').toLowerCase()
const isLoopback = (address: string): boolean => /^127\.|^::1$/.test(plain(address))

/** Reads the machine's addresses anew at most this often. */
const interfacesMs = 30_000

export const ownAddresses = (clock: () => number, ports: ReadonlySet<number>): OwnAddresses => {
  let addresses: ReadonlySet<string> = new Set()
  let readMs = Number.NEGATIVE_INFINITY
  return {
    has: (address) => {
      if (clock() - readMs > interfacesMs) {
        readMs = clock()
        const all = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
        addresses = new Set(all.map((each) => each.address.toLowerCase()))
      }
      return addresses.has(plain(address))
    },
    ports,
  }
}

export const createTargetRules = (
  policy: TargetPolicy,
  own: OwnAddresses,
  allowLoopback: boolean,
): TargetRules => ({
  refused: ({ host, port }) => {
    if (policy.blockedPorts.has(port)) return blocked(`Port ${port} is blocked by the usage policy.`)
    return isBlockedHost(host, policy) ? blocked('This host is blocked by the usage policy.') : null
  },
  refusedAddress: (address, port, loopback) => {
    if (isBlockedHost(plain(address), policy)) return blocked('This host is blocked by the usage policy.')
    const mayLoop = loopback || allowLoopback
    if (!isAllowedAddress(address, { allowLoopback: mayLoop }))
      return blocked('The target has a private, local or reserved address.')
    const ours = isLoopback(address) ? own.ports.has(port) : own.has(address)
    return ours ? blocked('The target is the gateway itself.') : null
  },
  refusedName: (host, loopback) =>
    localName.test(host) && !loopback && !allowLoopback
      ? blocked('The target has a private, local or reserved address.')
      : null,
})
