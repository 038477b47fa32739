import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIP, isIPv6 } from 'node:net'
import { unmapped } from '../../../platform/http/client-address.ts'
import type { Client } from '../client.ts'
import type { Context } from '../context.ts'
import type { Failure } from '../failures.ts'
import { routeOf } from '../open-route.ts'
import type { Admission, Denied } from '../ports.ts'
import { refuse, socksReplies, unavailable } from '../refusals.ts'
import { takeWhole } from '../relay/pay.ts'
import { openUdpWay, type UdpWay } from './udp-way.ts'
import { decodeTarget, encodeTarget, socksReply } from './wire-form.ts'

const headerStart = Buffer.of(0, 0, 0)

const noUdp = (): Denied =>
  refuse(403, 'udp_not_allowed', 'This line has no UDP: generate it with udp on, for a plan that has it.')

/** A datagram of a client: destination and payload; null for what RFC 1928 section 7 lets us drop, fragments too. */
const readDatagram = (bytes: Buffer) => {
  if (bytes.length < 4 || bytes[0] !== 0 || bytes[1] !== 0 || bytes[2] !== 0) return null
  const found = decodeTarget(bytes, 3)
  if (found.kind !== 'read' || found.target === null) return null
  return { target: found.target, payload: bytes.subarray(3 + found.length) }
}

const bindUdp = async (address: string): Promise<UdpSocket> => {
  const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4')
  socket.bind(0, address)
  await once(socket, 'listening')
  return socket
}

/**
 * UDP ASSOCIATE: a relay on the address that the client dialled, open as long as the connection that asked for it. It takes
 * datagrams from that client alone; a datagram that the budget does not cover whole is dropped.
 */
export const associate = async (
  context: Context,
  client: Client,
  admission: Admission,
  refused: (why: Denied) => void,
): Promise<void> => {
  const { limits, metrics, cuts } = context
  const { wire, watch, gone } = client
  const { spending, line, dedicated } = admission
  const fail = (why: Denied): void => {
    admission.close({ error: why.error, host: null })
    refused(why)
  }
  if (!(dedicated === null ? line.targeting.udp : dedicated.udp)) return fail(noUdp())
  const route = await routeOf(context, admission, true)
  if (route.denied) return fail(route)
  const control = wire.socket
  let relay: UdpSocket
  let way: UdpWay
  try {
    way = await openUdpWay(context, admission, route.exit, gone, (from, payload) => toClient(from, payload))
  } catch {
    route.done('failed', 0)
    route.close()
    return fail(refuse(502, 'exit_failed', 'The exit does not relay UDP.'))
  }
  try {
    relay = await bindUdp(unmapped(control.localAddress ?? ''))
  } catch {
    route.done('unused', 0)
    route.close()
    way.close()
    return fail(unavailable())
  }
  route.done('connected', 0)

  const source = unmapped(control.remoteAddress ?? '')
  let peer: RemoteInfo | null = null
  let error: Failure | null = null
  let over = false

  const pay = (payload: Buffer, direction: 'up' | 'down'): boolean => {
    if (!takeWhole(spending, payload.length, direction)) return false
    watch.touch()
    metrics.passed(direction, payload.length)
    return true
  }
  const toClient = (from: { readonly address: string; readonly port: number }, payload: Buffer): void => {
    if (over || peer === null || !pay(payload, 'down')) return
    const host = unmapped(from.address)
    const family = isIP(host) as 4 | 6
    const header = encodeTarget({ host, family, port: from.port })
    // One that is too long with its header is lost, as datagrams may be.
    relay.send([headerStart, header, payload], peer.port, peer.address, () => undefined)
  }
  const end = (why: Failure | null): void => {
    if (over) return
    over = true
    error = why
    uncut()
    relay.close()
    way.close()
    route.close()
    control.destroySoon()
    metrics.closed('udp')
    admission.close({ error, host: null })
  }
  relay.on('error', () => end('udp_failed'))
  relay.on('message', (bytes, from) => {
    // The first port that the client's address sends from is the client's.
    if (unmapped(from.address) !== source || (peer !== null && peer.port !== from.port)) return
    const read = readDatagram(bytes)
    if (read === null) return
    peer ??= from
    way.send(read.target, read.payload, () => pay(read.payload, 'up'))
  })
  metrics.opened('udp')
  const uncut = cuts.on(spending.ended, (why) => end(why.error))
  watch.within(limits.idleMs, () => end('idle_timeout'))
  wire.use({
    bytes: () => true,
    end: () => end(null),
    drain: () => undefined,
    closed: () => end(null),
    holds: () => false,
  })
  if (over) return
  const { address, port } = relay.address()
  const bound = encodeTarget({ host: unmapped(address), family: isIP(unmapped(address)) as 4 | 6, port })
  control.write(socksReply(socksReplies.succeeded, bound))
}
