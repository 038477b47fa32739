import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** The requests of each connection that have no whole answer yet; a client may send several before it reads. */
export type Unanswered = {
  add(request: IncomingMessage, response: ServerResponse): void
  /** The answer that is owed last, of the requests that came whole. */
  last(socket: Socket): ServerResponse | undefined
}

export const createUnanswered = (): Unanswered => {
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
