import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import { unmapped } from '../../../platform/http/client-address.ts'
import type { Context } from '../context.ts'
import { commandBySocks } from '../dial/by-socks.ts'
import { type Endpoint, openEndpoint } from '../dial/endpoint.ts'
import type { Target } from '../targets/host.ts'
import type { TargetRules } from '../targets/rules.ts'
import { discarding, type Wire } from '../wire.ts'
import { bindUdp, sendDatagram } from './datagrams.ts'
import type { UdpWay, WayRequest } from './udp-way.ts'
import { decodeTarget, encodeTarget } from './wire-form.ts'

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
  { rules }: Context,
  control: Wire,
  bound: Buffer,
  { exit, arrived }: WayRequest,
): Promise<UdpWay> => {
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
      arrived({ address: from.target.host, port: from.target.port }, bytes.subarray(3 + from.length))
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
  control.use({ ...discarding, end: close, closed: close })
  const isRefused = (target: Target): boolean =>
    rules.refused(target) !== null ||
    (target.family === 0
      ? rules.refusedName(target.host, loopback)
      : rules.refusedAddress(target.host, target.port, loopback)) !== null
  return {
    send: (target, payload, toll) => {
      if (!closed && !isRefused(target)) sendDatagram(socket, [header, encodeTarget(target), payload], toll)
    },
    close,
    lost,
  }
}

/** Through a SOCKS5 exit that relays UDP itself; names are resolved there. @throws when it does not */
export const socksWay = async (
  context: Context,
  endpoint: Endpoint,
  request: WayRequest,
): Promise<UdpWay> => {
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
