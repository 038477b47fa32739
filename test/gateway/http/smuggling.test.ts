import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { authorization, sendRaw, talkTo } from '../support/clients.ts'
import { startGateway } from '../support/gateway.ts'
import { tcpTarget } from '../support/targets.ts'

const head = (lines: string, method = 'POST') =>
  `${method} http://127.0.0.1:TARGET/ HTTP/1.1\r\n${authorization}${lines}`

/** What two readers may understand differently, or what holds memory: each with its answer. */
const table: readonly (readonly [string, string, number])[] = [
  [
    'Content-Length beside Transfer-Encoding',
    head('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'),
    400,
  ],
  [
    'Transfer-Encoding beside Content-Length',
    head('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n'),
    400,
  ],
  ['two Content-Length that differ', head('Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello'), 400],
  ['two Content-Length that are the same', head('Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello'), 400],
  ['a list as Content-Length', head('Content-Length: 5, 5\r\n\r\nhello'), 400],
  ['a negative Content-Length', head('Content-Length: -5\r\n\r\nhello'), 400],
  ['a signed Content-Length', head('Content-Length: +5\r\n\r\nhello'), 400],
  ['a hexadecimal Content-Length', head('Content-Length: 0x5\r\n\r\nhello'), 400],
  ['a Content-Length that no number holds', head('Content-Length: 99999999999999999999\r\n\r\n'), 400],
  ['an empty Content-Length', head('Content-Length:\r\n\r\n'), 400],
  ['Transfer-Encoding of two codings', head('Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'), 400],
  [
    'Transfer-Encoding twice',
    head('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'),
    400,
  ],
  ['Transfer-Encoding identity', head('Transfer-Encoding: identity\r\n\r\n'), 400],
  ['Transfer-Encoding with a look-alike', head('Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n'), 400],
  ['an empty Transfer-Encoding', head('Transfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello'), 400],
  [
    'Transfer-Encoding with a control character',
    head('Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n'),
    400,
  ],
  ['a blank before the colon', head('Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n'), 400],
  ['a line without a colon', head('Transfer-Encoding\r\n\r\n'), 400],
  ['a header without a name', head(': x\r\n\r\n'), 400],
  [
    'Transfer-Encoding in HTTP/1.0',
    head('Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n').replace('HTTP/1.1', 'HTTP/1.0'),
    400,
  ],
  ['a folded line', head('A: 1\r\n Transfer-Encoding: chunked\r\n\r\n'), 400],
  ['a folded line with a tab', head('A: 1\r\n\tb\r\n\r\n'), 400],
  ['a bare line feed after a header', head('A: 1\nB: 2\r\n\r\n'), 400],
  ['a bare line feed after the request line', head('\r\n').replace('HTTP/1.1\r\n', 'HTTP/1.1\n'), 400],
  ['bare line feeds alone', head('\r\n').replaceAll('\r', ''), 400],
  ['a bare carriage return', head('A: 1\rB: 2\r\n\r\n'), 400],
  ['a zero byte', head('A: \0\r\n\r\n'), 400],
  ['a chunk without a size', head('Transfer-Encoding: chunked\r\n\r\n\r\n'), 400],
  ['a chunk size with 0x', head('Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n'), 400],
  ['a chunk size with a sign', head('Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n'), 400],
  ['a chunk size that no number holds', head('Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n'), 400],
  [
    'a chunk line with a bare line feed',
    head('Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n'),
    400,
  ],
  [
    'a chunk extension with a bare line feed',
    head('Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n'),
    400,
  ],
  ['a chunk extension without end', head(`Transfer-Encoding: chunked\r\n\r\n5;${'a'.repeat(1_000)}`), 400],
  ['a chunk longer than its size', head('Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n'), 400],
  ['a trailer that frames', head('Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n'), 400],
  ['a trailer that is none', head('Transfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.1\r\n\r\n'), 400],
  [
    'a Connection that takes Content-Length out',
    head('Connection: content-length\r\nContent-Length: 5\r\n\r\nhello'),
    400,
  ],
  ['a Connection that takes Host out', head('Connection: host\r\n\r\n', 'GET'), 400],
  ['two Host', head('Host: a\r\nHost: b\r\n\r\n', 'GET'), 400],
  ['two Proxy-Authorization', head(`${authorization}\r\n`, 'GET'), 400],
  ['a user in the URL', `GET http://a:b@127.0.0.1:TARGET/ HTTP/1.1\r\n${authorization}\r\n`, 400],
  ['a backslash in the URL', `GET http://127.0.0.1:TARGET\\@a/ HTTP/1.1\r\n${authorization}\r\n`, 400],
  ['a blank in the URL', `GET http://127.0.0.1:TARGET/a b HTTP/1.1\r\n${authorization}\r\n`, 400],
  ['a tab after the method', `GET\thttp://127.0.0.1:TARGET/ HTTP/1.1\r\n${authorization}\r\n`, 400],
  ['two blanks in the request line', `GET  http://127.0.0.1:TARGET/ HTTP/1.1\r\n${authorization}\r\n`, 400],
  ['a request line of origin form', `GET / HTTP/1.1\r\nHost: 127.0.0.1:TARGET\r\n${authorization}\r\n`, 400],
  ['HTTP/0.9', `GET http://127.0.0.1:TARGET/\r\n\r\n`, 400],
  ['HTTP/2.0', `GET http://127.0.0.1:TARGET/ HTTP/2.0\r\n${authorization}\r\n`, 505],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505],
  [
    'CONNECT with a body',
    `CONNECT 127.0.0.1:TARGET HTTP/1.1\r\n${authorization}Content-Length: 5\r\n\r\nhello`,
    400,
  ],
  ['a head of more than 64 KiB', head(`A: ${'a'.repeat(66_000)}\r\n\r\n`, 'GET'), 431],
  ['a head of more than 64 KiB without end', `GET http://127.0.0.1:TARGET/${'a'.repeat(66_000)}`, 431],
  ['more than 200 header lines', head(`${'A: 1\r\n'.repeat(201)}\r\n`, 'GET'), 431],
]

describe('the forwarder refuses', () => {
  for (const [name, request, status] of table)
    test(`${name} with ${status}`, async (t) => {
      const { port, access } = await startGateway(t)
      const target = await tcpTarget(t, (socket) => void socket.resume())
      const answer = await sendRaw(port, Buffer.from(request.replaceAll('TARGET', String(target)), 'latin1'))
      assert.ok(answer.startsWith(`HTTP/1.1 ${status} `), answer.slice(0, 200))
      assert.equal(answer.match(/HTTP\/1\.1 \d{3} /g)?.length, 1, 'one answer, and then the end')
      assert.equal(access.open, 0)
    })
})

test('bytes after a refused request on the connection are not read as a request', async (t) => {
  const { port, access } = await startGateway(t)
  const second = `GET http://127.0.0.1:1/second HTTP/1.1\r\n${authorization}\r\n`
  const answer = await sendRaw(port, `${head('Content-Length: x\r\n\r\n').replace('TARGET', '1')}${second}`)
  assert.equal(answer.match(/HTTP\/1\.1 /g)?.length, 1)
  assert.equal(access.attempts.length, 0)
})

test('bytes of a target after its answer are not used as the next answer', async (t) => {
  const { port } = await startGateway(t)
  let connections = 0
  const target = await tcpTarget(t, (socket) => {
    connections += 1
    socket.on('data', () => {
      const n = connections
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nno. ${n}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison`,
      )
    })
  })
  const talk = await talkTo(port)
  for (const n of [1, 2]) {
    talk.write(`GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
    await talk.until('\r\n\r\n')
    assert.equal((await talk.exactly(5)).toString(), `no. ${n}`)
  }
})

test('a head that is too slow is answered with 408, and a silent connection is closed', async (t) => {
  const { port } = await startGateway(t, { limits: { headMs: 100 } })
  assert.match(await sendRaw(port, 'GET http://127.0.0.1/ HTTP/1.1\r\nA: '), /^HTTP\/1\.1 408 /)
  const silent = await talkTo(port)
  assert.equal((await silent.rest()).length, 0)
  assert.equal((await sendRaw(port, Buffer.of(5))).length, 0)
})

test('a username of any length reaches the check that names its length', async (t) => {
  const { port, access } = await startGateway(t)
  const username = 'u'.repeat(20_000)
  const basic = Buffer.from(`${username}:p`).toString('base64')
  await sendRaw(port, `CONNECT a.example:80 HTTP/1.1\r\nProxy-Authorization: Basic ${basic}\r\n\r\n`)
  assert.deepEqual(access.attempts[0]?.credentials, { username, password: 'p' })
})
