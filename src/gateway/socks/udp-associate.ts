import type { RemoteInfo, Socket as UdpSocket } from 'node:dgram'
import { isIP, isIPv6 } from 'node:net'
import type { Failure } from '../../domain/exits/connection-failures.ts'
import { unmapped } from '../../kernel/ip-address.ts'
import type { Client } from '../accept/client-connection.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import { routeOf, sessionOf } from '../dial/open-route.ts'
import { addressOfPrefix } from '../dial/via-exit.ts'
import type { Admission, Denied, Route } from '../gateway-ports.ts'
import { gatewayUnavailable, refuse, sessionFailed, socksReplies } from '../refusals.ts'
import { reserveBytes } from '../relay/pump.ts'
import { decodeTarget, encodeTarget, socksReply } from './socks-messages.ts'
import {
  bindUdp,
  type DatagramCharge,
  directUdpUpstream,
  type OnDatagram,
  sendDatagram,
  socksUdpUpstream,
  type UdpUpstream,
  type UdpUpstreamRequest,
} from './udp-upstreams.ts'

/** @throws Error when the exit does not relay UDP */
export const openUdpUpstream = async (
  context: GatewayContext,
  request: UdpUpstreamRequest,
): Promise<UdpUpstream> => {
  const { via, sandbox } = request.exit
  switch (via.kind) {
    case 'direct':
      return directUdpUpstream(context, via.localAddress, sandbox, request.onDatagram)
    case 'prefix':
      return directUdpUpstream(
        context,
        addressOfPrefix(via.prefix, request.session),
        sandbox,
        request.onDatagram,
      )
    case 'socks5':
      return socksUdpUpstream(context, via, request)
    case 'http':
    case 'https':
      throw new Error('an HTTP proxy relays no UDP')
    default:
      return via satisfies never
  }
}

/** Time limit of an exit's answer with the address of its relay, milliseconds. */
const exitMs = 5_000

const noRelay = (): Denied => refuse(502, 'exit_failed', 'The exit does not relay UDP.')

/**
 * Opens a UDP upstream through an exit of the admission. If an exit fails, the next one is tried. A session has one
 * exit, which is tried again. Never rejects.
 * @returns the upstream and its route; close both together
 */
export const openUdpRoute = async (
  context: GatewayContext,
  client: Pick<Client, 'disconnected'>,
  admission: Admission,
  onDatagram: OnDatagram,
): Promise<{ readonly denied: false; readonly route: Route; readonly udpUpstream: UdpUpstream } | Denied> => {
  const { limits, clock } = context
  const { dedicated } = admission
  const deadlineMs = clock() + limits.dialMs
  const session = sessionOf(admission)
  for (let tries = dedicated === null ? limits.exitTries : 1; tries > 0; tries--) {
    const route = await routeOf(context, admission, true)
    if (route.denied) return route
    const startedMs = clock()
    const timeoutMs = Math.min(exitMs, deadlineMs - startedMs)
    if (client.disconnected.aborted || timeoutMs <= 0) {
      route.done('unused', 0)
      route.close()
      return noRelay()
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
  return session === null || dedicated !== null ? noRelay() : sessionFailed()
}

const headerStart = Buffer.of(0, 0, 0)

const noUdp = (): Denied =>
  refuse(403, 'udp_not_allowed', 'This line has no UDP: generate it with udp on, for a plan that has it.')

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
 * datagrams from that client only. A datagram that the budget does not cover completely is dropped.
 */
export const associate = async (
  context: GatewayContext,
  client: Client,
  admission: Admission,
  refused: (why: Denied) => void,
): Promise<void> => {
  const { limits, metrics, abortHandlers } = context
  const { wire, watch } = client
  const { spending, line, dedicated } = admission
  const fail = (why: Denied): void => {
    admission.close({ error: why.error, host: null })
    refused(why)
  }
  if (!(dedicated === null ? line.targeting.udp : dedicated.udp)) return fail(noUdp())
  const control = wire.socket
  const source = unmapped(control.remoteAddress ?? '')
  // Null until the client sends its first datagram. Datagrams of the exit are dropped until then.
  let peer: RemoteInfo | null = null
  let error: Failure | null = null
  let isEnded = false
  let relay: UdpSocket
  let removeAbortHandler = (): void => undefined

  const chargeOf = ({ length }: Buffer, direction: 'up' | 'down'): DatagramCharge => ({
    reserve: () => reserveBytes(spending, length, direction),
    sent: () => {
      watch.touch()
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
    return fail(gatewayUnavailable())
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
    admission.close({ error, host: null })
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
  watch.within(limits.idleMs, () => end('idle_timeout'))
  wire.use({
    bytes: () => true,
    end: () => end(null),
    drain: () => undefined,
    closed: () => end(null),
    holds: () => false,
  })
  if (isEnded) return
  const { address, port } = relay.address()
  const bound = encodeTarget({ host: unmapped(address), family: isIP(unmapped(address)) as 4 | 6, port })
  control.write(socksReply(socksReplies.succeeded, bound))
}
