import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { buildConnector } from 'undici'
import { checkedConnector } from '../../../src/platform/outgoing/connector.ts'
import { TargetRefused } from '../../../src/platform/outgoing/target.ts'

test('a socket connected to a private address is closed, whatever was checked before it was dialled', async (t) => {
  const taken: Socket[] = []
  const given: Socket[] = []
  const server = createServer((socket) => taken.push(socket.on('error', () => undefined))).listen(
    0,
    '127.0.0.1',
  )
  await once(server, 'listening')
  t.after(() => {
    for (const socket of [...taken, ...given]) socket.destroy()
    server.close()
  })
  const { port } = server.address() as { port: number }
  const dial = (allowLoopback: boolean): Promise<Socket> =>
    new Promise((resolve, reject) =>
      checkedConnector(buildConnector({}), { allowLoopback })(
        { hostname: '127.0.0.1', protocol: 'http:', port: String(port) },
        (error, socket) => {
          if (error) return reject(error)
          given.push(socket)
          resolve(socket)
        },
      ),
    )
  await assert.rejects(dial(false), TargetRefused)
  if (taken.length === 0) await once(server, 'connection')
  const [first] = taken
  if (first && !first.closed) await once(first.resume(), 'close')
  const open = await dial(true)
  assert.equal(open.destroyed, false)
})
