import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIP, isIPv4, isIPv6 } from 'node:net'
import type { Failure } from '../../domain/exits/connection-failures.ts'
import { unmapped } from '../../kernel/ip-address.ts'
import { type BufferedSocket, noopHandler } from '../buffered-socket.ts'
import type { Client, GatewayContext } from '../client.ts'
import { addressOfPrefix, chooseExit, sessionOf, targetAddresses } from '../dial/dial.ts'
import { commandBySocks, type Endpoint, openEndpoint } from '../dial/via-exit.ts'
import type { Admission, Denied, Exit, Route } from '../gateway-ports.ts'
import { gatewayUnavailable, refuse, sessionFailed } from '../refusals.ts'
import { chargeBytes, reserveBytes } from '../relay/tunnel.ts'
import type { Target, TargetRules } from '../targets.ts'
import { decodeTarget, encodeTarget, socksReplies, socksReply } from './socks-messages.ts'

const noUdp = refuse(
  403,
  'udp_not_allowed',
  'This line has no UDP: generate it with udp on, for a plan that has it.',
)

/** RSV and FRAG of a datagram (RFC 1928 section 7). */
const headerStart = Buffer.of(0, 0, 0)

/**
 * Destination and payload of a client's datagram; null for datagrams to drop (RFC 1928 section 7), fragments included.
 */
const readDatagram = (bytes: Buffer) => {
  if (bytes.length < 4 || bytes[0] !== 0 || bytes[1] !== 0 || bytes[2] !== 0) return null
  const found = decodeTarget(bytes, 3)
  if (found.kind !== 'read' || found.target === null) return null
  return { target: found.target, payload: bytes.subarray(3 + found.length) }
}

/**
 * UDP ASSOCIATE: a relay on the address that the client dialled. It ends with the connection of the request. It accepts
 * datagrams from that client only. It ends when the budget does not cover a datagram completely.
 */
export const associate = async (
  context: GatewayContext,
  client: Client,
  admission: Admission,
  refused: (why: Denied) => void,
): Promise<void> => {
  const { limits, metrics, abortHandlers } = context
  const { wire, deadline } = client
  const { spending, line, dedicated } = admission
  const fail = (why: Denied): void => {
    admission.close({ error: why.error, host: null, protocol: 'udp' })
    refused(why)
  }
  if (!(dedicated === null ? line.targeting.udp : dedicated.udp)) return fail(noUdp)
  const control = wire.socket
  const { source } = client
  // Null until the client sends its first datagram. Datagrams of the exit are dropped until then.
  let peer: RemoteInfo | null = null
  let error: Failure | null = null
  let isEnded = false
  let relay: UdpSocket
  let removeAbortHandler = (): void => undefined

  let waitingDatagrams = 0
  const sendLater = async (bytes: number, direction: 'up' | 'down', send: () => void): Promise<void> => {
    if (waitingDatagrams >= limits.udpWaiting) return
    waitingDatagrams += 1
    const why = await chargeBytes(spending, bytes, direction).catch(() => gatewayUnavailable)
    waitingDatagrams -= 1
    if (why !== null) end(why.error)
    else if (isEnded) spending.giveBack(bytes, direction)
    else send()
  }
  const chargeOf = ({ length }: Buffer, direction: 'up' | 'down'): DatagramCharge => ({
    reserve: () => reserveBytes(spending, length, direction),
    sendLater: (send) => client.contain(sendLater(length, direction, send)),
    sent: () => {
      deadline.touch()
      metrics.countBytes(direction, length)
    },
    refund: () => spending.giveBack(length, direction),
  })
  const toClient = (from: { readonly address: string; readonly port: number }, payload: Buffer): void => {
    if (isEnded || peer === null) return
    const host = unmapped(from.address)
    const header = encodeTarget({ host, family: isIP(host) as 4 | 6, port: from.port })
    sendDatagram(relay, [headerStart, header, payload], chargeOf(payload, 'down'), peer)
  }
  const opened = await openUdpRoute(context, client, admission, toClient)
  if (opened.denied) return fail(opened)
  const { route, udpUpstream } = opened
  const dialledAddress = unmapped(control.localAddress ?? '')
  try {
    relay = await bindUdp(isIPv6(dialledAddress) ? 6 : 4, dialledAddress)
  } catch {
    route.close()
    udpUpstream.close()
    return fail(gatewayUnavailable)
  }
  const end = (why: Failure | null): void => {
    if (isEnded) return
    isEnded = true
    error = why
    removeAbortHandler()
    relay.close()
    udpUpstream.close()
    route.close()
    control.destroySoon()
    metrics.closed('udp')
    admission.close({ error, host: null, protocol: 'udp', exit: route.exit })
  }
  relay.on(
    'error',
    client.guard(() => end('udp_failed')),
  )
  relay.on(
    'message',
    client.guard((bytes: Buffer, from: RemoteInfo) => {
      // The first source port of the client's address is the client's port.
      if (unmapped(from.address) !== source || (peer !== null && peer.port !== from.port)) return
      const parsedDatagram = readDatagram(bytes)
      if (parsedDatagram === null) return
      peer ??= from
      udpUpstream.send(parsedDatagram.target, parsedDatagram.payload, chargeOf(parsedDatagram.payload, 'up'))
    }),
  )
  client.contain(udpUpstream.closed.then(() => end('exit_failed')))
  metrics.opened('udp')
  removeAbortHandler = abortHandlers.on(spending.ended, (why) => end(why.error))
  deadline.within(limits.idleMs, () => end('idle_timeout'))
  wire.use({
    ...noopHandler,
    bytes: () => true,
    end: () => end(null),
    closed: () => end(null),
  })
  if (isEnded) return
  const { address, port } = relay.address()
  const bound = encodeTarget({ host: unmapped(address), family: isIP(unmapped(address)) as 4 | 6, port })
  control.write(socksReply(socksReplies.succeeded, bound))
}

/** Time limit of an exit's answer with the address of its relay, milliseconds. */
const exitMs = 5_000

const noRelay = refuse(502, 'exit_failed', 'The exit does not relay UDP.')

/**
 * Opens a UDP upstream through an exit of the admission. If an exit fails, the next one is tried. A session has one
 * exit, which is tried again. Never rejects.
 * @returns the upstream and its route; close both together
 */
const openUdpRoute = async (
  context: GatewayContext,
  client: Pick<Client, 'disconnected' | 'requestId'>,
  admission: Admission,
  onDatagram: OnDatagram,
): Promise<{ readonly denied: false; readonly route: Route; readonly udpUpstream: UdpUpstream } | Denied> => {
  const { limits, clock } = context
  const { dedicated } = admission
  const deadlineMs = clock() + limits.dialMs
  const session = sessionOf(admission)
  for (let tries = dedicated === null ? limits.exitTries : 1; tries > 0; tries--) {
    const route = await chooseExit(context, client, admission, true)
    if (route.denied) return route
    const startedMs = clock()
    const timeoutMs = Math.min(exitMs, deadlineMs - startedMs)
    if (client.disconnected.aborted || timeoutMs <= 0) {
      route.done('unused', 0)
      route.close()
      return noRelay
    }
    try {
      const udpUpstream = await openUdpUpstream(context, {
        exit: route.exit,
        session: route.sessionName ?? session,
        timeoutMs,
        signal: client.disconnected,
        onDatagram,
      })
      route.done('connected', clock() - startedMs)
      return { denied: false, route, udpUpstream }
    } catch {
      route.done(client.disconnected.aborted ? 'unused' : 'failed', clock() - startedMs)
      route.close()
    }
  }
  return session === null || dedicated !== null ? noRelay : sessionFailed
}

/** Sends datagrams to targets and receives their answers. */
type UdpUpstream = {
  /** A datagram that cannot be sent is dropped, without a charge. */
  send(target: Target, payload: Buffer, charge: DatagramCharge): void
  close(): void
  /** Settles when the exit stops relaying. */
  readonly closed: Promise<void>
}

/** Receives a datagram from a target. */
type OnDatagram = (from: { readonly address: string; readonly port: number }, payload: Buffer) => void

type UdpUpstreamRequest = {
  readonly exit: Exit
  /** The session name that fixes the address within a prefix; null: a random address each time. */
  readonly session: string | null
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly onDatagram: OnDatagram
}

/** @throws Error when the exit does not relay UDP */
const openUdpUpstream = async (
  context: GatewayContext,
  request: UdpUpstreamRequest,
): Promise<UdpUpstream> => {
  const { exit, session, onDatagram } = request
  const { via, sandbox } = exit
  switch (via.kind) {
    case 'direct':
      return directUdpUpstream(context, via.localAddress, sandbox, onDatagram)
    case 'prefix':
      return directUdpUpstream(context, addressOfPrefix(via.prefix, session), sandbox, onDatagram)
    case 'socks5':
      return socksUdpUpstream(context, via, request)
    case 'http':
    case 'https':
      throw new Error('an HTTP proxy relays no UDP')
    default:
      return via satisfies never
  }
}

/** A UDP upstream from this machine. It accepts datagrams only from targets that it sent to. */
const directUdpUpstream = (
  context: GatewayContext,
  localAddress: string | null,
  loopback: boolean,
  onDatagram: OnDatagram,
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
        if (peers.has(`${unmapped(address)} ${port}`)) onDatagram({ address, port }, payload)
      })
      if (isClosed) socket.close()
      return socket
    })
    sockets.set(family, opened)
    return opened
  }
  const send = async (target: Target, payload: Buffer, charge: DatagramCharge): Promise<void> => {
    const found = await targetAddresses(context, target, localAddress, loopback)
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

/** A UDP upstream through a SOCKS5 exit, which resolves names. @throws Error when the exit does not relay UDP */
const socksUdpUpstream = async (
  context: GatewayContext,
  endpoint: Endpoint,
  request: UdpUpstreamRequest,
): Promise<UdpUpstream> => {
  const control = await openEndpoint(context, endpoint, request)
  try {
    const answer = await commandBySocks(control, endpoint, 'associate', anyAddress, request)
    if (answer.denied) throw new Error(answer.why.detail)
    return await relayThrough(context, control, answer.bound, request)
  } catch (error) {
    control.socket.destroy()
    throw error
  }
}

const anyAddress: Target = { host: '0.0.0.0', family: 4, port: 0 }

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
  control.use({ ...noopHandler, end: close, closed: close })
  const isRefused = (target: Target): boolean =>
    rules.refused(target) !== null || rules.refusedHost(target, loopback) !== null
  return {
    send: (target, payload, charge) => {
      if (!isClosed && !isRefused(target))
        sendDatagram(socket, [headerStart, encodeTarget(target), payload], charge)
    },
    close,
    closed: closedPromise,
  }
}

/** The charge of one datagram. */
type DatagramCharge = {
  /** Takes all of its bytes, just before it is sent. @returns whether it may be sent */
  reserve(): boolean
  /** Waits until its bytes can be taken, takes them, and sends it. Too many waiting datagrams: drops it. */
  sendLater(send: () => void): void
  sent(): void
  /** The datagram was not sent: gives the bytes back. */
  refund(): void
}

/** The largest datagram over IPv4, bytes. The same limit applies to IPv6. */
const maxBytes = 65_507
/** A socket with more queued bytes drops datagrams. */
const maxQueuedBytes = 1_048_576

/** Opens a socket on a free port. Later errors, such as an unreachable target, are ignored: the datagrams are lost. */
const bindUdp = async (family: 4 | 6, address: string | null): Promise<UdpSocket> => {
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
const sendDatagram = (
  socket: UdpSocket,
  parts: readonly Buffer[],
  charge: DatagramCharge,
  to?: { readonly address: string; readonly port: number },
): void => {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0)
  if (bytes > maxBytes || socket.getSendQueueSize() > maxQueuedBytes) return
  const done = (error: Error | null): void => (error === null ? charge.sent() : charge.refund())
  const send = (): void => {
    if (to === undefined) socket.send(parts, done)
    else socket.send(parts, to.port, to.address, done)
  }
  if (charge.reserve()) send()
  else charge.sendLater(send)
}
