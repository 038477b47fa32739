import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

const sweepMs = 20

/**
 * Hangs up connections that have no request, from the moment the server closes. Node itself does so only once, at that
 * moment, and counts a connection that never sent a byte as busy: a client that keeps its connection alive, or only
 * opened one, would hold a shutdown up until its time is over.
 */
export const hangUpIdleOnClose = (app: FastifyInstance): void => {
  const open = new Set<Socket>()
  app.server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  const sweep = (): void => {
    app.server.closeIdleConnections()
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy()
  }
  app.addHook('preClose', (done) => {
    const timer = setInterval(sweep, sweepMs)
    app.server.once('close', () => clearInterval(timer))
    done()
  })
}
