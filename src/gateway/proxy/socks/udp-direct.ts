import type { Socket as UdpSocket } from 'node:dgram'
import { isIPv4, isIPv6 } from 'node:net'
import { unmapped } from '../../../platform/http/client-address.ts'
import type { Context } from '../context.ts'
import { targetAddresses } from '../dial/direct.ts'
import type { Target } from '../targets/host.ts'
import { bindUdp, sendDatagram, type Toll } from './datagrams.ts'
import type { Arrived, UdpWay } from './udp-way.ts'

/** From this machine: a target may answer only after it was sent something. */
export const directWay = (
  context: Context,
  localAddress: string | null,
  loopback: boolean,
  arrived: Arrived,
): UdpWay => {
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
  const send = async (target: Target, payload: Buffer, toll: Toll): Promise<void> => {
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
    sendDatagram(socket, [payload], toll, { address, port: target.port })
  }
  return {
    send: (target, payload, toll) => {
      if (rules.refused(target)) return
      const waits = target.family === 0 ? 1 : 0
      if (waiting + waits > limits.udpWaiting) return
      waiting += waits
      send(target, payload, toll)
        .catch(() => undefined)
        .finally(() => {
          waiting -= waits
        })
    },
    close: () => {
      closed = true
      for (const opened of sockets.values()) opened.then((socket) => socket.close()).catch(() => undefined)
    },
    lost: new Promise(() => undefined),
  }
}
