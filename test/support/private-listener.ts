import { once } from 'node:events'
import { createServer } from 'node:net'
import type { TestContext } from 'node:test'

/** Listens on every address of this machine and counts the TCP connections. */
export const privateListener = async (t: TestContext) => {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.destroy()
  }).listen(0, '::')
  await once(server, 'listening')
  t.after(() => server.close())
  return { port: (server.address() as { port: number }).port, connections: () => connections }
}
