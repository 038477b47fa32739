import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { publicOutgoing, sandboxOutgoing } from '../../src/payments/outgoing.ts'

test('real providers are reached over https at public addresses only', async (t) => {
  let hits = 0
  const server = createServer((_request, response) => {
    hits += 1
    response.end('{}')
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  const { send, close } = publicOutgoing()
  t.after(close)
  for (const url of [
    `http://127.0.0.1:${port}/`,
    `https://127.0.0.1:${port}/`,
    `https://localhost:${port}/`,
    `https://[::1]:${port}/`,
    `https://[::ffff:127.0.0.1]:${port}/`,
    `https://2130706433:${port}/`,
    'https://169.254.169.254/latest/meta-data/',
    'https://10.0.0.1/',
    'https://192.168.1.1/',
    'https://100.64.0.1/',
    'https://user:password@pay.example.com/',
    'ftp://pay.example.com/',
  ])
    await assert.rejects(send(url), url)
  assert.equal(hits, 0)
})

test('the stand-ins are reached at their own address and nowhere else, and no redirect is followed', async (t) => {
  const server = createServer((request, response) => {
    if (request.url === '/away') response.writeHead(302, { location: '/' }).end()
    else response.end('{"ok":true}')
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  const { send, close } = sandboxOutgoing(`http://127.0.0.1:${port}`)
  t.after(close)
  assert.equal(await (await send(`http://127.0.0.1:${port}/x`)).text(), '{"ok":true}')
  await assert.rejects(send(`http://127.0.0.1:${port}/away`))
  await assert.rejects(send(`http://127.0.0.1:${port === 1 ? 2 : 1}/`), /is not the sandbox/)
  await assert.rejects(send('https://api.stripe.com/v1/checkout/sessions'), /is not the sandbox/)
})
