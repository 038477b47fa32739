import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { until } from '../../support/until.ts'
import { authorization, curl, talkTo } from '../support/clients.ts'
import { startGateway, type TestGateway } from '../support/gateway.ts'
import { tcpTarget } from '../support/targets.ts'

/** One gateway and one target: the target answers with the test's bytes. */
const openWorld = async () => {
  const ends: (() => unknown)[] = []
  const t = { after: (end: () => unknown) => void ends.push(end) } as TestContext
  const gateway: TestGateway = await startGateway(t)
  let answers: readonly string[] = []
  let keepsOpen = false
  let connections = 0
  const heads: string[] = []
  const target = await tcpTarget(t, (socket) => {
    connections += 1
    let text = ''
    socket.on('data', async (bytes: Buffer) => {
      text += bytes.toString('latin1')
      if (!text.includes('\r\n\r\n')) return
      heads.push(text)
      text = ''
      for (const piece of answers) {
        socket.write(Buffer.from(piece, 'latin1'))
        // Each piece in a separate packet.
        if (answers.length > 1) await new Promise((resolve) => setTimeout(resolve, 5))
      }
      if (!keepsOpen) socket.end()
    })
  })
  const request = (version = '1.1', path = '/', method = 'GET') =>
    `${method} http://127.0.0.1:${target}${path} HTTP/${version}\r\n${authorization}\r\n`
  return {
    close: async () => {
      for (const end of ends) await end()
    },
    gateway,
    target,
    heads,
    connections: () => connections,
    request,
    answerWith: (pieces: readonly string[], stays = false) => {
      answers = pieces
      keepsOpen = stays
    },
    /** The bytes that a client gets for one request with this answer, up to the end of its connection. */
    through: async (pieces: string | readonly string[], version = '1.1', method = 'GET'): Promise<string> => {
      answers = typeof pieces === 'string' ? [pieces] : pieces
      keepsOpen = false
      const talk = await talkTo(gateway.port)
      talk.write(request(version, '/', method).replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
      const answer = (await talk.rest()).toString('latin1')
      talk.socket.destroy()
      return answer
    },
  }
}

/** A target's answer, and the client's view of it. */
const accepted: readonly (readonly [string, string | readonly string[], RegExp])[] = [
  [
    'the status 999 of LinkedIn',
    'HTTP/1.1 999 Request denied\r\nContent-Length: 2\r\n\r\nno',
    /^HTTP\/1\.1 999 Request denied\r\n.*\r\n\r\nno$/s,
  ],
  [
    'a status below 100',
    'HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nok',
    /^HTTP\/1\.1 099 Odd\r\n.*\r\n\r\nok$/s,
  ],
  ['a status of 600', 'HTTP/1.1 600\r\nContent-Length: 2\r\n\r\nok', /^HTTP\/1\.1 600 \r\n.*\r\n\r\nok$/s],
  [
    'two blanks before the status',
    'HTTP/1.1  200  OK\r\nContent-Length: 2\r\n\r\nok',
    /^HTTP\/1\.1 200 .*\r\n\r\nok$/s,
  ],
  [
    'a higher minor version',
    'HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok',
    /^HTTP\/1\.1 200 OK\r\n.*ok$/s,
  ],
  [
    'lower case in the version',
    'http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
    /^HTTP\/1\.1 200 OK\r\n.*ok$/s,
  ],
  [
    'bare LF',
    'HTTP/1.1 200 OK\nContent-Length: 2\nA: b\n\nok',
    /^HTTP\/1\.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n.*\r\n\r\nok$/s,
  ],
  [
    'bare LF for some lines',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\nA: b\r\n\nok',
    /\r\nA: b\r\n.*\r\n\r\nok$/s,
  ],
  [
    'bare LF, and an empty line with CR LF in the body',
    'HTTP/1.1 200 OK\nContent-Length: 6\n\na\r\n\r\nb',
    /\r\n\r\na\r\n\r\nb$/,
  ],
  [
    'bare LF in pieces of one byte',
    [...'HTTP/1.1 200 OK\nContent-Length: 2\n\nok'],
    /\r\nContent-Length: 2\r\n.*\r\n\r\nok$/s,
  ],
  [
    'empty lines before the status line',
    '\r\n\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
    /^HTTP\/1\.1 200 OK\r\n.*ok$/s,
  ],
  [
    'a Content-Length twice',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok',
    /^(?!.*Content-Length.*Content-Length).*Content-Length: 2\r\n.*\r\n\r\nok$/s,
  ],
  [
    'a Content-Length as a list',
    'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok',
    /\r\nContent-Length: 2\r\n.*\r\n\r\nok$/s,
  ],
  [
    'Transfer-Encoding with Content-Length',
    'HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    /^(?!.*Content-Length).*Transfer-Encoding: chunked\r\n.*\r\n\r\n2\r\nok\r\n0\r\n\r\n$/s,
  ],
  [
    'Transfer-Encoding twice',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    /^(?!.*Transfer-Encoding.*Transfer-Encoding).*\r\n\r\n2\r\nok\r\n0\r\n\r\n$/s,
  ],
  [
    'Transfer-Encoding in HTTP/1.0',
    'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    /\r\n\r\n2\r\nok\r\n0\r\n\r\n$/,
  ],
  [
    'Transfer-Encoding identity',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok',
    /^(?!.*Transfer-Encoding).*Content-Length: 2\r\n.*\r\n\r\nok$/s,
  ],
  [
    'an unknown coding, up to the end of the connection',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\nall of it',
    /^(?!.*Content-Length).*Connection: close\r\n\r\nall of it$/s,
  ],
  [
    '300 header lines',
    `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${'A: b\r\n'.repeat(300)}\r\nok`,
    /(?:A: b\r\n){300}.*\r\n\r\nok$/s,
  ],
  [
    'a head of 200 kB',
    `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${`Set-Cookie: ${'c'.repeat(4_000)}\r\n`.repeat(50)}\r\nok`,
    /\r\n\r\nok$/,
  ],
  [
    'a blank before the colon, which goes',
    'HTTP/1.1 200 OK\r\nContent-Length : 2\r\nA\t: b\r\n\r\nok',
    /\r\nContent-Length: 2\r\nA: b\r\n.*\r\n\r\nok$/s,
  ],
  [
    'a folded line, which becomes one',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n  c\r\n\td\r\n\r\nok',
    /\r\nA: b c d\r\n.*\r\n\r\nok$/s,
  ],
  [
    'a line behind the status line that begins with a blank',
    'HTTP/1.1 200 OK\r\n A: b\r\nContent-Length: 2\r\n\r\nok',
    /^HTTP\/1\.1 200 OK\r\nContent-Length: 2\r\n.*\r\n\r\nok$/s,
  ],
  [
    'lines that are no fields',
    'HTTP/1.1 200 OK\r\nno field\r\n: empty\r\nwith blank: x\r\n folded\r\nContent-Length: 2\r\n\r\nok',
    /^HTTP\/1\.1 200 OK\r\nContent-Length: 2\r\n.*\r\n\r\nok$/s,
  ],
  [
    'a zero byte and a bare CR in a value',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\0c\rd\r\n\r\nok',
    /\r\nA: b c d\r\n.*\r\n\r\nok$/s,
  ],
  [
    '0xA0, which belongs to the value',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: \xa0b\xa0\r\n\r\nok',
    /\r\nA: \xa0b\xa0\r\n.*\r\n\r\nok$/s,
  ],
  [
    'a Connection that names Transfer-Encoding, as Akamai sends it',
    'HTTP/1.1 200 OK\r\nConnection: keep-alive, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    /Transfer-Encoding: chunked\r\n.*\r\n\r\n2\r\nok\r\n0\r\n\r\n$/s,
  ],
  [
    'chunks with bare LF',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n',
    /\r\n\r\n2\r\nok\r\n0\r\n\r\n$/,
  ],
  [
    'chunks with blanks, zeros and extensions',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n  0000000000000002 \r\nok\r\n1 ;a=b\r\n!\r\n0 \r\n\r\n',
    /\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n$/,
  ],
  [
    'chunks with bare LF in pieces of one byte',
    [...'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\nA: b\n\n'],
    /\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n$/,
  ],
  [
    'trailers that may not stand there, which go',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 5\r\nX-Proxy-Error: x\r\nno field\r\nA: b\r\n\r\n',
    /\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n$/,
  ],
  [
    '50 interim answers',
    `${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(50)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
    /^(?:HTTP\/1\.1 102 Processing\r\n\r\n){50}HTTP\/1\.1 200 OK\r\n.*\r\n\r\nok$/s,
  ],
]

/** Answers that are ambiguous, or of ambiguous length. */
const refused: readonly (readonly [string, string])[] = [
  ['two Content-Length that differ', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!'],
  ['a list of Content-Length that differ', 'HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok!'],
  ['a Content-Length that is no number', 'HTTP/1.1 200 OK\r\nContent-Length: 2\xa0\r\n\r\nok'],
  ['a signed Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok'],
  ['an empty Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
  ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
  ['101 without a request', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
  ['a head of more than 256 KiB', `HTTP/1.1 200 OK\r\nA: ${'a'.repeat(270_000)}\r\n\r\n`],
]

describe('an answer of a target', () => {
  let world: Awaited<ReturnType<typeof openWorld>>
  before(async () => {
    world = await openWorld()
  })
  after(() => world.close())

  for (const [name, answer, expected] of accepted)
    test(`passes with ${name}`, async () => {
      const got = await world.through(answer)
      assert.match(got, expected)
      await until(() => world.gateway.access.open === 0)
    })
  for (const [name, answer] of refused)
    test(`becomes 502 with ${name}`, async () => {
      const got = await world.through(answer)
      assert.match(got, /^HTTP\/1\.1 502 Bad Gateway\r\n.*X-Proxy-Error: bad_response\r\n/s)
    })

  test('with a chunk without a size is aborted', async () => {
    for (const bad of ['x\r\n', '\r\n', ';a\r\n', '-1\r\n', `${'f'.repeat(20)}\r\n`, '2\r\nok!\r\n']) {
      const got = await world.through(
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n${bad}0\r\n\r\n`,
      )
      assert.doesNotMatch(got, /0\r\n\r\n$/, JSON.stringify(bad))
    }
  })

  test("never has the gateway's own headers", async () => {
    const own =
      'X-Proxy-Error: exit_failed\r\nx-proxy-detail : d\r\nX-PROXY-Fallback: country\r\nX-Proxy-Session-Minutes: 1\r\nProxy-Authenticate: Basic\r\n' +
      'Proxy-Status: gateway; error=proxy_internal_error\r\nProxy-Status: "\r\nX-Proxy-Request-Id: req_forged\r\n' +
      'Connection: X-Proxy-Request-Id\r\n'
    for (const status of ['407 No', '502 Bad Gateway', '200 OK']) {
      const got = await world.through(
        `HTTP/1.1 ${status}\r\n${own}X-Proxy-Cache: HIT\r\nContent-Length: 2\r\n\r\nok`,
      )
      assert.ok(got.startsWith(`HTTP/1.1 ${status}\r\nX-Proxy-Cache: HIT\r\nContent-Length: 2\r\n`), got)
      assert.doesNotMatch(got, /error|detail|fallback|session|authenticate|forged/i)
      assert.deepEqual(got.match(/^proxy-status:.*$/gim), ['Proxy-Status: gateway'])
      assert.equal(got.match(/^x-proxy-request-id: req_[0-9a-f]{32}$/gim)?.length, 1)
    }
    const interim = await world.through(
      `HTTP/1.1 103 Early Hints\r\n${own}\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`,
    )
    assert.ok(interim.startsWith('HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n'), interim)
    const trailed = await world.through(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Proxy-Status\r\n\r\n2\r\nok\r\n0\r\n' +
        'Proxy-Status: gateway; error=dns_error\r\nX-Proxy-Request-Id: req_forged\r\nA: b\r\n\r\n',
    )
    assert.match(trailed, /\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n$/)
  })

  test('is decoded for a client of HTTP/1.0, who gets no interim answer', async () => {
    const chunks =
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2;x=y\r\nok\r\n3\n, y\nB\r\nes, and yes\r\n0\r\nA: b\r\n\r\n'
    for (const pieces of [[chunks], [...chunks]]) {
      const got = await world.through(pieces, '1.0')
      assert.match(
        got,
        /^HTTP\/1\.1 200 OK\r\nX-Proxy-Request-Id: req_[0-9a-f]{32}\r\nProxy-Status: gateway\r\nConnection: close\r\n\r\nok, yes, and yes$/,
      )
    }
    assert.match(world.heads.at(-1)!, /^GET \/ HTTP\/1\.1\r\n/)
  })

  test('is aborted by a reset for a client of HTTP/1.0 when its chunks are incomplete', async () => {
    world.answerWith(['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npart'])
    const talk = await talkTo(world.gateway.port)
    talk.write(world.request('1.0'))
    await talk.until('part')
    await assert.rejects(talk.rest(), { code: 'ECONNRESET' })
  })

  test('keeps its length and its connection for a client of HTTP/1.0 that requests it', async () => {
    world.answerWith(['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'], true)
    const talk = await talkTo(world.gateway.port)
    for (let n = 0; n < 2; n++) {
      talk.write(world.request('1.0').replace('\r\n\r\n', '\r\nConnection: keep-alive\r\n\r\n'))
      assert.match(await talk.until('\r\n\r\nok'), /\r\nConnection: keep-alive\r\n/)
    }
    talk.socket.destroy()
  })

  test('has no body for HEAD, 204 and 304, whatever its fields say', async () => {
    const fields = 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n'
    assert.match(await world.through(`HTTP/1.1 200 OK\r\n${fields}`, '1.1', 'HEAD'), /^HTTP\/1\.1 200 OK\r\n/)
    assert.match(await world.through(`HTTP/1.1 204 No Content\r\n${fields}`), /^HTTP\/1\.1 204 /)
    assert.match(await world.through(`HTTP/1.1 304 Not Modified\r\n${fields}`), /^HTTP\/1\.1 304 /)
  })

  test('with ambiguous framing is the last one on its connection to the target', async () => {
    const before = world.connections()
    world.answerWith(
      ['HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
      true,
    )
    const talk = await talkTo(world.gateway.port)
    for (let n = 0; n < 3; n++) {
      talk.write(world.request())
      await talk.until('0\r\n\r\n')
    }
    assert.equal(world.connections(), before + 3)
    talk.socket.destroy()
  })

  test('agrees to an upgrade without naming the protocol', async () => {
    world.answerWith(['HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nat once'])
    const talk = await talkTo(world.gateway.port)
    talk.write(world.request().replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'))
    assert.match((await talk.rest()).toString(), /^HTTP\/1\.1 101 .*Upgrade: websocket\r\n\r\nat once$/s)
    talk.socket.destroy()
  })

  test('with a very long run of blanks takes little time', async () => {
    const startedMs = performance.now()
    const got = await world.through(
      `HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b${' '.repeat(200_000)}c\r\n\r\nok`,
    )
    assert.match(got, /\r\n\r\nok$/)
    assert.ok(performance.now() - startedMs < 2_000)
  })
})

describe('a request', () => {
  let world: Awaited<ReturnType<typeof openWorld>>
  before(async () => {
    world = await openWorld()
    world.answerWith(['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'])
  })
  after(() => world.close())
  const lineOf = async (requestLine: string, fields = ''): Promise<string> => {
    const talk = await talkTo(world.gateway.port)
    const bytes = `${requestLine.replaceAll('TARGET', `127.0.0.1:${world.target}`)}\r\n${authorization}${fields}\r\n`
    talk.write(Buffer.from(bytes, 'latin1'))
    const answer = (await talk.until('\r\n\r\n')).split('\r\n', 1)[0]!
    talk.socket.destroy()
    return answer === 'HTTP/1.1 200 OK' ? world.heads.at(-1)!.split('\r\n', 1)[0]! : answer
  }

  for (const path of [
    '/?a=`{|}^[]\\',
    "/?q='(x);*!$&,",
    '/a|b',
    '/a\\b',
    '/^{}"<>',
    `/${Buffer.from('süß/日本').toString('latin1')}?q=${Buffer.from('é').toString('latin1')}`,
    '/%zz%',
    '/?http://other.example/@x',
    '//double//slash',
  ])
    test(`keeps the path ${JSON.stringify(path)} unchanged`, async () => {
      assert.equal(await lineOf(`GET http://TARGET${path} HTTP/1.1`), `GET ${path} HTTP/1.1`)
    })

  test('may name ws://, which is forwarded as http', async () => {
    assert.equal(await lineOf('GET ws://TARGET/chat HTTP/1.1'), 'GET /chat HTTP/1.1')
    assert.equal(await lineOf('GET WS://TARGET/chat HTTP/1.1'), 'GET /chat HTTP/1.1')
    assert.match(await lineOf('GET wss://TARGET/chat HTTP/1.1'), /^HTTP\/1\.1 464 /)
  })

  test('of HTTP/1.0 is forwarded as HTTP/1.1, without its expectation and its upgrade', async () => {
    assert.equal(
      await lineOf(
        'GET http://TARGET/ HTTP/1.0',
        'Expect: 100-continue\r\nConnection: Upgrade\r\nUpgrade: x\r\n',
      ),
      'GET / HTTP/1.1',
    )
    assert.doesNotMatch(world.heads.at(-1)!, /expect|upgrade|connection/i)
  })

  test('may have an empty port, which means the default', async () => {
    // There is no listener on port 80 of this address, which a 400 would not try.
    assert.match(await lineOf('GET http://127.99.99.99:/ HTTP/1.1'), /^HTTP\/1\.1 502 /)
    assert.match(await lineOf('CONNECT 127.0.0.1: HTTP/1.1'), /^HTTP\/1\.1 400 /)
  })

  test('may name its host in UTF-8, which is resolved in ASCII', async () => {
    const host = Buffer.from('bücher.invalid').toString('latin1')
    assert.match(await lineOf(`GET http://${host}/ HTTP/1.1`), /^HTTP\/1\.1 50[24] /)
    assert.match(await lineOf(`CONNECT ${host}:443 HTTP/1.1`), /^HTTP\/1\.1 50[24] /)
    const fullwidth = Buffer.from('１２７.0.0.1').toString('latin1')
    assert.equal(await lineOf(`GET http://${fullwidth}:${world.target}/wide HTTP/1.1`), 'GET /wide HTTP/1.1')
    for (const bad of [
      '\xff',
      'a\xa0b',
      Buffer.from('a／b').toString('latin1'),
      Buffer.from('a＠b').toString('latin1'),
    ])
      assert.match(await lineOf(`GET http://${bad}/ HTTP/1.1`), /^HTTP\/1\.1 400 /)
  })

  test('is refused with 0xA0 next to a value that frames it', async () => {
    assert.match(
      await lineOf('POST http://TARGET/ HTTP/1.1', 'Content-Length: 0\xa0\r\n'),
      /^HTTP\/1\.1 400 /,
    )
    assert.match(
      await lineOf('POST http://TARGET/ HTTP/1.1', 'Transfer-Encoding: \xa0chunked\r\n'),
      /^HTTP\/1\.1 400 /,
    )
  })

  test('of the real curl passes with unusual characters', async () => {
    const port = world.gateway.port
    const answer = await curl(
      '--globoff',
      '-x',
      `http://tester1:secret1@127.0.0.1:${port}`,
      `http://127.0.0.1:${world.target}/ü|^?{"a"}\\`,
    )
    assert.equal(answer, 'ok')
  })
})
