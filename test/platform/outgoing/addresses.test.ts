import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createTlsServer } from 'node:https'
import { createServer, type Server, Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Agent, fetch } from 'undici'
import { guardedConnector } from '../../../src/platform/outgoing/connector.ts'
import { raceTo } from '../../../src/platform/outgoing/race.ts'
import { selfSigned } from '../../gateway/support/certificate.ts'
import { closedPort } from '../../gateway/support/targets.ts'
import { atEnd } from '../../support/cleanup.ts'

const listening = async (t: TestContext, server: Server): Promise<number> => {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket.on('error', () => undefined)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as { readonly port: number }).port
}

test('the delay between two addresses starts the next attempt and does not end a slow one', async (t) => {
  const port = await listening(t, createServer())
  const dialled: string[] = []
  const startedMs = performance.now()
  const { socket } = await raceTo({
    addresses: ['slow', 'silent'],
    timeoutMs: 5_000,
    dial: (address) => {
      dialled.push(address)
      const dialling = { socket: new Socket() }
      // Such as an address far away, whose handshake takes longer than the delay; and one that never answers.
      if (address === 'slow')
        setTimeout(() => {
          if (!dialling.socket.destroyed) dialling.socket.connect(port, '127.0.0.1')
        }, 600)
      return dialling
    },
  })
  socket.destroy()
  assert.ok(performance.now() - startedMs >= 590)
  assert.deepEqual(dialled, ['slow', 'silent'])
})

test('a request over TLS reaches a name with its root dot, at any answering address', async (t) => {
  const { key, cert } = selfSigned()
  const serverNames: unknown[] = []
  const server = createTlsServer({ key, cert }, (_request, response) => response.end('here'))
  server.on('secureConnection', ({ servername }) => serverNames.push(servername))
  const port = await listening(t, server)
  const agent = new Agent({
    connect: guardedConnector({
      resolve: async () => ['::1', '127.0.0.1'],
      rules: { allowLoopback: true },
      timeoutMs: 5_000,
      ca: cert,
    }),
  })
  atEnd(t, () => agent.destroy())
  for (const host of ['localhost', 'localhost.']) {
    const response = await fetch(`https://${host}:${port}/`, { dispatcher: agent })
    assert.equal(await response.text(), 'here')
  }
  assert.deepEqual(serverNames, ['localhost', 'localhost'])
})

test('a name without an answering address is refused with the last failure', async (t) => {
  const port = await closedPort()
  const agent = new Agent({
    connect: guardedConnector({
      resolve: async () => ['::1', '127.0.0.1'],
      rules: { allowLoopback: true },
      timeoutMs: 5_000,
    }),
  })
  atEnd(t, () => agent.destroy())
  await assert.rejects(fetch(`http://localhost:${port}/`, { dispatcher: agent }), (error: Error) => {
    assert.equal((error.cause as { code?: string }).code, 'ECONNREFUSED')
    return true
  })
})
