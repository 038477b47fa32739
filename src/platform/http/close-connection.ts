import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export type HangUp = {
  /**
   * Ends a connection after all data written to it, and after `last`. Meanwhile it reads and drops what the client
   * still sends: unread bytes at the close make the kernel send a reset, which can destroy the answer before the client
   * reads it. After the linger time the connection is destroyed, even if the client has not closed it.
   */
  end(socket: Socket, last?: string): void
  /** Whether `end` was called for the connection. */
  has(socket: Socket): boolean
}

export const createHangUp = (lingerMs: number): HangUp => {
  const ending = new WeakSet<Socket>()
  return {
    end: (socket, last) => {
      if (ending.has(socket) || socket.destroyed) return
      ending.add(socket)
      const timer = setTimeout(() => socket.destroy(), lingerMs)
      socket.once('close', () => clearTimeout(timer))
      if (last === undefined) socket.end()
      else socket.end(last)
      socket.resume()
    },
    has: (socket) => ending.has(socket),
  }
}

/** The requests of each connection that have no complete answer yet. A client may send several before it reads. */
export type PendingResponses = {
  add(request: IncomingMessage, response: ServerResponse): void
  /** The last pending answer, among the requests that were received completely. */
  last(socket: Socket): ServerResponse | undefined
}

export const createPendingResponses = (): PendingResponses => {
  const pendingBySocket = new WeakMap<Socket, Set<ServerResponse>>()
  return {
    add: ({ socket }, response) => {
      const answers = pendingBySocket.get(socket) ?? new Set()
      pendingBySocket.set(socket, answers.add(response))
      response.once('close', () => answers.delete(response))
    },
    last: (socket) => [...(pendingBySocket.get(socket) ?? [])].findLast(({ req }) => req.complete),
  }
}
