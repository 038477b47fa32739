import type { RemoteInfo, Socket as UdpSocket } from 'node:dgram'
import { isIP, isIPv6 } from 'node:net'
import { unmapped } from '../../../platform/http/client-address.ts'
import type { Client } from '../client.ts'
import type { Context } from '../context.ts'
import type { Failure } from '../failures.ts'
import type { Admission, Denied } from '../ports.ts'
import { refuse, socksReplies, unavailable } from '../refusals.ts'
import { takeWhole } from '../relay/pay.ts'
import { bindUdp, sendDatagram, type Toll } from './datagrams.ts'
import { openUdpRoute } from './open-udp-route.ts'
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
  const { wire, watch } = client
  const { spending, line, dedicated } = admission
  const fail = (why: Denied): void => {
    admission.close({ error: why.error, host: null })
    refused(why)
  }
  if (!(dedicated === null ? line.targeting.udp : dedicated.udp)) return fail(noUdp())
  const control = wire.socket
  const source = unmapped(control.remoteAddress ?? '')
  // An exit may send before the client has: nobody is there yet then.
  let peer: RemoteInfo | null = null
  let error: Failure | null = null
  let over = false
  let relay: UdpSocket
  let uncut = (): void => undefined

  const tollOf = ({ length }: Buffer, direction: 'up' | 'down'): Toll => ({
    take: () => takeWhole(spending, length, direction),
    sent: () => {
      watch.touch()
      metrics.passed(direction, length)
    },
    lost: () => spending.giveBack(length, direction),
  })
  const toClient = (from: { readonly address: string; readonly port: number }, payload: Buffer): void => {
    if (over || peer === null) return
    const host = unmapped(from.address)
    const header = encodeTarget({ host, family: isIP(host) as 4 | 6, port: from.port })
    sendDatagram(relay, [headerStart, header, payload], tollOf(payload, 'down'), peer)
  }
  const opened = await openUdpRoute(context, client, admission, toClient)
  if (opened.denied) return fail(opened)
  const { route, way } = opened
  const here = unmapped(control.localAddress ?? '')
  try {
    relay = await bindUdp(isIPv6(here) ? 6 : 4, here)
  } catch {
    route.close()
    way.close()
    return fail(unavailable())
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
  relay.on(
    'error',
    client.guard(() => end('udp_failed')),
  )
  relay.on(
    'message',
    client.guard((bytes: Buffer, from: RemoteInfo) => {
      // The first port that the client's address sends from is the client's.
      if (unmapped(from.address) !== source || (peer !== null && peer.port !== from.port)) return
      const read = readDatagram(bytes)
      if (read === null) return
      peer ??= from
      way.send(read.target, read.payload, tollOf(read.payload, 'up'))
    }),
  )
  client.contain(way.lost.then(() => end('exit_failed')))
  metrics.opened('udp')
  uncut = cuts.on(spending.ended, (why) => end(why.error))
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
