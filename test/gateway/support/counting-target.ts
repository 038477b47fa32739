import type { Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { tcpTarget } from './targets.ts'

/**
 * A client's first message to the counting target: the owner of the connection, and how much each side sends.
 */
export const headerOf = (id: number, up: number, down: number): Buffer => {
  const header = Buffer.alloc(12)
  header.writeUInt32BE(id, 0)
  header.writeUInt32BE(up, 4)
  header.writeUInt32BE(down, 8)
  return header
}

export type CountingTarget = {
  readonly port: number
  /** Bytes that came in on the connection of this id, its header too. */
  received(id: number): number
  /** An id that no connection has. */
  nextId(): number
}

const piece = Buffer.alloc(64 * 1024, 'x')

const send = (socket: Socket, bytes: number): void => {
  let left = bytes
  const go = (): void => {
    while (left > 0 && !socket.destroyed) {
      const part = piece.subarray(0, Math.min(left, piece.length))
      left -= part.length
      if (!socket.write(part)) return void socket.once('drain', go)
    }
    socket.end()
  }
  go()
}

/** Takes an upload, counts it, then sends a download and ends. */
export const startCountingTarget = async (t: TestContext): Promise<CountingTarget> => {
  const counts = new Map<number, number>()
  let ids = 0
  const port = await tcpTarget(t, (socket) => {
    let head = Buffer.alloc(0)
    let wanted: { readonly id: number; readonly up: number; readonly down: number } | null = null
    socket.on('data', (chunk: Buffer) => {
      if (wanted === null) {
        head = Buffer.concat([head, chunk])
        if (head.length < 12) return
        wanted = { id: head.readUInt32BE(0), up: head.readUInt32BE(4), down: head.readUInt32BE(8) }
        counts.set(wanted.id, head.length)
      } else counts.set(wanted.id, (counts.get(wanted.id) ?? 0) + chunk.length)
      if (counts.get(wanted.id) === 12 + wanted.up) send(socket, wanted.down)
    })
  })
  return {
    port,
    received: (id) => counts.get(id) ?? 0,
    nextId: () => {
      ids += 1
      return ids
    },
  }
}
