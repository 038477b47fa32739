import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import { unmapped } from '../../../platform/http/client-address.ts'
import type { Context } from '../context.ts'
import { commandBySocks } from '../dial/by-socks.ts'
import { targetAddresses } from '../dial/direct.ts'
import { type Endpoint, openEndpoint } from '../dial/endpoint.ts'
import { addressIn } from '../dial/prefix.ts'
import { inTurns } from '../dial/race.ts'
import type { Admission, Exit } from '../ports.ts'
import type { Target } from '../targets/host.ts'
import { decodeTarget, encodeTarget } from './wire-form.ts'

/** How datagrams get to targets and back. */
export type UdpWay = {
  /** @param pay takes what the datagram costs, just before it goes; false: it does not go */
  send(target: Target, payload: Buffer, pay: () => boolean): void
  close(): void
}

type Arrived = (from: { readonly address: string; readonly port: number }, payload: Buffer) => void

const socketOf = async (family: 4 | 6, localAddress: string | null): Promise<UdpSocket> => {
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4')
  socket.bind(0, localAddress ?? undefined)
  await once(socket, 'listening')
  socket.on('error', () => undefined) // an unreachable target: its datagram is lost, as datagrams may be
  return socket
}

/** From this machine: a target may answer only after it was sent something. */
const directWay = (
  context: Context,
  localAddress: string | null,
  loopback: boolean,
  arrived: Arrived,
): UdpWay => {
  const sockets = new Map<4 | 6, Promise<UdpSocket>>()
  const peers = new Set<string>()
  let closed = false
  const socketFor = (family: 4 | 6): Promise<UdpSocket> => {
    const known = sockets.get(family)
    if (known) return known
    const opened = socketOf(family, localAddress).then((socket) => {
      socket.on('message', (payload, { address, port }) => {
        if (peers.has(`${unmapped(address)} ${port}`)) arrived({ address, port }, payload)
      })
      if (closed) socket.close()
      return socket
    })
    sockets.set(family, opened)
    return opened
  }
  const send = async (target: Target, payload: Buffer, pay: () => boolean): Promise<void> => {
    if (context.rules.refused(target)) return
    const found = await targetAddresses(context, { target, localAddress, loopback })
    if ('denied' in found) return
    const [address] = inTurns(found)
    if (address === undefined) return
    const peer = `${unmapped(address)} ${target.port}`
    if (!peers.has(peer) && peers.size >= context.limits.udpPeers) return
    const socket = await socketFor(isIPv6(address) ? 6 : 4)
    if (closed || !pay()) return
    peers.add(peer)
    socket.send(payload, target.port, address, () => undefined)
  }
  return {
    send: (target, payload, pay) => {
      // A datagram that cannot go is lost, as datagrams may be.
      send(target, payload, pay).catch(() => undefined)
    },
    close: () => {
      closed = true
      for (const opened of sockets.values()) opened.then((socket) => socket.close()).catch(() => undefined)
    },
  }
}

const anyAddress = { host: '0.0.0.0', family: 4, port: 0 } as const
const associateMs = 5_000

/** Through a SOCKS5 exit that relays UDP itself; names are resolved there. */
const socksWay = async (
  context: Context,
  endpoint: Endpoint,
  loopback: boolean,
  signal: AbortSignal,
  arrived: Arrived,
): Promise<UdpWay> => {
  const { rules } = context
  const limits = { timeoutMs: associateMs, signal }
  const control = await openEndpoint({ resolve: context.resolve, ca: null }, endpoint, limits)
  const answer = await commandBySocks(control, endpoint, 'associate', anyAddress, limits)
  if (answer.denied) throw new Error(answer.why.detail)
  const bound = decodeTarget(answer.bound, 0)
  if (bound.kind !== 'read' || bound.target === null) throw new Error('no relay')
  // A relay on "any address" is where the exit itself is.
  const anywhere = /^(?:0\.0\.0\.0|::)$/.test(bound.target.host)
  const host = anywhere ? unmapped(control.socket.remoteAddress ?? '') : bound.target.host
  const { port } = bound.target
  const socket = await socketOf(isIPv6(host) ? 6 : 4, null)
  socket.connect(port, host)
  await once(socket, 'connect')
  socket.on('message', (bytes) => {
    const from = bytes.length < 4 || bytes[2] !== 0 ? null : decodeTarget(bytes, 3)
    if (from?.kind === 'read' && from.target !== null && from.target.family !== 0)
      arrived({ address: from.target.host, port: from.target.port }, bytes.subarray(3 + from.length))
  })
  let closed = false
  control.rest(() => {
    if (!closed) socket.close()
    closed = true
    control.socket.destroy()
  })
  return {
    send: (target, payload, pay) => {
      const refused =
        rules.refused(target) ??
        (target.family === 0
          ? rules.refusedName(target.host, loopback)
          : rules.refusedAddress(target.host, target.port, loopback))
      if (refused === null && !closed && pay())
        socket.send([Buffer.of(0, 0, 0), encodeTarget(target), payload], () => undefined)
    },
    close: () => control.socket.destroy(),
  }
}

/** @throws when the exit does not relay UDP */
export const openUdpWay = async (
  context: Context,
  { holder, line }: Admission,
  { via, sandbox }: Exit,
  signal: AbortSignal,
  arrived: Arrived,
): Promise<UdpWay> => {
  switch (via.kind) {
    case 'direct':
      return directWay(context, via.localAddress, sandbox, arrived)
    case 'prefix': {
      const session = line.session === null ? null : `${holder} ${line.session.id}`
      return directWay(context, addressIn(via.prefix, session), sandbox, arrived)
    }
    case 'socks5':
      return socksWay(context, via, sandbox, signal, arrived)
    case 'http':
    case 'https':
      throw new Error('an HTTP proxy relays no UDP')
    default:
      return via satisfies never
  }
}
