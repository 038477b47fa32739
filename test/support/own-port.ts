import assert from 'node:assert/strict'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below what systems hand out by themselves: from 32768 on Linux, from 49152 elsewhere. */
const range = { first: 20_000, count: 12_000 }

/** Of this process, till its end. */
const claims: Socket[] = []

/** A UDP socket reserves the port among the test processes of this machine; it ends with its process. */
const claim = async (port: number): Promise<Socket | null> => {
  const socket = createSocket('udp4').unref()
  try {
    await once(socket.bind({ port, exclusive: true }), 'listening')
    return socket
  } catch {
    socket.close()
    return null
  }
}

/** Whether nothing listens there, on no address of this machine. */
const isFree = async (port: number): Promise<boolean> => {
  const probe = createServer()
  try {
    await once(probe.listen(port), 'listening')
  } catch {
    return false
  }
  probe.close()
  await once(probe, 'close')
  return true
}

/**
 * A TCP port that stays this test's, for programs that get their port before they listen, listen on it twice,
 * or must not be reachable. A port that the system gave for 0 and that was closed again is not reserved: any
 * connection of the machine may get it a moment later.
 * @param adjacent how many in a row
 * @returns the first of them
 */
export const ownPort = async (adjacent = 1): Promise<number> => {
  for (let tries = 0; tries < 1_000; tries += 1) {
    const first = range.first + Math.floor(Math.random() * (range.count - adjacent))
    const held: Socket[] = []
    for (let port = first; port < first + adjacent; port += 1) {
      const socket = await claim(port)
      if (socket) held.push(socket)
      if (!socket || !(await isFree(port))) break
      if (held.length === adjacent) {
        claims.push(...held)
        return first
      }
    }
    for (const socket of held) socket.close()
  }
  return assert.fail('no free port')
}
