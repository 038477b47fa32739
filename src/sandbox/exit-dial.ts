import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { connect, isIP, isIPv4, type Socket } from 'node:net'
import { whoamiHost } from '../domain/shared/endpoint-fields.ts'
import { isAllowedAddress } from '../platform/outgoing/target.ts'
import type { Whoami } from './probe-target.ts'

/** The connections of a sandbox exit to targets. */
export type ExitDial = {
  /**
   * @param shows the address that `whoami.sandbox` reports instead of the real one; null: the real one
   * @throws TargetForbidden for a forbidden target
   */
  tcp(host: string, port: number, shows?: string | null): Promise<Socket>
  /** The IP address for datagrams to this host; null for a forbidden target. */
  addressOf(host: string): Promise<string | null>
  udp(): Promise<UdpSocket>
}

export class TargetForbidden extends Error {
  override readonly name = 'TargetForbidden'
}

const isLoopback = (address: string): boolean => address.startsWith('127.')

/**
 * Creates real connections. Targets on this machine, if they are allowed, are connected from `own`, an address in
 * 127.0.0.0/8, so that a target can distinguish exits. If the system does not have that address (macOS has only
 * 127.0.0.1), the system chooses the source address.
 */
export const createExitDial = (options: {
  readonly own: string
  readonly allowLoopback: boolean
  /** The server of `whoami.sandbox`, which is always allowed as a target; null without one. */
  readonly whoami: Pick<Whoami, 'port' | 'shows'> | null
}): ExitDial => {
  const { own, allowLoopback, whoami } = options
  const allowedAddresses = async (host: string): Promise<readonly string[]> => {
    const resolved = isIP(host) ? [{ address: host }] : await lookup(host, { all: true })
    return resolved
      .map(({ address }) => address)
      .filter((address) => isAllowedAddress(address, { allowLoopback }))
  }
  const openSocket = (host: string, port: number, localAddress?: string): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = connect({
        host,
        port,
        noDelay: true,
        allowHalfOpen: true,
        ...(localAddress && { localAddress }),
      })
      socket.setTimeout(10_000, () => socket.destroy(new Error('the target does not answer')))
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.setTimeout(0)
        socket.off('error', reject)
        resolve(socket)
      })
    })
  const connectFromOwn = (address: string, port: number): Promise<Socket> =>
    openSocket(address, port, own).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRNOTAVAIL') return openSocket(address, port)
      throw error
    })
  return {
    tcp: async (host, port, shows = null) => {
      if (host === whoamiHost && port === 80 && whoami !== null) {
        const socket = await connectFromOwn('127.0.0.1', whoami.port)
        if (shows !== null) whoami.shows(socket, shows)
        return socket
      }
      let lastError: unknown = new TargetForbidden('the sandbox reaches no address of this host')
      for (const address of await allowedAddresses(host))
        try {
          return await (isLoopback(address) ? connectFromOwn(address, port) : openSocket(address, port))
        } catch (error) {
          lastError = error
        }
      throw lastError
    },
    addressOf: async (host) => (await allowedAddresses(host)).find((address) => isIPv4(address)) ?? null,
    udp: () =>
      new Promise((resolve, reject) => {
        const socket = createSocket('udp4')
        socket.once('error', reject)
        socket.bind(0, allowLoopback ? own : undefined, () => resolve(socket))
      }),
  }
}
