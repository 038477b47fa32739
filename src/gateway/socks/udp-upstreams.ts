import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv4, isIPv6 } from 'node:net'
import { unmapped } from '../../kernel/ip-address.ts'
import { type BufferedSocket, discardHandler } from '../accept/buffered-socket.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import { targetAddresses } from '../dial/direct.ts'
import { type Endpoint, openEndpoint } from '../dial/exit-connection.ts'
import { commandBySocks } from '../dial/via-exit.ts'
import type { Exit } from '../gateway-ports.ts'
import type { Target, TargetRules } from '../targets/targets.ts'
import { decodeTarget, encodeTarget } from './socks-messages.ts'

/** The charge of one datagram. */
export type DatagramCharge = {
  /** Takes all of its bytes, just before it is sent. @returns whether it may be sent */
  reserve(): boolean
  sent(): void
  /** The datagram was not sent: gives the bytes back. */
  refund(): void
}

/** The largest datagram over IPv4, bytes. The same limit applies to IPv6. */
const maxBytes = 65_507
/** A socket with more queued bytes drops datagrams. */
const maxQueuedBytes = 1_048_576

/** Opens a socket on a free port. Later errors, such as an unreachable target, are ignored: the datagrams are lost. */
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

/** Charges and sends a datagram, or drops it. @param to default: the address that the socket is connected to */
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

/** A UDP upstream from this machine. It accepts datagrams only from targets that it sent to. */
export const directUdpUpstream = (
  context: GatewayContext,
  localAddress: string | null,
  loopback: boolean,
  arrived: OnDatagram,
): UdpUpstream => {
  const { rules, limits } = context
  const sockets = new Map<4 | 6, Promise<UdpSocket>>()
  const peers = new Set<string>()
  let pendingLookups = 0
  let isClosed = false
  const socketFor = (family: 4 | 6): Promise<UdpSocket> => {
    const existing = sockets.get(family)
    if (existing) return existing
    const opened = bindUdp(family, localAddress).then((socket) => {
      socket.on('message', (payload, { address, port }) => {
        if (peers.has(`${unmapped(address)} ${port}`)) arrived({ address, port }, payload)
      })
      if (isClosed) socket.close()
      return socket
    })
    sockets.set(family, opened)
    return opened
  }
  const send = async (target: Target, payload: Buffer, charge: DatagramCharge): Promise<void> => {
    const found = await targetAddresses(context, { target, localAddress, loopback })
    if ('denied' in found) return
    // Prefers IPv4, which works nearly everywhere: UDP does not report lost datagrams.
    const address = found.find((each) => isIPv4(each)) ?? found[0]
    if (address === undefined) return
    const peer = `${unmapped(address)} ${target.port}`
    if (!peers.has(peer) && peers.size >= limits.udpPeers) return
    const socket = await socketFor(isIPv6(address) ? 6 : 4)
    if (isClosed) return
    peers.add(peer)
    sendDatagram(socket, [payload], charge, { address, port: target.port })
  }
  return {
    send: (target, payload, charge) => {
      if (rules.refused(target)) return
      const newLookups = target.family === 0 ? 1 : 0
      if (pendingLookups + newLookups > limits.udpWaiting) return
      pendingLookups += newLookups
      send(target, payload, charge)
        .catch(() => undefined)
        .finally(() => {
          pendingLookups -= newLookups
        })
    },
    close: () => {
      isClosed = true
      for (const opened of sockets.values()) opened.then((socket) => socket.close()).catch(() => undefined)
    },
    closed: new Promise(() => undefined),
  }
}

const anyAddress = { host: '0.0.0.0', family: 4, port: 0 } as const
const header = Buffer.of(0, 0, 0)

/**
 * The address of an exit's relay. An exit behind NAT answers with a private address, an exit that listens on all
 * interfaces answers with none, and a hostile exit could answer with one of our machines. In all of these cases the
 * address of the exit itself is used.
 * @throws Error when the answer contains no address
 */
const relayOf = (
  bound: Buffer,
  exitAddress: string,
  rules: TargetRules,
  loopback: boolean,
): { readonly host: string; readonly port: number } => {
  const decoded = decodeTarget(bound, 0)
  if (decoded.kind !== 'read' || decoded.target === null) throw new Error('the exit names no relay')
  const { host, port, family } = decoded.target
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
  const { promise: closedPromise, resolve } = Promise.withResolvers<void>()
  let isClosed = false
  const close = (): void => {
    if (isClosed) return
    isClosed = true
    socket.close()
    control.socket.destroy()
    resolve()
  }
  // An association ends with its control connection.
  control.use({ ...discardHandler, end: close, closed: close })
  const isRefused = (target: Target): boolean =>
    rules.refused(target) !== null ||
    (target.family === 0
      ? rules.refusedName(target.host, loopback)
      : rules.refusedAddress(target.host, target.port, loopback)) !== null
  return {
    send: (target, payload, charge) => {
      if (!isClosed && !isRefused(target))
        sendDatagram(socket, [header, encodeTarget(target), payload], charge)
    },
    close,
    closed: closedPromise,
  }
}

/** A UDP upstream through a SOCKS5 exit, which resolves names. @throws Error when the exit does not relay UDP */
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

/** Sends datagrams to targets and receives their answers. */
export type UdpUpstream = {
  /** A datagram that cannot be sent is dropped, without a charge. */
  send(target: Target, payload: Buffer, charge: DatagramCharge): void
  close(): void
  /** Settles when the exit stops relaying. */
  readonly closed: Promise<void>
}

/** Receives a datagram from a target. */
export type OnDatagram = (from: { readonly address: string; readonly port: number }, payload: Buffer) => void

export type UdpUpstreamRequest = {
  readonly exit: Exit
  /** The session name that fixes the address within a prefix; null: a random address each time. */
  readonly session: string | null
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly onDatagram: OnDatagram
}
