import type { FastifyInstance } from 'fastify'

/**
 * Stops accepting, lets requests that run finish and closes idle connections; what has not ended after `graceMs` is
 * cut. The caller closes the command runner and the log afterwards, when no request can reach them any more.
 * @returns whether every request had ended
 */
export const shutDown = async (app: FastifyInstance, graceMs: number): Promise<boolean> => {
  let inTime = true
  const timer = setTimeout(() => {
    inTime = false
    app.server.closeAllConnections()
  }, graceMs)
  try {
    await app.close()
  } finally {
    clearTimeout(timer)
  }
  return inTime
}
