import { once } from 'node:events'
import { createServer as createHttpServer, type Server as HttpServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { atEnd } from '../../support/cleanup.ts'
import { ownPort } from '../../support/own-port.ts'

const listen = async (server: Server, host: string): Promise<number> => {
  server.listen(0, host)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** A TCP server for one test. @returns its port */
export const tcpTarget = async (
  t: TestContext,
  serve: (socket: Socket) => void,
  host = '127.0.0.1',
): Promise<number> => {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => sockets.delete(socket))
    serve(socket)
  })
  const port = await listen(server, host)
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return port
}

/** Echoes received bytes, and ends when its client does. */
export const echoTarget = (t: TestContext, host = '127.0.0.1'): Promise<number> =>
  tcpTarget(t, (socket) => void socket.pipe(socket), host)

export const httpTarget = async (
  t: TestContext,
  listener: RequestListener,
  host = '127.0.0.1',
): Promise<{ readonly port: number; readonly server: HttpServer }> => {
  const server = createHttpServer(listener)
  const port = await listen(server, host)
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  return { port, server }
}

/** A port of this machine without a listener. */
export const closedPort = (): Promise<number> => ownPort()
