import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { describe, test } from 'node:test'
import fc, { runs } from '../../support/fast-check.ts'
import { until } from '../../support/until.ts'
import { authorization, basic, talkTo } from '../support/clients.ts'
import { startGateway } from '../support/gateway.ts'
import { httpTarget, tcpTarget } from '../support/targets.ts'

/** A body in pieces: by its length, or in chunks, with trailers then. */
type Body = { readonly pieces: readonly string[]; readonly chunked: boolean; readonly trailer: string | null }

type Message = { readonly fields: readonly (readonly [string, string])[]; readonly body: Body | null }

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,12}$/)
const value = fc.stringMatching(/^[A-Za-z0-9 ;=,"/.!-]{0,40}$/).map((text) => text.trim())
const body = fc.option(
  fc.record({
    pieces: fc.array(fc.string({ minLength: 1, maxLength: 3_000 }), { maxLength: 5 }),
    chunked: fc.boolean(),
    trailer: fc.option(value),
  }),
)
const message: fc.Arbitrary<Message> = fc.record({
  fields: fc.array(
    fc.tuple(
      word.map((name) => `x-${name}`),
      value,
    ),
    { maxLength: 8 },
  ),
  body,
})
const exchange = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH'),
  path: fc.stringMatching(/^\/[a-z0-9/?&=%.~-]{0,30}$/),
  status: fc.constantFrom(200, 201, 204, 206, 301, 304, 401, 404, 418, 500, 503),
  sent: message,
  answered: message,
})
type Exchange = typeof exchange extends fc.Arbitrary<infer Value> ? Value : never

const writeBody = (
  stream: {
    write(bytes: Buffer): unknown
    end(): unknown
    addTrailers(fields: Record<string, string>): void
  },
  given: Body | null,
): void => {
  for (const piece of given?.pieces ?? []) stream.write(Buffer.from(piece))
  if (given?.chunked && given.trailer !== null) stream.addTrailers({ 'x-trailer': given.trailer })
  stream.end()
}
const headersOf = ({ fields, body: given }: Message): [string, string][] => [
  ...fields.map(([name, text]): [string, string] => [name, text]),
  ...(given === null
    ? []
    : given.chunked
      ? [
          ['transfer-encoding', 'chunked'] as [string, string],
          ...(given.trailer === null ? [] : [['trailer', 'x-trailer'] as [string, string]]),
        ]
      : [
          [
            'content-length',
            String(given.pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)),
          ] as [string, string],
        ]),
]

/** About one connection only, another one each time, or of the gateway. */
const notCompared = /^(?:connection|keep-alive|date|host|proxy-.*|x-proxy-request-id)$/i

const read = async (from: IncomingMessage) => {
  const chunks: Buffer[] = []
  for await (const chunk of from) chunks.push(chunk as Buffer)
  const raw = from.rawHeaders
  return {
    fields: raw.flatMap((name, at) =>
      at % 2 === 1 || notCompared.test(name) ? [] : [`${name}: ${raw[at + 1]}`],
    ),
    body: Buffer.concat(chunks).toString('utf8'),
    trailers: from.rawTrailers,
  }
}

test('random requests and answers are the same with and without the gateway', async (t) => {
  const { port } = await startGateway(t)
  let expected: Exchange
  let seen: unknown
  const { port: target } = await httpTarget(t, async (request, response) => {
    seen = { method: request.method, url: request.url, ...(await read(request)) }
    const { answered, status } = expected
    const bodyless = request.method === 'HEAD' || status === 204 || status === 304
    // Node itself announces no trailers without a body.
    const given = bodyless ? { ...answered, body: null } : answered
    response.writeHead(status, 'A Reason', headersOf(given).flat())
    writeBody(response, given.body)
  })
  const ask = async (by: 'gateway' | 'alone'): Promise<unknown> => {
    const { method, path, sent } = expected
    const host = `127.0.0.1:${target}`
    const request: ClientRequest = httpRequest({
      host: '127.0.0.1',
      port: by === 'gateway' ? port : target,
      method,
      path: by === 'gateway' ? `http://${host}${path}` : path,
      headers: [
        'host',
        host,
        ...(by === 'gateway' ? ['proxy-authorization', basic()] : []),
        ...headersOf(sent).flat(),
      ],
    })
    writeBody(request, sent.body)
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return { status: response.statusCode, reason: response.statusMessage, ...(await read(response)), seen }
  }
  await fc.assert(
    fc.asyncProperty(exchange, async (one) => {
      expected = one
      assert.deepEqual(await ask('gateway'), await ask('alone'))
    }),
    { numRuns: runs(100, 5_000) },
  )
})

describe('the forwarder', () => {
  /** A target that answers each request with its head as it came. */
  const mirror = async (t: import('node:test').TestContext) => {
    const heads: string[] = []
    const port = await tcpTarget(t, (socket) => {
      let text = ''
      socket.on('data', (bytes: Buffer) => {
        text += bytes.toString('latin1')
        for (let end = text.indexOf('\r\n\r\n'); end !== -1; end = text.indexOf('\r\n\r\n')) {
          heads.push(text.slice(0, end + 4))
          text = text.slice(end + 4)
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
        }
      })
    })
    return { port, heads }
  }

  test('removes connection headers and all of Proxy-*, adds nothing, and keeps the order', async (t) => {
    const { port } = await startGateway(t)
    const { port: target, heads } = await mirror(t)
    const talk = await talkTo(port)
    talk.write(
      `GET http://127.0.0.1:${target}/x?y=z HTTP/1.1\r\nUser-Agent: me\r\nHost: 127.0.0.1:${target}\r\n${authorization}` +
        'Proxy-Connection: keep-alive\r\nProxy-Secret: s\r\nConnection: keep-alive, X-Mine, TE\r\nX-Mine: 1\r\nTE: trailers\r\n' +
        'Keep-Alive: timeout=5\r\nX-Theirs: 2\r\nx-theirs:3\r\nCookie: a=b\r\n\r\n',
    )
    await talk.until('ok')
    assert.deepEqual(heads, [
      `GET /x?y=z HTTP/1.1\r\nHost: 127.0.0.1:${target}\r\nUser-Agent: me\r\nX-Theirs: 2\r\nx-theirs:3\r\nCookie: a=b\r\n\r\n`,
    ])
  })

  test('takes the host from the URL, whatever the Host field contains', async (t) => {
    const { port } = await startGateway(t)
    const { port: target, heads } = await mirror(t)
    const talk = await talkTo(port)
    talk.write(`GET http://127.0.0.1:${target} HTTP/1.1\r\nHost: other.example\r\n${authorization}\r\n`)
    await talk.until('ok')
    talk.write(`OPTIONS http://127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`)
    await talk.until('ok')
    assert.deepEqual(
      heads.map((head) => head.split('\r\n').slice(0, 2)),
      [
        ['GET / HTTP/1.1', `Host: 127.0.0.1:${target}`],
        ['OPTIONS * HTTP/1.1', `Host: 127.0.0.1:${target}`],
      ],
    )
  })

  test('answers pipelined requests in order over one connection to the target', async (t) => {
    const { port } = await startGateway(t)
    let connections = 0
    const { port: target, server } = await httpTarget(t, (request, response) => {
      setTimeout(() => response.end(`answer to ${request.url};`), Math.random() * 5)
    })
    server.on('connection', () => {
      connections += 1
    })
    const talk = await talkTo(port)
    const paths = Array.from({ length: 30 }, (_, n) => `/${n}`)
    talk.write(
      paths.map((path) => `GET http://127.0.0.1:${target}${path} HTTP/1.1\r\n${authorization}\r\n`).join(''),
    )
    for (const path of paths) assert.ok((await talk.until(';')).endsWith(`answer to ${path};`))
    assert.equal(connections, 1)
  })

  test('passes 100 Continue before the body arrives', async (t) => {
    const { port } = await startGateway(t)
    const { port: target } = await httpTarget(t, (request, response) => void request.pipe(response))
    const talk = await talkTo(port)
    talk.write(
      `POST http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`,
    )
    assert.equal(await talk.until('\r\n\r\n'), 'HTTP/1.1 100 Continue\r\n\r\n')
    talk.write('hello')
    assert.match(await talk.until('hello'), /^HTTP\/1\.1 200 OK\r\n/)
  })

  test('passes an upgrade, and then bytes both ways', async (t) => {
    const { port, access } = await startGateway(t)
    const { port: target, server } = await httpTarget(t, (_, response) => void response.end('no upgrade'))
    server.on('upgrade', (request, socket) => {
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${request.headers.upgrade}\r\n\r\nat once`,
      )
      socket.pipe(socket)
    })
    const talk = await talkTo(port)
    talk.write(
      `GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    )
    assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 101 .*Upgrade: websocket\r\n/s)
    assert.equal((await talk.exactly(7)).toString(), 'at once')
    talk.write('hello')
    assert.equal((await talk.exactly(5)).toString(), 'hello')
    talk.socket.end()
    await talk.rest()
    await until(() => access.open === 0)
  })

  test('sends a request again over a new connection when the target closed the idle one', async (t) => {
    const { port } = await startGateway(t)
    let connections = 0
    const target = await tcpTarget(t, (socket) => {
      connections += 1
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
        // The next request finds it closing.
        socket.once('data', () => socket.destroy())
      })
    })
    const talk = await talkTo(port)
    for (let n = 0; n < 3; n++) {
      talk.write(`GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
      assert.match(await talk.until('ok'), /^HTTP\/1\.1 200 /)
    }
    assert.equal(connections, 3)
    talk.write(`POST http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
    assert.match((await talk.rest()).toString(), /^HTTP\/1\.1 502 /, 'a POST is never sent twice')
  })

  test('speaks HTTP/1.0 with such clients: no chunks, and the end of the connection is the end', async (t) => {
    const { port } = await startGateway(t)
    const { port: target } = await httpTarget(t, (_, response) => {
      response.write('part ')
      response.end('and part')
    })
    const talk = await talkTo(port)
    talk.write(`GET http://127.0.0.1:${target}/ HTTP/1.0\r\n${authorization}\r\n`)
    const answer = (await talk.rest()).toString()
    assert.doesNotMatch(answer, /transfer-encoding/i)
    assert.match(answer, /\r\n\r\npart and part$/)
  })

  test("aborts an answer by a reset when the target aborts one that only the connection's end delimits", async (t) => {
    const { port } = await startGateway(t)
    const target = await tcpTarget(t, (socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\npart', () => setTimeout(() => socket.resetAndDestroy(), 20))
      })
    })
    const talk = await talkTo(port)
    talk.write(`GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
    await talk.until('part')
    await assert.rejects(talk.rest(), { code: 'ECONNRESET' })
  })

  test('reads no more requests while the client does not read its answers', async (t) => {
    const { port } = await startGateway(t)
    let count = 0
    const { port: target } = await httpTarget(t, (_, response) => {
      count += 1
      response.end(Buffer.alloc(500_000))
    })
    const talk = await talkTo(port)
    talk.socket.pause()
    const request = `GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`
    talk.write(request.repeat(200))
    await until(() => count > 3)
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.ok(count < 60, `${count} requests were answered into a socket without a reader`)
    talk.socket.destroy()
  })
})
