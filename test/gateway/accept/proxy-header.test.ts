import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import fc from 'fast-check'
import { parseProxyHeader } from '../../../src/gateway/proxy-header.ts'
import { trustedProxies } from '../../../src/platform/http/connections.ts'
import { until } from '../../support/until.ts'
import { selfSigned } from '../support/certificate.ts'
import { authorization, sendRaw, talkOver, talkTo } from '../support/clients.ts'
import { startGateway } from '../support/gateway.ts'
import { echoTarget } from '../support/targets.ts'

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')

const binary = (family: number, addresses: readonly number[], command = 0x21): Buffer => {
  const body = Buffer.from([...addresses, 0x1f, 0x90, 0x23, 0x28])
  const head = Buffer.from([command, family, body.length >> 8, body.length & 0xff])
  return Buffer.concat([signature, head, body])
}

const headers = [
  { name: 'version 1', bytes: Buffer.from('PROXY TCP4 203.0.113.7 198.51.100.1 4711 9000\r\n') },
  { name: 'version 2', bytes: binary(0x11, [203, 0, 113, 7, 198, 51, 100, 1]) },
]

const behindBalancer = (t: TestContext) => startGateway(t, { balancers: trustedProxies('127.0.0.1') })

for (const { name, bytes } of headers) {
  test(`a PROXY header of ${name} has the client's address and the dialled one, in any pieces`, async (t) => {
    const { port, access } = await behindBalancer(t)
    const target = `127.0.0.1:${await echoTarget(t)}`
    const request = `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${authorization}\r\n`
    for (const cut of [0, 1, 7, bytes.length - 1, bytes.length]) {
      const talk = await talkTo(port)
      if (cut > 0) {
        talk.write(bytes.subarray(0, cut))
        await new Promise((done) => setTimeout(done, 10))
      }
      talk.write(Buffer.concat([bytes.subarray(cut), Buffer.from(request)]))
      assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200/)
      talk.write('round and back')
      assert.equal((await talk.exactly(14)).toString(), 'round and back')
      talk.socket.destroy()
    }
    assert.equal(access.attempts.length, 5)
    for (const { source, dialled } of access.attempts)
      assert.deepEqual([source, dialled], ['203.0.113.7', '198.51.100.1'])
  })

  test(`a PROXY header of ${name} may precede TLS`, async (t) => {
    const { gateway, access } = await behindBalancer(t)
    const tls = selfSigned()
    const port = await gateway.listen({ host: '127.0.0.1', port: 0, tls })
    const target = `127.0.0.1:${await echoTarget(t)}`
    const raw = await talkTo(port)
    raw.write(bytes)
    const talk = talkOver(
      connectTls({ socket: raw.socket, ca: tls.cert, checkServerIdentity: () => undefined }),
    )
    talk.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${authorization}\r\n`)
    assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200/)
    assert.equal(access.attempts[0]?.source, '203.0.113.7')
    raw.socket.destroy()
  })
}

test('a balancer without a valid header is disconnected, and other clients send none', async (t) => {
  const { port, access, lines } = await behindBalancer(t)
  for (const bytes of [
    'GET http://example.com/ HTTP/1.1\r\n',
    'PROXY TCP4 one two 1 2\r\n',
    'PROXY '.repeat(40),
  ])
    assert.equal(await sendRaw(port, bytes), '')
  await until(
    () => lines.filter((line) => line.includes('a connection of a balancer was closed')).length === 3,
  )
  const direct = await startGateway(t)
  assert.match(await sendRaw(direct.port, headers[0]!.bytes), /^HTTP\/1\.1 400/)
  assert.match(await sendRaw(direct.port, headers[1]!.bytes), /^HTTP\/1\.1 400/)
  assert.equal(access.attempts.length + direct.access.attempts.length, 0)
})

test('a port that is none and a zone of an address are refused', () => {
  for (const line of [
    'TCP4 9.9.9.9 8.8.8.8 99999 1',
    'TCP4 9.9.9.9 8.8.8.8 1 x',
    'TCP6 fe80::1%eth0 ::1 1 2',
  ])
    assert.throws(() => parseProxyHeader(Buffer.from(`PROXY ${line}\r\n`)), RangeError, line)
})

test('a health check of a balancer names no client', () => {
  assert.equal(parseProxyHeader(Buffer.from('PROXY UNKNOWN\r\n'))?.peer, null)
  assert.equal(parseProxyHeader(binary(0x11, [1, 2, 3, 4, 5, 6, 7, 8], 0x20))?.peer, null)
})

test('IPv6 addresses have one form, and addresses of IPv4 within them are IPv4', () => {
  const six = (text: string) =>
    parseProxyHeader(Buffer.from(`PROXY TCP6 ${text} 2001:db8::1 1 2\r\n`))?.peer?.source
  assert.equal(six('::ffff:192.0.2.1'), '192.0.2.1')
  const mapped = [...Array(10).fill(0), 255, 255, 192, 0, 2, 1]
  const found = parseProxyHeader(binary(0x21, [...mapped, 0x20, 1, 0xd, 0xb8, ...Array(11).fill(0), 1]))
  assert.deepEqual(found?.peer, { source: '192.0.2.1', dialled: '2001:db8::1' })
})

test('property: any bytes are a header, an incomplete one, or refused, and never read past their end', () => {
  const start = fc.constantFrom(
    Buffer.alloc(0),
    signature,
    Buffer.from('PROXY '),
    Buffer.from('PROXY TCP4 1.2.3.4 '),
  )
  fc.assert(
    fc.property(start, fc.uint8Array({ maxLength: 64 }), (prefix, rest) => {
      const bytes = Buffer.concat([prefix, rest])
      try {
        assert.ok((parseProxyHeader(bytes)?.length ?? 0) <= bytes.length)
      } catch (error) {
        assert.match((error as Error).message, /^no valid PROXY header: /)
      }
    }),
  )
})
