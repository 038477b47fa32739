import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export type HangUp = {
  /**
   * Ends a connection after what is written to it, and after `last`. What its client still sends is read and thrown away
   * meanwhile: unread bytes at the close would have the kernel send a reset, which can eat the answer before the client
   * reads it. After the linger it is destroyed, whether or not the client has hung up, too.
   */
  end(socket: Socket, last?: string): void
  /** Whether it was hung up on before. */
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

/** The requests of each connection that have no whole answer yet; a client may send several before it reads. */
export type PendingResponses = {
  add(request: IncomingMessage, response: ServerResponse): void
  /** The answer that is owed last, of the requests that came whole. */
  last(socket: Socket): ServerResponse | undefined
}

export const createPendingResponses = (): PendingResponses => {
  const owed = new WeakMap<Socket, Set<ServerResponse>>()
  return {
    add: ({ socket }, response) => {
      const answers = owed.get(socket) ?? new Set()
      owed.set(socket, answers.add(response))
      response.once('close', () => answers.delete(response))
    },
    last: (socket) => [...(owed.get(socket) ?? [])].findLast(({ req }) => req.complete),
  }
}
