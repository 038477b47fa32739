import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'

/** What one datagram costs. */
export type Toll = {
  /** Takes all of it, just before the datagram goes. @returns whether it may go */
  take(): boolean
  sent(): void
  /** It did not go after all: what was taken is given back. */
  lost(): void
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
  toll: Toll,
  to?: { readonly address: string; readonly port: number },
): void => {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0)
  if (bytes > maxBytes || socket.getSendQueueSize() > maxQueuedBytes || !toll.take()) return
  const done = (error: Error | null): void => (error === null ? toll.sent() : toll.lost())
  if (to === undefined) socket.send(parts, done)
  else socket.send(parts, to.port, to.address, done)
}
