import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv4, isIPv6 } from 'node:net'
import { unmapped } from '../../platform/http/client-address.ts'
import { type BufferedSocket, discardHandler } from '../accept/buffered-socket.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import { targetAddresses } from '../dial/direct.ts'
import { type Endpoint, openEndpoint } from '../dial/exit-connection.ts'
import { commandBySocks } from '../dial/via-exit.ts'
import type { Exit } from '../gateway-ports.ts'
import type { Target, TargetRules } from '../targets/targets.ts'
import { decodeTarget, encodeTarget } from './socks-messages.ts'

/** What one datagram costs. */
export type DatagramCharge = {
  /** Takes all of it, just before the datagram goes. @returns whether it may go */
  reserve(): boolean
  sent(): void
  /** It did not go after all: what was taken is given back. */
  refund(): void
}

/** What fits into a datagram over IPv4; more is not tried over IPv6 either. */
const maxBytes = 65_507
/** More than this waits for the kernel in no socket: datagrams are lost before. */
const maxQueuedBytes = 1_048_576

/** A socket on a port of its own. A target that cannot be reached is no fault of it: its datagrams are lost. */
export const bindUdp = async (family: 4 | 6, address: string | null): Promise<UdpSocket> => {
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4')
  try {
    socket.bind(0, address ?? undefined)
    await once(socket, 'listening')
  } catch (error) {
    socket.close()
    throw error
  }
  socket.on('error', () => undefined)
  return socket
}

/** Sends a datagram that is paid for, or loses it. @param to left out: to where the socket is connected */
export const sendDatagram = (
  socket: UdpSocket,
  parts: readonly Buffer[],
  charge: DatagramCharge,
  to?: { readonly address: string; readonly port: number },
): void => {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0)
  if (bytes > maxBytes || socket.getSendQueueSize() > maxQueuedBytes || !charge.reserve()) return
  const done = (error: Error | null): void => (error === null ? charge.sent() : charge.refund())
  if (to === undefined) socket.send(parts, done)
  else socket.send(parts, to.port, to.address, done)
}

/** From this machine: a target may answer only after it was sent something. */
export const directUdpUpstream = (
  context: GatewayContext,
  localAddress: string | null,
  loopback: boolean,
  arrived: OnDatagram,
): UdpUpstream => {
  const { rules, limits } = context
  const sockets = new Map<4 | 6, Promise<UdpSocket>>()
  const peers = new Set<string>()
  let waiting = 0
  let closed = false
  const socketFor = (family: 4 | 6): Promise<UdpSocket> => {
    const known = sockets.get(family)
    if (known) return known
    const opened = bindUdp(family, localAddress).then((socket) => {
      socket.on('message', (payload, { address, port }) => {
        if (peers.has(`${unmapped(address)} ${port}`)) arrived({ address, port }, payload)
      })
      if (closed) socket.close()
      return socket
    })
    sockets.set(family, opened)
    return opened
  }
  const send = async (target: Target, payload: Buffer, charge: DatagramCharge): Promise<void> => {
    const found = await targetAddresses(context, { target, localAddress, loopback })
    if ('denied' in found) return
    // Nothing tells that datagrams do not get there: IPv4 goes nearly everywhere.
    const address = found.find((each) => isIPv4(each)) ?? found[0]
    if (address === undefined) return
    const peer = `${unmapped(address)} ${target.port}`
    if (!peers.has(peer) && peers.size >= limits.udpPeers) return
    const socket = await socketFor(isIPv6(address) ? 6 : 4)
    if (closed) return
    peers.add(peer)
    sendDatagram(socket, [payload], charge, { address, port: target.port })
  }
  return {
    send: (target, payload, charge) => {
      if (rules.refused(target)) return
      const waits = target.family === 0 ? 1 : 0
      if (waiting + waits > limits.udpWaiting) return
      waiting += waits
      send(target, payload, charge)
        .catch(() => undefined)
        .finally(() => {
          waiting -= waits
        })
    },
    close: () => {
      closed = true
      for (const opened of sockets.values()) opened.then((socket) => socket.close()).catch(() => undefined)
    },
    closed: new Promise(() => undefined),
  }
}

const anyAddress = { host: '0.0.0.0', family: 4, port: 0 } as const
const header = Buffer.of(0, 0, 0)

/**
 * Where the relay of an exit is. An exit behind an address translation names an inner address, one that listens everywhere
 * names none, and a hostile one would name a machine of ours: all of these are meant at the address where the exit was
 * reached.
 * @throws when the answer names no relay
 */
const relayOf = (
  bound: Buffer,
  exitAddress: string,
  rules: TargetRules,
  loopback: boolean,
): { readonly host: string; readonly port: number } => {
  const named = decodeTarget(bound, 0)
  if (named.kind !== 'read' || named.target === null) throw new Error('the exit names no relay')
  const { host, port, family } = named.target
  const isElsewhere = family !== 0 && rules.refusedAddress(host, port, loopback) === null
  return { host: isElsewhere ? host : exitAddress, port }
}

const relayThrough = async (
  { rules }: GatewayContext,
  control: BufferedSocket,
  bound: Buffer,
  { exit, onDatagram }: UdpUpstreamRequest,
): Promise<UdpUpstream> => {
  const loopback = exit.sandbox
  const { host, port } = relayOf(bound, unmapped(control.socket.remoteAddress ?? ''), rules, loopback)
  const socket = await bindUdp(isIPv6(host) ? 6 : 4, null)
  try {
    socket.connect(port, host)
    await once(socket, 'connect')
  } catch (error) {
    socket.close()
    throw error
  }
  socket.on('message', (bytes) => {
    const from = bytes.length < 4 || bytes[2] !== 0 ? null : decodeTarget(bytes, 3)
    if (from?.kind === 'read' && from.target !== null && from.target.family !== 0)
      onDatagram({ address: from.target.host, port: from.target.port }, bytes.subarray(3 + from.length))
  })
  const { promise: lost, resolve } = Promise.withResolvers<void>()
  let closed = false
  const close = (): void => {
    if (closed) return
    closed = true
    socket.close()
    control.socket.destroy()
    resolve()
  }
  // An association lives as long as the connection that it was asked for on.
  control.use({ ...discardHandler, end: close, closed: close })
  const isRefused = (target: Target): boolean =>
    rules.refused(target) !== null ||
    (target.family === 0
      ? rules.refusedName(target.host, loopback)
      : rules.refusedAddress(target.host, target.port, loopback)) !== null
  return {
    send: (target, payload, charge) => {
      if (!closed && !isRefused(target)) sendDatagram(socket, [header, encodeTarget(target), payload], charge)
    },
    close,
    closed: lost,
  }
}

/** Through a SOCKS5 exit that relays UDP itself; names are resolved there. @throws when it does not */
export const socksUdpUpstream = async (
  context: GatewayContext,
  endpoint: Endpoint,
  request: UdpUpstreamRequest,
): Promise<UdpUpstream> => {
  const control = await openEndpoint(
    { resolve: context.resolve, ca: null, onFault: context.onFault },
    endpoint,
    request,
  )
  try {
    const answer = await commandBySocks(control, endpoint, 'associate', anyAddress, request)
    if (answer.denied) throw new Error(answer.why.detail)
    return await relayThrough(context, control, answer.bound, request)
  } catch (error) {
    control.socket.destroy()
    throw error
  }
}

/** How datagrams get to targets and back. */
export type UdpUpstream = {
  /** A datagram that cannot go is lost, as datagrams may be, and costs nothing then. */
  send(target: Target, payload: Buffer, charge: DatagramCharge): void
  close(): void
  /** Settles when the exit relays no more. */
  readonly closed: Promise<void>
}

/** A datagram came back. */
export type OnDatagram = (from: { readonly address: string; readonly port: number }, payload: Buffer) => void

export type UdpUpstreamRequest = {
  readonly exit: Exit
  /** What keeps its address of a prefix; null: another one each time. */
  readonly session: string | null
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly onDatagram: OnDatagram
}
